package access

import (
	"context"

	"berth/api"
	"berth/structs/access"
)

var tokenLogin = api.NewEndpoint(&table, api.Put, "/v1/acl/login",
	api.ServeMethod(access.TokenLogin, bindTokenLogin, (*access.TokenPutResponse).Open))

// tokenLoginBody is the body of a login by a JWT.
type tokenLoginBody struct {
	AuthMethodName string
	LoginToken     access.Secret
}

func bindTokenLogin(c *api.Call, req *access.TokenLoginRequest) error {
	var b tokenLoginBody
	err := c.DecodeBody(&b)
	req.AuthMethodName = b.AuthMethodName
	req.LoginToken = b.LoginToken
	req.Source = api.Source(c)
	return err
}

// Login makes a token for the holder of a JWT. Without a name it is the default method of type JWT.
func Login(
	ctx context.Context, c *api.Client, method string, token access.Secret,
) (*access.OpenToken, error) {
	return tokenLogin.Send(ctx, c, api.Request{Body: tokenLoginBody{method, token}})
}

var authURL = api.NewEndpoint(&table, api.Put, "/v1/acl/oidc/auth-url",
	api.ServeMethod(access.AuthURL, bindAuthURL, func(a *access.AuthURLResponse) *AuthURLAnswer {
		return &AuthURLAnswer{a.AuthURL}
	}))

// AuthURLBody begins a login by OIDC. The caller draws ClientNonce at random.
type AuthURLBody struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    access.Secret
}

// AuthURLAnswer has the address that the browser visits.
type AuthURLAnswer struct {
	AuthURL string
}

func bindAuthURL(c *api.Call, req *access.AuthURLRequest) error {
	var b AuthURLBody
	err := c.DecodeBody(&b)
	req.AuthMethodName = b.AuthMethodName
	req.RedirectURI = b.RedirectURI
	req.ClientNonce = b.ClientNonce
	req.Source = api.Source(c)
	return err
}

// AuthURL begins a login by OIDC and returns the address that the browser visits.
func AuthURL(ctx context.Context, c *api.Client, b AuthURLBody) (string, error) {
	a, err := authURL.Send(ctx, c, api.Request{Body: b})
	if err != nil {
		return "", err
	}
	return a.AuthURL, nil
}

var completeAuth = api.NewEndpoint(&table, api.Put, "/v1/acl/oidc/complete-auth",
	api.ServeMethod(access.CompleteAuth, bindCompleteAuth, (*access.TokenPutResponse).Open))

// CompleteAuthBody ends a login by OIDC: it has the values of its beginning and of the provider's answer to
// the browser.
type CompleteAuthBody struct {
	AuthMethodName string
	ClientNonce    access.Secret
	State          access.Secret
	Code           access.Secret
	Iss            string
	RedirectURI    string
}

func bindCompleteAuth(c *api.Call, req *access.CompleteAuthRequest) error {
	var b CompleteAuthBody
	err := c.DecodeBody(&b)
	req.AuthMethodName = b.AuthMethodName
	req.ClientNonce = b.ClientNonce
	req.State = b.State
	req.Code = b.Code
	req.Iss = b.Iss
	req.RedirectURI = b.RedirectURI
	req.Source = api.Source(c)
	return err
}

// CompleteAuth ends a login by OIDC and returns the token.
func CompleteAuth(ctx context.Context, c *api.Client, b CompleteAuthBody) (*access.OpenToken, error) {
	return completeAuth.Send(ctx, c, api.Request{Body: b})
}

var oneTimeMake = api.NewEndpoint(&table, api.Put, "/v1/acl/token/onetime",
	api.ServeMethod(access.OneTimeMake, nil, func(a *access.OneTimeMakeResponse) *OneTimeAnswer {
		return &OneTimeAnswer{a.OneTimeToken}
	}))

// OneTimeAnswer has a one-time token.
type OneTimeAnswer struct {
	OneTimeToken *access.OpenOneTimeToken
}

// MakeOneTime makes a one-time token for the token of the caller.
func MakeOneTime(ctx context.Context, c *api.Client) (*access.OpenOneTimeToken, error) {
	a, err := oneTimeMake.Send(ctx, c, api.Request{})
	if err != nil {
		return nil, err
	}
	return a.OneTimeToken, nil
}

var oneTimeExchange = api.NewEndpoint(&table, api.Put, "/v1/acl/token/onetime/exchange",
	api.ServeMethod(access.OneTimeExchange, bindExchange, func(a *access.TokenPutResponse) *ExchangeAnswer {
		return &ExchangeAnswer{a.Open()}
	}))

type exchangeBody struct {
	OneTimeSecretID access.Secret
}

// ExchangeAnswer has the token of a one-time token, with its secret.
type ExchangeAnswer struct {
	Token *access.OpenToken
}

func bindExchange(c *api.Call, req *access.OneTimeExchangeRequest) error {
	var b exchangeBody
	err := c.DecodeBody(&b)
	req.OneTimeSecretID = b.OneTimeSecretID
	req.Source = api.Source(c)
	return err
}

// ExchangeOneTime returns the token of a one-time token, which ends with that.
func ExchangeOneTime(ctx context.Context, c *api.Client, secret access.Secret) (*access.OpenToken, error) {
	a, err := oneTimeExchange.Send(ctx, c, api.Request{Body: exchangeBody{secret}})
	if err != nil {
		return nil, err
	}
	return a.Token, nil
}
