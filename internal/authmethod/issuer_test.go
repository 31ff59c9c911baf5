package authmethod_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"berth/internal/authmethod"
	"berth/internal/authmethod/issuertest"
	"berth/structs"
	"berth/structs/access"
)

// jwtMethod returns a method for the JWTs of a provider.
func jwtMethod(i *issuertest.Issuer, change func(*access.AuthConfig)) authmethod.Method {
	c := &access.AuthConfig{
		JWKSURL:        i.URL + "/keys",
		BoundAudiences: []string{issuertest.Client},
		BoundIssuer:    []string{i.URL},
	}
	if change != nil {
		change(c)
	}
	m := &access.AuthMethod{Name: "ci", Type: access.MethodJWT, Config: c}
	m.ModifyIndex = 7
	return authmethod.Method{AuthMethod: m}
}

func verify(t *testing.T, m authmethod.Method, token string) (map[string]any, error) {
	t.Helper()
	return authmethod.NewCache(time.Now).VerifyToken(t.Context(), m, access.Secret(token))
}

func TestVerifyToken_TakesKeysFromEachSource(t *testing.T) {
	i := issuertest.New(t)
	for name, change := range map[string]func(*access.AuthConfig){
		"keys":        nil,
		"static":      func(c *access.AuthConfig) { c.JWKSURL = ""; c.JWTValidationPubKeys = []string{i.PublicKey()} },
		"description": func(c *access.AuthConfig) { c.JWKSURL = ""; c.OIDCDiscoveryURL = i.URL; c.BoundIssuer = nil },
	} {
		m := jwtMethod(i, change)
		if err := authmethod.Check(m.AuthMethod, m.Secrets); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		claims, err := verify(t, m, i.JWT(map[string]any{"sub": "ann"}))
		if err != nil || claims["sub"] != "ann" {
			t.Errorf("%s: got %v, %v", name, claims, err)
		}
	}
}

func TestVerifyToken_DeniesWhatTheMethodDoesNotTake(t *testing.T) {
	i := issuertest.New(t)
	other := issuertest.New(t)
	now := time.Now()
	static := func(c *access.AuthConfig) {
		c.JWKSURL = ""
		c.JWTValidationPubKeys = []string{i.PublicKey()}
	}
	for name, c := range map[string]struct {
		change func(*access.AuthConfig)
		token  string
		want   string
	}{
		"no token":          {nil, "", "not valid"},
		"another signature": {static, other.JWT(map[string]any{"iss": i.URL}), "signature"},
		"another issuer":    {nil, i.JWT(map[string]any{"iss": "https://x"}), "BoundIssuer"},
		"issuer of the description": {func(c *access.AuthConfig) {
			c.JWKSURL = ""
			c.OIDCDiscoveryURL = i.URL
			c.BoundIssuer = nil
		}, i.JWT(map[string]any{"iss": "https://x"}), "expected"},
		"another audience": {nil, i.JWT(map[string]any{"aud": "x"}), "(aud)"},
		"unbound audience": {func(c *access.AuthConfig) { c.BoundAudiences = nil }, i.JWT(nil),
			"BoundAudiences"},
		"ended": {nil, i.JWT(map[string]any{"exp": now.Add(-2 * time.Minute).Unix()}),
			"expired"},
		"ended without skew": {func(c *access.AuthConfig) { c.ClockSkewLeeway = -1 },
			i.JWT(map[string]any{"exp": now.Add(-10 * time.Second).Unix()}), "expired"},
		"not begun": {nil, i.JWT(map[string]any{"nbf": now.Add(2 * time.Minute).Unix()}),
			"not yet valid"},
		"no times": {nil, i.JWT(map[string]any{"iat": 0, "exp": 0}), "no issued at"},
		"another algorithm": {func(c *access.AuthConfig) { c.SigningAlgs = []string{"RS512"} }, i.JWT(nil),
			"algorithm"},
		"secret of a public key": {static, issuertest.Sign(t, jose.SigningKey{
			Algorithm: jose.HS256, Key: []byte(i.PublicKey()),
		}, "key-1", map[string]any{"iss": i.URL, "aud": issuertest.Client,
			"exp": now.Add(time.Hour).Unix()}), "not valid"},
		"no signature": {static, "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "not valid"},
	} {
		_, err := verify(t, jwtMethod(i, c.change), c.token)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want denied with %q", name, err, c.want)
		}
	}

	within := i.JWT(map[string]any{"exp": now.Add(-10 * time.Second).Unix()})
	if _, err := verify(t, jwtMethod(i, nil), within); err != nil {
		t.Errorf("a clock that is 10 s behind: %v", err)
	}
}

