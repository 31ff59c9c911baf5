package idtoken_test

import (
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/access"
)

const issuer = "https://berth.example.com"

var now = time.Unix(1_800_000_000, 0)

// pair is a key pair with its signer.
type pair struct {
	algorithm string
	public    []byte
	signer    *idtoken.Signer
}

func newPair(t testing.TB, id, algorithm string) pair {
	t.Helper()
	public, private, err := idtoken.Generate(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := idtoken.NewSigner(id, algorithm, private)
	if err != nil {
		t.Fatal(err)
	}
	return pair{algorithm, public, signer}
}

// verifier knows some keys by their IDs.
func verifier(keys map[string]pair) idtoken.Verifier {
	return idtoken.Verifier{
		Key: func(id string) (string, []byte, bool) {
			k, ok := keys[id]
			return k.algorithm, k.public, ok
		},
		Issuer: issuer,
		Now:    now,
	}
}

// goodClaims are those of a token for the servers.
func goodClaims() *idtoken.Claims {
	return &idtoken.Claims{
		Claims: jwt.Claims{
			Issuer:    issuer,
			Subject:   "global:default:web:api:server:default",
			Audience:  jwt.Audience{structs.DefaultAudience},
			Expiry:    jwt.NewNumericDate(now.Add(time.Hour)),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        "1",
		},
		Namespace: "default",
		JobID:     "web",
		AllocID:   "a",
		Task:      "server",
	}
}

func sign(t testing.TB, s *idtoken.Signer, c *idtoken.Claims) string {
	t.Helper()
	token, err := s.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestToken_SaysWhatWasSigned(t *testing.T) {
	for _, algorithm := range []string{access.KeyEdDSA, access.KeyRS256} {
		k := newPair(t, "k", algorithm)
		got, err := verifier(map[string]pair{"k": k}).Verify(sign(t, k.signer, goodClaims()))
		if err != nil || !reflect.DeepEqual(got, goodClaims()) {
			t.Errorf("%s: got %+v, error %v", algorithm, got, err)
		}
	}
}

// The names are those of the dialect, which other parties read.
func TestToken_NamesItsClaimsAsTheDialect(t *testing.T) {
	k := newPair(t, "the key", access.KeyEdDSA)
	parts := strings.Split(sign(t, k.signer, goodClaims()), ".")
	for i, want := range []string{
		`{"alg":"EdDSA","kid":"the key","typ":"JWT"}`,
		`{"aud":"nomadproject.io","exp":1800003600,"iat":1800000000,"iss":"https://berth.example.com","jti":"1",` +
			`"nbf":1800000000,"nomad_allocation_id":"a","nomad_job_id":"web","nomad_namespace":"default",` +
			`"nomad_task":"server","sub":"global:default:web:api:server:default"}`,
	} {
		got, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || string(got) != want {
			t.Errorf("part %d: got  %s\nwant %s", i, got, want)
		}
	}
}

// change returns good claims with a change.
func change(edit func(*idtoken.Claims)) *idtoken.Claims {
	c := goodClaims()
	edit(c)
	return c
}

func TestVerify_AsksTheClaims(t *testing.T) {
	k := newPair(t, "k", access.KeyEdDSA)
	at := func(d time.Duration) *jwt.NumericDate { return jwt.NewNumericDate(now.Add(d)) }
	for name, c := range map[string]struct {
		edit func(*idtoken.Claims)
		want string // a part of the error, "" for none
	}{
		"no change":           {func(*idtoken.Claims) {}, ""},
		"no issuer":           {func(c *idtoken.Claims) { c.Issuer = "" }, ""},
		"another issuer":      {func(c *idtoken.Claims) { c.Issuer = "https://evil.com" }, "another issuer"},
		"no audience":         {func(c *idtoken.Claims) { c.Audience = nil }, "for others"},
		"another audience":    {func(c *idtoken.Claims) { c.Audience = jwt.Audience{"vault.io"} }, "for others"},
		"ended":               {func(c *idtoken.Claims) { c.Expiry = at(-time.Minute) }, "has ended"},
		"ended on this clock": {func(c *idtoken.Claims) { c.Expiry = at(-59 * time.Second) }, ""},
		"no end":              {func(c *idtoken.Claims) { c.Expiry = nil }, ""},
		"no end for others": {func(c *idtoken.Claims) {
			c.Expiry = nil
			c.Audience = append(c.Audience, "vault.io")
		}, "no end"},
		"not yet":       {func(c *idtoken.Claims) { c.NotBefore = at(61 * time.Second) }, "begins at"},
		"not yet here":  {func(c *idtoken.Claims) { c.NotBefore = at(time.Minute) }, ""},
		"no allocation": {func(c *idtoken.Claims) { c.AllocID = "" }, "names no allocation"},
	} {
		_, err := verifier(map[string]pair{"k": k}).Verify(sign(t, k.signer, change(c.edit)))
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" && (!structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want denied with %q", name, err, c.want)
		}
	}
}

