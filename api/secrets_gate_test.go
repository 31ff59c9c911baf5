package api_test

import (
	"net/http"
	"testing"

	"berth/api"
	"berth/structs"
)

// An archive has the secret IDs of all nodes, and a restore replaces the state.
func TestHandler_AsksTheAgentBeforeItMovesArchives(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		s := newServer(t, func(cfg *api.Config) {
			cfg.CheckArchives = func(*http.Request) error { return structs.Deniedf("no archives") }
		})
		s.agent.Snapshot = []byte("an archive")
		resp, body := s.do(t, method, "/v1/operator/snapshot", "an archive")
		if resp.StatusCode != 403 || s.agent.Restored() != nil {
			t.Errorf("%s: status %d: %s", method, resp.StatusCode, body)
		}
	}
}

// Values of variables and join tokens are for callers whom the agent accepts. Metadata is for all.
func TestHandler_AsksTheAgentBeforeItGivesSecrets(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		denied             bool
	}{
		{"GET", "/v1/var/a", "", true},
		{"PUT", "/v1/var/a", `{"Items":{"k":"v"}}`, true},
		{"PUT", "/v1/var/a?lock-acquire", `{"Lock":{"TTL":"20s"}}`, true},
		{"PUT", "/v1/var/a?lock-renew", `{"Lock":{"ID":"x"}}`, true},
		{"DELETE", "/v1/var/a", "", true},
		{"PUT", "/v1/join/token", `{"Role":"node"}`, true},
		{"PUT", "/v1/join/token", `{"Role":"server"}`, true},
		{"PUT", "/v1/tls/certificate", `{"CSR":"Y3Ny"}`, true},
		{"GET", "/v1/vars", "", false},
		{"GET", "/v1/join/tokens", "", false},
	} {
		s := newServer(t, func(cfg *api.Config) {
			cfg.CheckSecrets = func(*http.Request) error { return structs.Deniedf("no secrets") }
		})
		resp, body := s.do(t, c.method, c.path, c.body)
		called := len(s.caller.Take()) > 0
		if (resp.StatusCode == 403) != c.denied || called == c.denied {
			t.Errorf("%s %s: status %d, called %v: %s", c.method, c.path, resp.StatusCode, called, body)
		}
	}
}