// The keys are read once, again for a key that is new, and for nothing else.
func TestCache_ReadsTheKeysOnceAndForANewKey(t *testing.T) {
	i := issuertest.New(t)
	c := authmethod.NewCache(time.Now)
	m := jwtMethod(i, nil)
	valid := i.JWT(nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := c.VerifyToken(t.Context(), m, access.Secret(valid))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := i.Requests("/keys"); n > 8 || n < 1 {
		t.Errorf("the keys were read %d times", n)
	}
	// go-oidc stores the keys after it has answered: the next login may still read them, the one after it not.
	_, _ = c.VerifyToken(t.Context(), m, access.Secret(valid))
	before := i.Requests("/keys")
	_, _ = c.VerifyToken(t.Context(), m, access.Secret(valid))
	if n := i.Requests("/keys"); n != before {
		t.Errorf("a known key: the keys were read %d times more", n-before)
	}

	i.Rotate("key-2")
	_, err := c.VerifyToken(t.Context(), m, access.Secret(i.JWT(nil)))
	if err != nil {
		t.Errorf("a new key: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err == nil && ctx.Err() == nil { // until the new keys are stored
		_, err = c.VerifyToken(t.Context(), m, access.Secret(valid))
	}
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a withdrawn key: got %v, want denied", err)
	}
}

func TestCache_ForgetsKeysAfterAWhile(t *testing.T) {
	i := issuertest.New(t)
	now := time.Now()
	c := authmethod.NewCache(func() time.Time { return now })
	m := jwtMethod(i, nil)
	old := access.Secret(i.JWT(nil))
	_, err := c.VerifyToken(t.Context(), m, old)
	if err != nil {
		t.Fatal(err)
	}

	i.Rotate("key-2")
	now = now.Add(4 * time.Minute)
	_, err = c.VerifyToken(t.Context(), m, old)
	if err != nil {
		t.Errorf("before the end of the keys: %v", err)
	}
	now = now.Add(2 * time.Minute)
	_, err = c.VerifyToken(t.Context(), m, old)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a key that the provider has withdrawn: got %v, want denied", err)
	}
}

func TestCache_UsesTheConfigurationOfItsVersion(t *testing.T) {
	i := issuertest.New(t)
	c := authmethod.NewCache(time.Now)
	m := jwtMethod(i, nil)
	token := access.Secret(i.JWT(nil))
	_, err := c.VerifyToken(t.Context(), m, token)
	if err != nil {
		t.Fatal(err)
	}
	m = jwtMethod(i, func(c *access.AuthConfig) { c.BoundAudiences = []string{"x"} })
	m.ModifyIndex = 8
	_, err = c.VerifyToken(t.Context(), m, token)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v, want denied", err)
	}
}

// A provider that is away is no fault of the token.
func TestCache_TellsAnAbsentProviderFromABadToken(t *testing.T) {
	i := issuertest.New(t)
	token := i.JWT(nil)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for name, change := range map[string]func(*access.AuthConfig){
		"keys":        func(c *access.AuthConfig) { c.JWKSURL = away.URL },
		"description": func(c *access.AuthConfig) { c.JWKSURL = ""; c.OIDCDiscoveryURL = away.URL },
	} {
		_, err := verify(t, jwtMethod(i, change), token)
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: got %v, want unavailable", name, err)
		}
	}
}

