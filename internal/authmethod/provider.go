package authmethod

import (
	"context"
	"time"

	"github.com/hashicorp/cap/oidc"

	"berth/structs"
	"berth/structs/access"
)

// exchangeTime bounds the time between the check of a login and the answer of its provider.
const exchangeTime = time.Minute

// provider is an OIDC provider, with the parts of its description that the library does not use.
type provider struct {
	*oidc.Provider
	hasUserInfo bool
}

func newProvider(v *verifier) (*provider, error) {
	c := v.method.Config
	secret := oidc.ClientSecret(v.secrets.OIDCClientSecret)
	if c.OIDCClientAssertion != nil {
		secret = "" // the client proves itself by the assertion alone
	}
	algs := []oidc.Alg{oidc.RS256}
	if len(c.SigningAlgs) > 0 {
		algs = nil
		for _, a := range c.SigningAlgs {
			algs = append(algs, oidc.Alg(a))
		}
	}

	config, err := oidc.NewConfig(c.OIDCDiscoveryURL, c.OIDCClientID, secret, algs, c.AllowedRedirectURIs,
		oidc.WithAudiences(c.BoundAudiences...), oidc.WithRoundTripper(v.transport), oidc.WithNow(v.now))
	if err != nil {
		return nil, err
	}
	p, err := oidc.NewProvider(config)
	if err != nil {
		return nil, err
	}

	var described struct {
		UserInfoURL string `json:"userinfo_endpoint"`
	}
	err = p.Claims(&described)
	if err != nil {
		p.Done()
		return nil, err
	}
	return &provider{Provider: p, hasUserInfo: described.UserInfoURL != ""}, nil
}

// Begun has the values of a login by OIDC that both of its steps need.
type Begun struct {
	RedirectURI string
	Nonce       access.Secret // drawn by the caller
	State       access.Secret
	Verifier    access.Secret // of PKCE
}

// request returns what the library needs to know about a login.
func (v *verifier) request(b Begun) (*oidc.Req, error) {
	pkce, err := oidc.NewCodeVerifier(oidc.WithVerifier(string(b.Verifier)))
	if err != nil {
		return nil, structs.Internalf("the verifier of a login is not valid")
	}
	options := []oidc.Option{
		oidc.WithNonce(string(b.Nonce)),
		oidc.WithState(string(b.State)),
		oidc.WithPKCE(pkce),
		oidc.WithNow(v.now),
		oidc.WithScopes(v.method.Config.OIDCScopes...),
	}
	if v.method.Config.OIDCClientAssertion != nil {
		signed, err := assertion(v.method.Config, v.secrets)
		if err != nil {
			return nil, err
		}
		options = append(options, oidc.WithClientAssertionJWT(signed))
	}

	r, err := oidc.NewRequest(exchangeTime, b.RedirectURI, options...)
	if err != nil {
		return nil, structs.Invalidf("the login: %w", err)
	}
	return r, nil
}

// authURL returns the address at the provider that the browser visits.
func (v *verifier) authURL(ctx context.Context, b Begun) (string, error) {
	r, err := v.request(b)
	if err != nil {
		return "", err
	}
	address, err := v.oidc.AuthURL(ctx, r)
	if err != nil {
		return "", structs.Invalidf("RedirectURI is %q, which AllowedRedirectURIs of auth method %s does not have",
			cut(b.RedirectURI), v.method.Name)
	}
	return address, nil
}

// exchange gives the code of a browser to the provider and returns the claims of the person. Claims of the
// signed token win over what the provider tells besides.
func (v *verifier) exchange(ctx context.Context, b Begun, code access.Secret) (map[string]any, error) {
	r, err := v.request(b)
	if err != nil {
		return nil, err
	}
	doing := "completing the login with auth method " + v.method.Name
	token, err := v.oidc.Exchange(ctx, r, string(b.State), string(code))
	if err != nil {
		return nil, failed(doing, err)
	}
	var claims map[string]any
	err = token.IDToken().Claims(&claims)
	if err != nil {
		return nil, failed(doing, err)
	}

	if v.method.Config.OIDCDisableUserInfo || !v.oidc.hasUserInfo || token.AccessToken() == "" {
		return claims, nil
	}
	subject, _ := claims["sub"].(string)
	var told map[string]any
	err = v.oidc.UserInfo(ctx, token.StaticTokenSource(), subject, &told)
	if err != nil {
		return nil, failed(doing, err)
	}
	for name, value := range told {
		if _, signed := claims[name]; !signed {
			claims[name] = value
		}
	}
	return claims, nil
}