// asJSON returns a part of a token.
func asJSON(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// hmacToken is signed with the public key of a key pair as the secret.
func hmacToken(t *testing.T, id string, secret []byte) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.HS256,
		Key:       secret,
	}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(goodClaims()).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestVerify_TakesTheSignatureOfTheKeyAlone(t *testing.T) {
	rsa := newPair(t, "rsa", access.KeyRS256)
	ed := newPair(t, "ed", access.KeyEdDSA)
	thief := newPair(t, "ed", access.KeyEdDSA)
	mislabelled := pair{access.KeyRS256, ed.public, nil}
	v := verifier(map[string]pair{"rsa": rsa, "ed": ed, "mislabelled": mislabelled})

	good := strings.Split(sign(t, ed.signer, goodClaims()), ".")
	others := strings.Split(sign(t, ed.signer, change(func(c *idtoken.Claims) { c.JobID = "other" })), ".")
	none := asJSON(`{"alg":"none","kid":"ed"}`)
	asRSA := asJSON(`{"alg":"RS256","kid":"ed"}`)
	const forged = "the signature of the token is not that of its key"
	for name, c := range map[string]struct{ token, want string }{
		"another key with the ID": {sign(t, thief.signer, goodClaims()), forged},
		"other claims":            {good[0] + "." + others[1] + "." + good[2], forged},
		"no signature":            {good[0] + "." + good[1] + ".", forged},
		"alg none":                {none + "." + good[1] + ".", "not readable"},
		"alg none, signed":        {none + "." + good[1] + "." + good[2], "not readable"},
		"the public key as HMAC":  {hmacToken(t, "rsa", rsa.public), "not readable"},
		"another algorithm":       {asRSA + "." + good[1] + "." + good[2], "not signed with the algorithm"},
		"an unknown key": {
			sign(t, newPair(t, "gone", access.KeyEdDSA).signer, goodClaims()), "is unknown here"},
		"a key of another kind": {
			sign(t, newPair(t, "mislabelled", access.KeyRS256).signer, goodClaims()), "no key of the algorithm"},
		"no token":       {"a.b.c", "not readable"},
		"nothing":        {"", "not readable"},
		"an endless one": {strings.Repeat("a", idtoken.MaxToken+1), "4097 bytes"},
	} {
		_, err := v.Verify(c.token)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want denied with %q", name, err, c.want)
		}
		if c.token != "" && err != nil && strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: the error shows the token", name)
		}
	}
}

func TestSign_BoundsTheToken(t *testing.T) {
	k := newPair(t, "k", access.KeyRS256)
	long := change(func(c *idtoken.Claims) { c.Audience = jwt.Audience{strings.Repeat("a", 3000)} })
	_, err := k.signer.Sign(long)
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}

func TestNewSigner_DoesNotShowTheKey(t *testing.T) {
	_, err := idtoken.NewSigner("k", access.KeyEdDSA, []byte("not a key"))
	if !structs.IsKind(err, structs.KindInternal) || strings.Contains(err.Error(), "not a key") {
		t.Errorf("got %v", err)
	}
}

func TestIsToken_TakesNoUUID(t *testing.T) {
	for text, want := range map[string]bool{"a.b.c": true, structs.NewID(): false, "": false, "a.b.c.d": false} {
		if got := idtoken.IsToken(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

func FuzzVerify(f *testing.F) {
	k := newPair(f, "k", access.KeyEdDSA)
	v := verifier(map[string]pair{"k": k})
	good := sign(f, k.signer, goodClaims())
	f.Add(good)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		c, err := v.Verify(token)
		if err == nil && c.AllocID != "a" {
			t.Errorf("a forged token says %+v", c)
		}
	})
}

func BenchmarkToken(b *testing.B) {
	for _, algorithm := range []string{access.KeyEdDSA, access.KeyRS256} {
		k := newPair(b, "k", algorithm)
		v := verifier(map[string]pair{"k": k})
		token := sign(b, k.signer, goodClaims())
		b.Run("sign/"+algorithm, func(b *testing.B) {
			for b.Loop() {
				_ = sign(b, k.signer, goodClaims())
			}
		})
		b.Run("verify/"+algorithm, func(b *testing.B) {
			for b.Loop() {
				_, _ = v.Verify(token)
			}
		})
	}
}