// A token that names an unknown key makes a server read the keys again, which must not be at anybody's pace.
func TestCache_BoundsTheReadsOfKeys(t *testing.T) {
	i := issuertest.New(t)
	c := authmethod.NewCache(time.Now)
	bad := issuertest.New(t)
	bad.Rotate("unknown")
	var err error
	for range 20 {
		_, err = c.VerifyToken(t.Context(), jwtMethod(i, nil),
			access.Secret(bad.JWT(map[string]any{"iss": i.URL})))
	}
	if structs.RetryAfter(err) == 0 {
		t.Errorf("got %v, want unavailable with a time to wait", err)
	}
	if n := i.Requests("/keys"); n > 10 {
		t.Errorf("the keys were read %d times", n)
	}
}

// oidcMethod returns a method for people of a provider.
func oidcMethod(i *issuertest.Issuer) authmethod.Method {
	m := &access.AuthMethod{Name: "corp", Type: access.MethodOIDC, Config: &access.AuthConfig{
		OIDCDiscoveryURL:    i.URL,
		OIDCClientID:        issuertest.Client,
		OIDCScopes:          []string{"groups"},
		BoundAudiences:      []string{issuertest.Client},
		AllowedRedirectURIs: []string{"http://localhost:4649/oidc/callback"},
	}}
	m.ModifyIndex = 9
	return authmethod.Method{AuthMethod: m, Secrets: access.AuthSecrets{OIDCClientSecret: "client-secret"}}
}

func begun() authmethod.Begun {
	return authmethod.Begun{
		RedirectURI: "http://localhost:4649/oidc/callback",
		Nonce:       "a-nonce",
		State:       "a-state",
		Verifier:    access.Secret(strings.Repeat("v", 43)),
	}
}

// complete logs a person in and returns the claims.
func complete(t *testing.T, i *issuertest.Issuer, m authmethod.Method,
	change func(*authmethod.Begun)) (map[string]any, error) {
	t.Helper()
	c := authmethod.NewCache(time.Now)
	b := begun()
	address, err := c.AuthURL(t.Context(), m, b)
	if err != nil {
		t.Fatal(err)
	}
	back := i.Browse(address)
	if change != nil {
		change(&b)
	}
	return c.Exchange(t.Context(), m, b, access.Secret(back.Get("code")))
}

func TestExchange_ReturnsTheClaimsOfThePerson(t *testing.T) {
	i := issuertest.New(t)
	i.Person(map[string]any{"sub": "ann", "groups": []string{"dev"}},
		map[string]any{"email": "ann@example.org", "groups": []string{"root"}})
	claims, err := complete(t, i, oidcMethod(i), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(claims["sub"], claims["email"], claims["groups"])
	if got != "ann ann@example.org [dev]\n" {
		t.Errorf("got %s, want the claims of the token before those that are told", got)
	}

	m := oidcMethod(i)
	m.Config.OIDCDisableUserInfo = true
	claims, err = complete(t, i, m, nil)
	if err != nil || claims["email"] != nil {
		t.Errorf("without user info: got %v, %v", claims, err)
	}
}

func TestExchange_DeniesALoginOfAnother(t *testing.T) {
	for name, c := range map[string]struct {
		person map[string]any
		told   map[string]any
		change func(*authmethod.Begun)
		method func(*authmethod.Method)
	}{
		"verifier": {change: func(b *authmethod.Begun) { b.Verifier = access.Secret(strings.Repeat("w", 43)) }},
		"nonce":    {person: map[string]any{"sub": "ann", "nonce": "another"}},
		"audience": {person: map[string]any{"sub": "ann", "aud": "x"}},
		"end":      {person: map[string]any{"sub": "ann", "exp": time.Now().Add(-time.Hour).Unix()}},
		"subject":  {told: map[string]any{"sub": "bob"}},
		"redirect": {change: func(b *authmethod.Begun) { b.RedirectURI = "http://localhost:9/oidc/callback" }},
		"secret":   {method: func(m *authmethod.Method) { m.Secrets.OIDCClientSecret = "x" }},
	} {
		i := issuertest.New(t)
		if c.person == nil {
			c.person = map[string]any{"sub": "ann"}
		}
		i.Person(c.person, c.told)
		m := oidcMethod(i)
		if c.method != nil {
			c.method(&m)
		}
		_, err := complete(t, i, m, c.change)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v, want denied", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "a secret of the provider") {
			t.Errorf("%s: the error has the answer of the provider: %v", name, err)
		}
	}
}

