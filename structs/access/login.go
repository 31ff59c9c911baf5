package access

import (
	"time"

	"berth/structs"
)

// TokenLogin makes a token for the holder of a JWT. The error is denied if the JWT is not valid for the
// method, or no binding rule gives anything.
var TokenLogin = structs.Write[TokenLoginRequest, TokenPutResponse]("ACL.Login")

// TokenLoginRequest has the JWT.
type TokenLoginRequest struct {
	AuthMethodName string
	LoginToken     Secret
	Source         string `json:"-" codec:"Source"` // address of the caller at its agent
	structs.WriteOptions
}

// AuthURL begins a login by OIDC: it returns the address that the browser of the caller visits.
var AuthURL = structs.Write[AuthURLRequest, AuthURLResponse]("ACL.OIDCAuthURL")

// AuthURLRequest says where the provider sends the browser afterwards. The caller draws ClientNonce, and
// gives it again when it completes the login.
type AuthURLRequest struct {
	AuthMethodName string
	RedirectURI    string
	ClientNonce    Secret
	Source         string `json:"-" codec:"Source"` // address of the caller at its agent
	structs.WriteOptions
}

// AuthURLResponse has the address.
type AuthURLResponse struct {
	AuthURL           string
	structs.WriteMeta `json:"-"`
}

// CompleteAuth ends a login by OIDC and makes a token. The errors are as in TokenLogin. A login that has
// made a token cannot be completed again: that is denied.
var CompleteAuth = structs.Write[CompleteAuthRequest, TokenPutResponse]("ACL.OIDCCompleteAuth")

// CompleteAuthRequest has the values that the provider gave to the browser.
type CompleteAuthRequest struct {
	AuthMethodName string
	ClientNonce    Secret
	State          Secret
	Code           Secret
	Iss            string // the issuer as the provider names it; "" if it does not
	RedirectURI    string
	Source         string `json:"-" codec:"Source"` // address of the caller at its agent
	structs.WriteOptions
}

// LoginChange is the payload of the log entry of a login: the token, with the version of the method by which
// it was decided.
type LoginChange struct {
	Token       *Token
	Method      string
	MethodIndex uint64     // ModifyIndex of the method
	Mark        *LoginMark // nil for a JWT
	Now         int64      // UnixNano
}

// LoginMark is the row of a completed login by OIDC, until its state could not be used again anyway. Key: ID.
type LoginMark struct {
	ID  string
	End int64 // UnixNano
	structs.Indexes
}

// OneTimeToken is the row of a secret that gives the secret of a token once. Key: Hash. Only its holder can
// open Box: the key derives from the one-time secret, of which the row has a hash.
type OneTimeToken struct {
	Hash       []byte // see access.HashSecret
	Box        []byte // the secret of the token, encrypted
	AccessorID string // of the token
	End        int64  // UnixNano
	structs.Indexes
}

// OneTimeMake makes a one-time token for the token of the caller.
var OneTimeMake = structs.Write[OneTimeMakeRequest, OneTimeMakeResponse]("ACL.UpsertOneTimeToken")

// OneTimeMakeRequest has nothing but the token of the caller in its options.
type OneTimeMakeRequest struct {
	// Caller is the secret of the token of the caller. The server that answers sets it. It crosses no wire.
	Caller Secret `json:"-" codec:"-"`
	structs.WriteOptions
}

// KeepSecret keeps the secret of the caller for the handler: the middleware takes it out of the options.
func (r *OneTimeMakeRequest) KeepSecret(secret string) { r.Caller = Secret(secret) }

// OneTimeMakeResponse has the one-time token with its secret.
type OneTimeMakeResponse struct {
	OneTimeToken      *OpenOneTimeToken
	structs.WriteMeta `json:"-"`
}

// OpenOneTimeToken is a one-time token with its secret, as the dialect has it.
type OpenOneTimeToken struct {
	OneTimeSecretID Secret
	AccessorID      string
	ExpiresAt       time.Time
	structs.Indexes
}

// OneTimeExchange gives the token of a one-time token, with its secret, and ends the one-time token. The
// error is denied if there is none.
var OneTimeExchange = structs.Write[OneTimeExchangeRequest,
	TokenPutResponse]("ACL.ExchangeOneTimeToken")

// OneTimeExchangeRequest has the secret.
type OneTimeExchangeRequest struct {
	OneTimeSecretID Secret
	Source          string `json:"-" codec:"Source"` // address of the caller at its agent
	structs.WriteOptions
}

// OneTimeChange is the payload of the log entries about one-time tokens: it stores Put, or uses the one with
// the hash Use.
type OneTimeChange struct {
	Put *OneTimeToken
	Use []byte
	Now int64 // UnixNano
}
