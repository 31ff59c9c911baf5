// Package vaulttest is a Vault for tests, over real HTTPS. It follows the public API as far as berth calls
// it: logins by JWT, whose signatures it verifies with keys that it fetches, tokens with an end, KV engines
// of both versions, and an engine of passwords with leases. It can be cut off and sealed.
package vaulttest

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/vault"
)

// Role is a role of the auth method jwt-nomad.
type Role struct {
	Audience string            // that a JWT must have
	Claims   map[string]string // that it must have
	Paths    []string          // the prefixes that its tokens may read
	TTL      time.Duration     // of its tokens
	MaxTTL   time.Duration     // that renewals reach at most; 0: no end
	Batch    bool              // its tokens cannot be renewed
}

// Server is a Vault. Change its fields by Set.
type Server struct {
	JWKSURL string // of the keys that sign JWTs
	// Verify, if not nil, verifies a JWT in the place of JWKSURL, and returns its claims.
	Verify      func(jwt string) (map[string]any, error)
	DefaultRole string
	Roles       map[string]Role
	KV2         map[string]map[string]any // secrets in the engine "secret", by their paths
	KV1         map[string]map[string]any // secrets in the engine "kv"
	LeaseTTL    time.Duration             // of passwords in the engine "database"
	LeaseMax    time.Duration             // that renewals reach at most; 0: no end
	Sealed      bool
	Answer      http.Handler // not nil: it answers all calls

	mu      sync.Mutex
	tokens  map[string]*token
	leases  map[string]*lease
	made    int
	calls   []string
	namings []string
	http    *httptest.Server
	ca      string
}

type token struct {
	role    Role
	end     time.Time
	max     time.Time // zero: no end
	revoked bool
}

type lease struct {
	token string
	end   time.Time
	max   time.Time
}

// New starts a Vault that speaks TLS.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Roles:    map[string]Role{},
		KV2:      map[string]map[string]any{},
		KV1:      map[string]map[string]any{},
		LeaseTTL: time.Hour,
		tokens:   map[string]*token{},
		leases:   map[string]*lease{},
	}

	s.http = httptest.NewTLSServer(s)
	t.Cleanup(s.http.Close)
	s.ca = filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}
	if err := os.WriteFile(s.ca, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Config returns the settings of an agent that uses the Vault.
func (s *Server) Config() vault.Config {
	c := vault.DefaultConfig()
	c.Enabled = true
	c.Address = s.http.URL
	c.CAFile = s.ca
	return c
}

// Client returns a client of the Vault.
func (s *Server) Client(t testing.TB) *vault.Client {
	t.Helper()
	c, err := vault.New(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Set changes fields.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Calls returns the methods and paths of all calls.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Count returns the number of calls whose path has a suffix.
func (s *Server) Count(suffix string) (n int) {
	for _, call := range s.Calls() {
		if strings.HasSuffix(call, suffix) {
			n++
		}
	}
	return n
}

// Namespaces returns the namespace of each call.
func (s *Server) Namespaces() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.namings...)
}

// Live returns the number of tokens that have not ended.
func (s *Server) Live() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		if t.live() {
			n++
		}
	}
	return n
}

// IsLive reports whether a token has not ended.
func (s *Server) IsLive(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[secret]
	return t != nil && t.live()
}

// Leases returns the number of leases that have not ended.
func (s *Server) Leases() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leases {
		if t := s.tokens[l.token]; t != nil && t.live() && time.Now().Before(l.end) {
			n++
		}
	}
	return n
}

// Revoke ends all tokens, as an operator can.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.revoked = true
	}
}

func (t *token) live() bool { return !t.revoked && time.Now().Before(t.end) }

// name returns another name with a prefix. The caller holds the lock.
func (s *Server) name(prefix string) string {
	s.made++
	return fmt.Sprintf("%s%04d", prefix, s.made)
}

// capped returns the time of a life that ends at most at max.
func capped(life time.Duration, most time.Time) time.Duration {
	if most.IsZero() {
		return life
	}
	return min(life, time.Until(most))
}