func TestAuthURL_IsForRedirectsThatTheMethodAllows(t *testing.T) {
	i := issuertest.New(t)
	c := authmethod.NewCache(time.Now)
	for redirect, ok := range map[string]bool{
		"http://localhost:4649/oidc/callback": true,
		"http://localhost:4650/oidc/callback": true, // the port of a command line is free
		"http://localhost:4649/other":         false,
		"https://evil.example.org/callback":   false,
	} {
		b := begun()
		b.RedirectURI = redirect
		address, err := c.AuthURL(t.Context(), oidcMethod(i), b)
		if ok && err != nil || !ok && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %v", redirect, err)
		}
		if ok && (!strings.Contains(address, "code_challenge_method=S256") || strings.Contains(address,
			"vvv")) {
			t.Errorf("%s: no PKCE in %s", redirect, address)
		}
	}
}

// keyPEM returns a new key of RSA with its PEM.
func keyPEM(t *testing.T) (*rsa.PrivateKey, access.Secret) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return key, access.Secret(pem.EncodeToMemory(block))
}

func TestExchange_ProvesTheClientByAPrivateKey(t *testing.T) {
	i := issuertest.New(t)
	key, text := keyPEM(t)
	i.TakeAssertions(&key.PublicKey)
	m := oidcMethod(i)
	m.Config.OIDCClientAssertion = &access.ClientAssertion{
		KeySource:  access.KeySourcePrivateKey,
		PrivateKey: &access.AssertionKey{KeyID: "k"},
	}
	m.Secrets.PemKey = text
	err := authmethod.Check(m.AuthMethod, m.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	_, err = complete(t, i, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if i.LastTokenRequest().Get("client_secret") != "" {
		t.Error("the client sends its secret, too")
	}

	_, m.Secrets.PemKey = keyPEM(t)
	_, err = complete(t, i, m, nil)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("another key: got %v, want denied", err)
	}
}

func TestCheck_RejectsConfigurationsThatCannotWork(t *testing.T) {
	i := issuertest.New(t)
	_, text := keyPEM(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	wrong := access.Secret(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	assert := func(a access.ClientAssertion) func(m *authmethod.Method) {
		return func(m *authmethod.Method) { m.Config.OIDCClientAssertion = &a }
	}
	withKey := func(k access.AssertionKey, text access.Secret) func(m *authmethod.Method) {
		return func(m *authmethod.Method) {
			m.Secrets.PemKey = text
			m.Config.OIDCClientAssertion = &access.ClientAssertion{
				KeySource: access.KeySourcePrivateKey, PrivateKey: &k,
			}
		}
	}
	for want, change := range map[string]func(m *authmethod.Method){
		"neither JWKSURL nor": func(m *authmethod.Method) { m.Config.JWKSURL = "https://x" },
		"3 are given": func(m *authmethod.Method) {
			m.Type = access.MethodJWT
			m.Config.JWKSURL = "x"
			m.Config.JWTValidationPubKeys = []string{"x"}
		},
		"OIDCClientID is empty":   func(m *authmethod.Method) { m.Config.OIDCClientID = "" },
		"AllowedRedirectURIs is":  func(m *authmethod.Method) { m.Config.AllowedRedirectURIs = nil },
		"AllowedRedirectURIs has": func(m *authmethod.Method) { m.Config.AllowedRedirectURIs = []string{"http://example.org/x"} },
		"expected https":          func(m *authmethod.Method) { m.Config.OIDCDiscoveryURL = "http://example.org" },
		"expected a URL":          func(m *authmethod.Method) { m.Config.OIDCDiscoveryURL = "https://a:b@example.org" },
		"SigningAlgs has":         func(m *authmethod.Method) { m.Config.SigningAlgs = []string{"none"} },
		"SigningAlgs has \"HS256": func(m *authmethod.Method) { m.Config.SigningAlgs = []string{"HS256"} },
		"a leeway is":             func(m *authmethod.Method) { m.Config.ClockSkewLeeway = access.Duration(2 * time.Hour) },
		"authorities are not":     func(m *authmethod.Method) { m.Config.DiscoveryCaPem = []string{"x"} },
		"entry 1": func(m *authmethod.Method) {
			m.Type = access.MethodJWT
			m.Config.OIDCDiscoveryURL = ""
			m.Config.JWTValidationPubKeys = []string{"x"}
		},
		"more than 100 entries": func(m *authmethod.Method) { m.Config.OIDCScopes = make([]string, 201) },
		"has 2049 bytes":        func(m *authmethod.Method) { m.Config.OIDCClientID = strings.Repeat("x", 2049) },
		"has 65537 bytes":       func(m *authmethod.Method) { m.Config.JWKSCACert = strings.Repeat("x", 65537) },
		"more than 100 keys":    func(m *authmethod.Method) { m.Config.DiscoveryCaPem = make([]string, 101) },
		"bytes; expected at most 262144": func(m *authmethod.Method) {
			m.Config.DiscoveryCaPem = []string{strings.Repeat("x", 65536), strings.Repeat("x", 65536),
				strings.Repeat("x", 65536), strings.Repeat("x", 65536)}
		},
		"KeySource of":      assert(access.ClientAssertion{KeySource: "nomad"}),
		"has no PemKey":     assert(access.ClientAssertion{KeySource: access.KeySourcePrivateKey}),
		"the client secret": assert(access.ClientAssertion{KeySource: access.KeySourceClientSecret}),
		// too short
		"reads no file":       withKey(access.AssertionKey{PemKeyFile: "/etc/shadow"}, text),
		"is no PEM":           withKey(access.AssertionKey{KeyID: "k"}, "x"),
		"no private key of":   withKey(access.AssertionKey{KeyID: "k"}, wrong),
		"neither a KeyID":     withKey(access.AssertionKey{}, text),
		"expected no PemCert": withKey(access.AssertionKey{KeyID: "k", KeyIDHeader: "x5t"}, text),
	} {
		m := oidcMethod(i)
		change(&m)
		err := authmethod.Check(m.AuthMethod, m.Secrets)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want invalid with %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("the error has a key: %v", err)
		}
	}
	m := oidcMethod(i)
	err = authmethod.Check(m.AuthMethod, m.Secrets)
	if err != nil {
		t.Error(err)
	}
}

// The bounds of Transport hold for the requests of the library.
func TestVerifyToken_BoundsTheAnswerOfTheProvider(t *testing.T) {
	i := issuertest.New(t)
	large := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, bytes.NewReader(make([]byte, 2<<20)))
	}))
	t.Cleanup(large.Close)
	_, err := verify(t, jwtMethod(i, func(c *access.AuthConfig) { c.JWKSURL = large.URL }), i.JWT(nil))
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
	moved := httptest.NewServer(http.RedirectHandler(i.URL+"/keys", http.StatusFound))
	t.Cleanup(moved.Close)
	_, err = verify(t, jwtMethod(i, func(c *access.AuthConfig) { c.JWKSURL = moved.URL }), i.JWT(nil))
	if err == nil || i.Requests("/keys") != 0 {
		t.Errorf("a redirect to this machine: got %v", err)
	}
}
