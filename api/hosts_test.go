package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
)

func TestHandler_RejectsHostsThatAreNotTheAgents(t *testing.T) {
	caller := &apitest.Caller{}
	apitest.Answer(caller, structs.JobList, structs.JobListResponse{})
	h := api.NewHandler(api.Config{
		Routes:       areas.Routes(),
		Caller:       caller,
		Agent:        newAgent(),
		Logger:       hclog.NewNullLogger(),
		AllowedHosts: []string{"n1", "Berth.Example.com", "*.fleet.example"},
	})
	for host, allowed := range map[string]bool{
		"127.0.0.1:4746":                 true,
		"10.1.2.3":                       true,
		"[::1]:4746":                     true,
		"[::1]":                          true,
		"localhost:4746":                 true,
		"LOCALHOST":                      true,
		"localhost.":                     true,
		"":                               true,
		"n1:4746":                        true,
		"N1.":                            true,
		"berth.example.com:80":           true,
		"a.fleet.example":                true,
		"a.b.fleet.example:1":            true,
		"evil.example":                   false,
		"evil.example:4746":              false,
		"localhost.evil.example":         false,
		"n1.evil.example":                false,
		"berth.example.com.evil.example": false,
		"fleet.example":                  false,
		"xfleet.example":                 false,
		"127.0.0.1.evil.example":         false,
		"[::1].evil.example":             false,
		"1":                              false,
	} {
		for _, method := range []string{"GET", "PUT"} {
			r := httptest.NewRequest(method, "/v1/jobs", strings.NewReader(`{"Job":{"ID":"j"}}`))
			r.Host = host
			r.Header.Set("Origin", "http://"+host) // of a page of that name
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			calls := caller.Take()
			denied := w.Code == http.StatusForbidden
			if denied == allowed || (len(calls) == 1) != allowed {
				t.Errorf("%s with host %q: got status %d %q and %d calls",
					method, host, w.Code, w.Body, len(calls))
			}
			if !allowed && !strings.Contains(w.Body.String(), "http_allowed_hosts") {
				t.Errorf("%q does not name the setting", w.Body)
			}
		}
	}
}

func TestHandler_ReportsUnknownRoutes(t *testing.T) {
	s := newServer(t)
	for _, c := range [][3]string{
		{"GET", "/v1/job/napp/nothing", ""},
		{"GET", "/v1/job/napp/nothing?index=3", ""},
		{"PUT", "/v1/job/napp/nothing", `{"Job":{"ID":"napp/nothing"}}`},
		{"POST", "/v1/job/a%2Fb/nothing", `{"Job":{"ID":"a/b/nothing"}}`},
		{"PUT", "/v1/job/a/b/c", `{"Job":{"ID":"a/b/c"}}`},
		{"DELETE", "/v1/job/napp/nothing", ""},
		{"GET", "/v1/job/napp/", ""},
		{"PUT", "/v1/volume/csi/v/expand", `{"Volumes":[{"ID":"v/expand","PluginID":"p"}]}`},
		{"DELETE", "/v1/volume/csi/v/", ""},
		{"GET", "/v1/plugin/csi/p/health", ""},
		{"DELETE", "/v1/plugin/csi/p/health", ""},
		{"GET", "/v1/node/n/nothing", ""},
		{"GET", "/v1/allocation/a/checks", ""},
	} {
		resp, body := s.do(t, c[0], c[1], c[2])
		path, _, _ := strings.Cut(strings.ReplaceAll(c[1], "%2F", "/"), "?")
		want := "there is no route " + c[0] + " " + path + " in this API\n"
		if resp.StatusCode != http.StatusNotFound ||
			resp.Header.Get("X-Berth-Error-Kind") != "not-found" ||
			body != want {
			t.Errorf("%s %s: got %d %q, want %q",
				c[0], c[1], resp.StatusCode, body, want)
		}
		if calls := s.caller.Take(); len(calls) != 0 {
			t.Errorf("%s %s called %v, want no procedure", c[0], c[1], calls)
		}
	}
}
