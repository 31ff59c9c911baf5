package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/internal/peertls"
)

// TestForTasks_AsksForAToken answers requests over the sockets of tasks.
func TestForTasks_AsksForAToken(t *testing.T) {
	for _, c := range []struct {
		name          string
		header, value string
		certificates  bool // the port asks for them
		acl           bool
		want          int
	}{
		{"no token", "", "", false, true, http.StatusForbidden},
		{"no token, without access control", "", "", false, false, http.StatusForbidden},
		{"the name of the anonymous policy", "X-Nomad-Token", "anonymous", false, true, http.StatusForbidden},
		{"no bearer", "Authorization", "Basic x", false, true, http.StatusForbidden},
		{"a token", "X-Nomad-Token", "x", false, true, http.StatusOK},
		{"a bearer", "Authorization", "Bearer x", true, true, http.StatusOK},
		{"a token that nothing checks", "X-Nomad-Token", "x", true, false, http.StatusPreconditionFailed},
		{"a token without access control", "X-Nomad-Token", "x", false, false, http.StatusOK},
	} {
		cfg := &Config{}
		cfg.ACL.Enabled = c.acl
		if c.certificates {
			cfg.TLS.Mode = peertls.ModeRequire
		}
		a := &Agent{}
		a.settings.Store(cfg)
		handler := a.forTasks(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := httptest.NewRequest(http.MethodGet, "/v1/jobs", nil)
		r.Header.Set(c.header, c.value)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: got %d, want %d", c.name, w.Code, c.want)
		}
	}
}
