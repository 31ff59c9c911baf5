// Package transittest is a transit engine for tests, over real HTTPS. It keeps all plaintexts in memory, and
// can be sealed, slow, cut off and started again. Tests change it while calls are in flight, so its state is
// behind a lock.
package transittest

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/server/keys/transit"
)

// Server is a transit engine with the key "berth" at the path "kms". Change its fields by Set.
type Server struct {
	Token   string
	Sealed  bool
	Version int           // of the key, with which it encrypts
	Oldest  int           // the oldest version with which it decrypts
	Hold    chan struct{} // not nil: each call waits until it is closed
	Answer  http.Handler  // not nil: it answers all calls

	t        *testing.T
	mu       sync.Mutex
	plain    map[string]string // the base64 of a plaintext, by its ciphertext
	headers  []http.Header
	http     *httptest.Server
	settings transit.Settings
}

// New starts an engine that speaks TLS.
func New(t *testing.T) *Server {
	t.Helper()

	// The token has the form of a real one, so that a test finds it in a log or an error.
	s := &Server{t: t, Token: "hvs.secret-token", Version: 1, Oldest: 1, plain: map[string]string{}}

	// Real TLS tests the files of the settings, too.
	s.http = httptest.NewUnstartedServer(s)
	s.http.StartTLS()
	t.Cleanup(func() { s.http.Close() })

	dir := t.TempDir()
	s.settings = transit.Settings{
		Address:   s.http.URL,
		KeyName:   "berth",
		MountPath: "kms",
		// With a slash, as users write it. The engine gets it without.
		Namespace: "team/",
		TokenFile: filepath.Join(dir, "token"),
		CAFile:    filepath.Join(dir, "ca.pem"),
	}

	s.write(s.settings.TokenFile, []byte(s.Token+"\n"))
	block := &pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}
	s.write(s.settings.CAFile, pem.EncodeToMemory(block))
	return s
}

// write replaces a file of the settings.
func (s *Server) write(path string, text []byte) {
	s.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// Settings returns valid settings for the key, with a copy of their own.
func (s *Server) Settings() *transit.Settings {
	settings := s.settings
	return &settings
}

// Set changes fields.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Headers returns the headers of all calls.
func (s *Server) Headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

// Plaintexts returns the base64 of all that it has encrypted.
func (s *Server) Plaintexts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.plain))
}

// Stop cuts the engine off. Start begins again at the same address.
func (s *Server) Stop() { s.http.Close() }

// Start begins again after Stop.
func (s *Server) Start() {
	s.t.Helper()

	// The address stays, because the settings of a running server name it.
	l, err := net.Listen("tcp", s.http.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}

	next := httptest.NewUnstartedServer(s)

	// The library opens a listener of its own, at another address.
	_ = next.Listener.Close()
	next.Listener = l

	// The certificate stays, because the file of the authority has it.
	next.TLS = s.http.TLS.Clone()
	next.StartTLS()
	s.http = next
}

// ServeHTTP answers a call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // only then the context ends with the connection
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()

	// The lock is not held while a call waits, so that a test can change the server meanwhile.
	hold := s.Hold
	answer := s.Answer
	s.headers = append(s.headers, r.Header.Clone())
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}

	if answer != nil {
		answer.ServeHTTP(w, r)
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.Sealed:
		reject(w, http.StatusServiceUnavailable, "Vault is sealed")
	// A wrong token and a missing one have the same answer, as the engine gives it.
	case r.Header.Get("X-Vault-Token") != s.Token || r.Header.Get("X-Vault-Namespace") != "team":
		reject(w, http.StatusForbidden, "permission denied")
	case r.Method != http.MethodPost:
		reject(w, http.StatusMethodNotAllowed, "unsupported operation")
	case r.URL.Path == "/v1/kms/encrypt/berth":
		s.encrypt(w, r)
	case r.URL.Path == "/v1/kms/decrypt/berth":
		s.decrypt(w, r)
	default:
		reject(w, http.StatusNotFound, "no handler for route")
	}
}

// encrypt keeps the plaintext under the ciphertext that it makes up. Nothing is encrypted.
func (s *Server) encrypt(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Plaintext string `json:"plaintext"`
	}

	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Plaintext == "" {
		reject(w, http.StatusBadRequest, "missing plaintext")
		return
	}

	// The version is in the text, as in the engine's, which decrypts by it.
	ciphertext := fmt.Sprintf("vault:v%d:c%d", s.Version, len(s.plain))
	s.plain[ciphertext] = body.Plaintext
	reply(w, "ciphertext", ciphertext)
}

// decrypt rejects the versions that an operator has retired, as the engine does with min_decryption_version.
func (s *Server) decrypt(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Ciphertext string `json:"ciphertext"`
	}

	var version int
	if json.NewDecoder(r.Body).Decode(&body) == nil {
		_, _ = fmt.Sscanf(strings.TrimPrefix(body.Ciphertext, "vault:v"), "%d", &version)
	}

	plaintext := s.plain[body.Ciphertext]
	switch {
	case version < s.Oldest:
		reject(w, http.StatusBadRequest, "ciphertext or signature version is disallowed by policy (too old)")
	case plaintext == "":
		reject(w, http.StatusBadRequest, "invalid ciphertext")
	default:
		reply(w, "plaintext", plaintext)
	}
}

// reply answers in the form of the engine, with one value.
func reply(w http.ResponseWriter, name, value string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{name: value, "key_version": 1}})
}

func reject(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []string{text}})
}
