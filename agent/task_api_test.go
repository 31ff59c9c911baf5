package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/api/apitest"
	"berth/internal/peertls"
	"berth/structs"
	"berth/structs/access"
)

// TestForTasks_AsksTheServersAboutTheToken answers requests over the sockets of tasks.
func TestForTasks_AsksTheServersAboutTheToken(t *testing.T) {
	known := access.Caller{Identity: &access.Identity{AllocID: "a", Task: "t"}}
	enforced := access.CheckResponse{Caller: known}
	open := access.CheckResponse{Caller: known, Open: true} // off, or only logging
	for _, c := range []struct {
		name          string
		header, value string
		certificates  bool // the port asks for them
		answer        access.CheckResponse
		err           error
		want          int
		decided       bool // the servers decide on variables
	}{
		{"no token", "", "", false, enforced, nil, http.StatusForbidden, false},
		{"no token, without access control", "", "", false, open, nil, http.StatusForbidden, false},
		{"the name of the anonymous policy", "X-Nomad-Token", "anonymous", false, enforced, nil,
			http.StatusForbidden, false},
		{"no bearer", "Authorization", "Basic x", false, enforced, nil, http.StatusForbidden, false},
		{"a token", "X-Nomad-Token", "x", false, enforced, nil, http.StatusOK, true},
		{"a bearer", "Authorization", "Bearer x", true, enforced, nil, http.StatusOK, true},
		{"a token, rights not enforced", "X-Nomad-Token", "x", true, open, nil,
			http.StatusPreconditionFailed, false},
		{"a token, all open", "X-Nomad-Token", "x", false, open, nil, http.StatusOK, false},
		{"no token of the cluster, all open", "X-Nomad-Token", "x", false, access.CheckResponse{Open: true}, nil,
			http.StatusForbidden, false},
		{"a token that is denied", "X-Nomad-Token", "x", false, enforced, structs.Deniedf("ended"),
			http.StatusForbidden, false},
		{"no server", "X-Nomad-Token", "x", false, enforced, structs.Unavailablef("away"),
			http.StatusServiceUnavailable, false},
	} {
		cfg := &Config{}
		if c.certificates {
			cfg.TLS.Mode = peertls.ModeRequire
		}
		caller := &apitest.Caller{}
		apitest.On(caller, access.Check,
			func(_ context.Context, r *access.CheckRequest) (*access.CheckResponse, error) {
				if r.AuthToken != "x" || r.Needs != access.NeedsNothing {
					t.Errorf("%s: asked about %q, %q", c.name, r.AuthToken, r.Needs)
				}
				return &c.answer, c.err
			})
		a := &Agent{caller: caller}
		a.settings.Store(cfg)
		decided := false
		handler := a.forTasks(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			decided = a.checkSecrets(r) == nil
		}))
		r := httptest.NewRequest(http.MethodGet, "/v1/var/nomad/jobs/j", nil)
		r.Header.Set(c.header, c.value)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.want || decided != c.decided {
			t.Errorf("%s: got %d, variables %t; want %d, %t", c.name, w.Code, decided, c.want, c.decided)
		}
	}
}

// TestForTasks_GiveNoOtherSecrets has a task ask for a join token.
func TestForTasks_GiveNoOtherSecrets(t *testing.T) {
	caller := &apitest.Caller{}
	apitest.Answer(caller, access.Check, access.CheckResponse{Caller: access.Caller{AccessorID: "a"}})
	a := &Agent{caller: caller}
	a.settings.Store(&Config{})
	handler := a.forTasks(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if a.checkSecrets(r) == nil {
			t.Error("a task may have join tokens")
		}
	}))
	r := httptest.NewRequest(http.MethodPost, "/v1/join-tokens", nil)
	r.Header.Set("X-Nomad-Token", "x")
	handler.ServeHTTP(httptest.NewRecorder(), r)
}
