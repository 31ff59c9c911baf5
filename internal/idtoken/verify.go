package idtoken

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"berth/structs"
)

// MaxToken is the greatest length of a token in bytes.
const MaxToken = 4096

// leeway is how much the clocks of two servers may differ.
const leeway = time.Minute

// IsToken reports whether a secret has the form of a token. No other secret has dots.
func IsToken(secret string) bool { return strings.Count(secret, ".") == 2 }

// Ends returns the time from which no server takes the token: its end, with the leeway. A token without an
// end has the zero time: it ends with its allocation.
func (c *Claims) Ends() time.Time {
	if c.Expiry == nil {
		return time.Time{}
	}
	return c.Expiry.Time().Add(leeway)
}

// KeyID returns the ID of the key that has signed a token, by the word of its header alone, "" without one.
func KeyID(token string) string {
	var header struct {
		KeyID string `json:"kid"`
	}
	text, _, _ := strings.Cut(token, ".")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(b, &header) != nil {
		return ""
	}
	return header.KeyID
}

// Verifier reads tokens for the servers themselves.
type Verifier struct {
	// Key returns the algorithm and the public key (PKIX in DER) of a signing key. ok is false if there is none.
	Key func(id string) (algorithm string, public []byte, ok bool)
	// Issuer is the issuer that a token may name. A token without one is of a time before the setting.
	Issuer string
	Now    time.Time
}

// Verify returns what a token says. The error is of kind denied. It does not quote the token. With an error
// the claims are nil, unless a key has signed them and they are not for the servers at this time.
func (v Verifier) Verify(token string) (*Claims, error) {
	if len(token) > MaxToken {
		return nil, structs.Deniedf("the token has %d bytes; expected at most %d", len(token), MaxToken)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil || len(parsed.Headers) != 1 {
		return nil, structs.Deniedf("the token is not readable: expected the identity of a workload, which is " +
			"signed with EdDSA or RS256")
	}

	header := parsed.Headers[0]
	algorithm, der, known := v.Key(header.KeyID)
	if !known {
		return nil, structs.Deniedf("the key of the token is unknown here: the servers have removed it, or it is of another cluster")
	}
	// The key decides about the algorithm, and not the token.
	if header.Algorithm != algorithm {
		return nil, structs.Deniedf("the token is not signed with the algorithm of its key, %s", algorithm)
	}
	public, err := readPublic(algorithm, der)
	if err != nil {
		return nil, structs.Deniedf("the key of the token: %w", err)
	}

	var c Claims
	err = parsed.Claims(public, &c)
	if err != nil {
		return nil, structs.Deniedf("the signature of the token is not that of its key")
	}
	return &c, v.check(&c)
}

// check returns an error unless claims are for the servers, at this time.
func (v Verifier) check(c *Claims) error {
	at := func(d *jwt.NumericDate) string { return d.Time().UTC().Format(time.RFC3339) }
	switch {
	case c.Issuer != "" && c.Issuer != v.Issuer:
		return structs.Deniedf("the token is of another issuer than %q", v.Issuer)
	case !slices.Contains(c.Audience, structs.DefaultAudience):
		return structs.Deniedf("the token is for others: its audience is not %s", structs.DefaultAudience)
	case c.AllocID == "":
		return structs.Deniedf("the token names no allocation")
	case c.Expiry == nil && len(c.Audience) > 1:
		return structs.Deniedf("the token has no end, and is for others, too")
	case c.Expiry != nil && !v.Now.Before(c.Ends()):
		return structs.Deniedf("the token has ended at %s; its node renews it: read it again", at(c.Expiry))
	case c.NotBefore != nil && v.Now.Add(leeway).Before(c.NotBefore.Time()):
		return structs.Deniedf("the token begins at %s, by the clock of the server that signed it: "+
			"compare the clocks of the servers", at(c.NotBefore))
	}
	return nil
}
