package access

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"berth/structs"
)

// The types of tokens. A management token may do everything. A client token may do what its policies and
// roles give.
const (
	TypeManagement = "management"
	TypeClient     = "client"
)

// Anonymous is the secret that the HTTP API sends for a caller without a token, so that an agent does not
// lend its own rights to its callers.
const Anonymous = "anonymous"

// AnonymousPolicy is the name of the policy for requests without a token.
const AnonymousPolicy = "anonymous"

// Token is the row of a token. Key: AccessorID. The secret is no part of it: the row has the hash, and the
// answer to the request that makes the token alone has the secret.
type Token struct {
	AccessorID string
	SecretHash []byte `json:"-" codec:"SecretHash"` // see HashSecret
	Name       string
	Type       string
	Policies   []string // names; a client token has policies or roles
	Roles      []*Link
	Global     bool   // of the dialect, without an effect
	AuthMethod string `json:",omitempty"` // of its login; "": it is of none
	CreateTime int64  // UnixNano
	ExpireTime int64  // UnixNano; 0: never
	structs.Indexes
}

// HashSecret returns what a row has of a secret. A secret has 122 random bits, so its hash needs no salt.
func HashSecret(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// Expired reports whether a token has ended at a time, in UnixNano.
func (t *Token) Expired(now int64) bool {
	return t.ExpireTime != 0 && t.ExpireTime <= now
}

type plainToken Token

// tokenJSON hides the number of the row behind a time of the same name. The dialect has no ExpireTime.
type tokenJSON struct {
	plainToken
	CreateTime     time.Time
	ExpireTime     *int64     `json:",omitempty"`
	ExpirationTime *time.Time `json:",omitempty"`
}

func (t Token) json() tokenJSON {
	v := tokenJSON{
		plainToken: plainToken(t),
		CreateTime: time.Unix(0, t.CreateTime).UTC(),
	}
	if t.ExpireTime != 0 {
		v.ExpirationTime = new(time.Unix(0, t.ExpireTime).UTC())
	}
	return v
}

func (v tokenJSON) token() Token {
	t := Token(v.plainToken)
	t.CreateTime = v.CreateTime.UnixNano()
	t.ExpireTime = 0
	if v.ExpirationTime != nil {
		t.ExpireTime = v.ExpirationTime.UnixNano()
	}
	return t
}

// MarshalJSON writes the times as the dialect has them.
func (t Token) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.json())
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (t *Token) UnmarshalJSON(b []byte) error {
	var v tokenJSON
	err := json.Unmarshal(b, &v)
	if err != nil {
		return err
	}

	*t = v.token()
	return nil
}

// Bootstrap makes the first management token. It does so again after a reset: see docs/operations/acl.md. The
// error is a conflict otherwise.
var Bootstrap = structs.Write[BootstrapRequest, TokenPutResponse]("ACL.Bootstrap")

// BootstrapRequest may have the secret that the token gets, a UUID. "": the leader draws one.
type BootstrapRequest struct {
	Secret string `json:"-" codec:"Secret"`
	structs.WriteOptions
}

// TokenList lists the tokens. Only a management token may.
var TokenList = structs.Read[TokenListRequest, TokenListResponse]("ACL.ListTokens")

// TokenListRequest asks for tokens of one type, "" for all.
type TokenListRequest struct {
	Type string
	structs.QueryOptions
}

// TokenListResponse has the tokens by accessor.
type TokenListResponse struct {
	Tokens []*Token
	structs.QueryMeta
}

// TokenGet reads a token: any for a management token, otherwise the caller's. The error is not-found.
var TokenGet = structs.Read[TokenGetRequest, TokenGetResponse]("ACL.GetToken")

// TokenGetRequest names the token. "" is the caller's.
type TokenGetRequest struct {
	AccessorID string
	structs.QueryOptions
}

// TokenGetResponse has the token.
type TokenGetResponse struct {
	Token *Token
	structs.QueryMeta
}

// TokenPut makes a token, or changes the name, the policies and the roles of the one with the accessor. The
// type and the end of a token never change.
var TokenPut = structs.Write[TokenPutRequest, TokenPutResponse]("ACL.UpsertToken")

// TokenPutRequest has the token as it is to be. TTL is how long a new token lives: 0 is without an end,
// unless the Token has one.
type TokenPutRequest struct {
	Token *Token
	TTL   time.Duration
	structs.WriteOptions
}

// TokenPutResponse has the token as it is stored, and the secret of a new one.
type TokenPutResponse struct {
	Token    *Token
	SecretID string
	structs.WriteMeta
}

// Open returns the token with its secret, as the dialect has it.
func (r *TokenPutResponse) Open() *OpenToken {
	return &OpenToken{Token: *r.Token, SecretID: r.SecretID}
}

// OpenToken is a token with its secret, "" where nobody knows it any more.
type OpenToken struct {
	Token
	SecretID string
}

type openTokenJSON struct {
	tokenJSON
	SecretID string
}

// MarshalJSON writes the token with its secret.
func (t OpenToken) MarshalJSON() ([]byte, error) {
	return json.Marshal(openTokenJSON{
		tokenJSON: t.Token.json(),
		SecretID:  t.SecretID,
	})
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (t *OpenToken) UnmarshalJSON(b []byte) error {
	var v openTokenJSON
	err := json.Unmarshal(b, &v)
	if err != nil {
		return err
	}

	t.Token = v.token()
	t.SecretID = v.SecretID
	return nil
}

// TokenDelete deletes a token. The error is not-found. The token of a login may delete itself.
var TokenDelete = structs.Write[TokenDeleteRequest, structs.Empty]("ACL.DeleteToken")

// TokenDeleteRequest names the token.
type TokenDeleteRequest struct {
	AccessorID string
	// Keep is how long the deletion is remembered. The leader sets it, by its configuration.
	Keep time.Duration `json:"-" codec:"Keep,omitempty"`
	structs.WriteOptions
}

// DeletedToken is the row of a token that was deleted. Key: AccessorID. The restore of an older archive does
// not bring the token back.
type DeletedToken struct {
	AccessorID string
	Time       int64 // UnixNano, of the deletion
	End        int64 // UnixNano, from which on the row is of no use
	structs.Indexes
}

// The payloads of the log entries about tokens. They have the hash of the secret in place of the secret.
type (
	// BootstrapChange stores the first management token. ResetIndex is 0, or the index of the last such
	// entry, which then happens again.
	BootstrapChange struct {
		Token      *Token
		ResetIndex uint64
		Now        int64 // UnixNano
	}

	// TokenChange stores a new token, or the name, the policies and the roles of a known one.
	TokenChange struct {
		Token *Token
		Now   int64 // UnixNano
	}

	// TokensExpireRequest deletes tokens that have ended.
	TokensExpireRequest struct {
		Now int64 // UnixNano
	}
)

// BootstrapMark is the one row that says that the first management token was made. Its ModifyIndex names the
// last time.
type BootstrapMark struct {
	structs.Indexes
}
