// Package issuertest has an identity provider for tests: real HTTP, real signatures, and a browser that logs
// in at once.
package issuertest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Client is the ID of the one client that the provider knows.
const Client = "berth"

// Issuer is a provider.
type Issuer struct {
	t   testing.TB
	URL string

	mu     sync.Mutex
	key    *rsa.PrivateKey
	keyID  string
	claims map[string]any // of the person who logs in
	told   map[string]any // of the person, at the address for user info
	codes  map[string]url.Values
	counts map[string]int // requests by path
	last   url.Values     // the last request for a token
	// AssertionKey verifies the assertion of the client, nil to take the client secret "client-secret".
	assertionKey *rsa.PublicKey
}

// New starts a provider on the loopback interface.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{
		t:      t,
		codes:  map[string]url.Values{},
		counts: map[string]int{},
		claims: map[string]any{"sub": "ann"},
	}
	i.Rotate("key-1")

	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.describe)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("GET /userinfo", i.userInfo)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.counts[r.URL.Path]++
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Rotate replaces the key.
func (i *Issuer) Rotate(keyID string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key = key
	i.keyID = keyID
}

// Person sets the claims of the person who logs in next, and those at the address for user info.
func (i *Issuer) Person(claims, told map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims = claims
	i.told = told
}

// TakeAssertions makes the provider want an assertion of the client with a key.
func (i *Issuer) TakeAssertions(key *rsa.PublicKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.assertionKey = key
}

// Requests returns the number of requests for a path.
func (i *Issuer) Requests(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[path]
}

// LastTokenRequest returns the form of the last request for a token.
func (i *Issuer) LastTokenRequest() url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.last
}

// PublicKey returns the key as PEM.
func (i *Issuer) PublicKey() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	der, err := x509.MarshalPKIXPublicKey(i.key.Public())
	if err != nil {
		i.t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// JWT returns a signed token of the provider for the audience berth that lives an hour. Claims add to these,
// and replace them.
func (i *Issuer) JWT(claims map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(claims)
}

func (i *Issuer) sign(claims map[string]any) string {
	now := time.Now()
	all := map[string]any{
		"iss": i.URL,
		"aud": Client,
		"iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(all, claims)
	return Sign(i.t, jose.SigningKey{Algorithm: jose.RS256, Key: i.key}, i.keyID, all)
}

// Sign returns a JWT with a key.
func Sign(t testing.TB, key jose.SigningKey, keyID string, claims map[string]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", keyID)
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (i *Issuer) describe(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer":                                i.URL,
		"authorization_endpoint":                i.URL + "/authorize",
		"token_endpoint":                        i.URL + "/token",
		"userinfo_endpoint":                     i.URL + "/userinfo",
		"jwks_uri":                              i.URL + "/keys",
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key:       i.key.Public(),
		KeyID:     i.keyID,
		Algorithm: "RS256",
		Use:       "sig",
	}}})
}

// authorize logs the person in and sends the browser back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != Client || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" {
		http.Error(w, "no client, challenge or nonce", http.StatusBadRequest)
		return
	}

	code := rand.Text()
	i.codes[code] = q
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		http.Error(w, "no redirect_uri", http.StatusBadRequest)
		return
	}
	back.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// token takes a code once, from the client that has the verifier of its challenge.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i.last = maps.Clone(r.PostForm)
	begun := i.codes[r.PostForm.Get("code")]
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	switch {
	case !i.knowsClient(r):
		reject(w, http.StatusUnauthorized, "invalid_client")
		return
	case begun == nil || begun.Get("redirect_uri") != r.PostForm.Get("redirect_uri"),
		begun.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
		reject(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	delete(i.codes, r.PostForm.Get("code"))

	claims := maps.Clone(i.claims)
	claims["nonce"] = begun.Get("nonce")
	if i.claims["nonce"] != nil {
		claims["nonce"] = i.claims["nonce"]
	}
	answer(w, map[string]any{
		"access_token": "access-of-" + begun.Get("state")[:4],
		"token_type":   "Bearer",
		"expires_in":   60,
		"id_token":     i.sign(claims),
	})
}

func (i *Issuer) knowsClient(r *http.Request) bool {
	if i.assertionKey == nil {
		id, secret, ok := r.BasicAuth()
		if !ok {
			id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
		}
		return id == Client && secret == "client-secret"
	}

	signed, err := jwt.ParseSigned(r.PostForm.Get("client_assertion"), []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return false
	}
	var claims jwt.Claims
	err = signed.Claims(crypto.PublicKey(i.assertionKey), &claims)
	return err == nil && claims.Subject == Client && claims.Audience.Contains(i.URL)
}

func (i *Issuer) userInfo(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		reject(w, http.StatusUnauthorized, "invalid_token")
		return
	}
	told := map[string]any{"sub": i.claims["sub"]}
	maps.Copy(told, i.told)
	answer(w, told)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func reject(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{
		"error":             code,
		"error_description": "a secret of the provider",
	})
}

// Browse visits an address of the provider as a browser does, and returns the query of the address to which
// the provider sends it back.
func (i *Issuer) Browse(address string) url.Values {
	i.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Get(address)
	if err != nil {
		i.t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		text, _ := io.ReadAll(resp.Body)
		i.t.Fatalf("the provider sends the browser nowhere: %v, %s", err, text)
	}
	return back.Query()
}
