package api_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/access"
)

// openLog opens a log. text returns what it has.
func openLog(t *testing.T) (log *auditlog.Log, text func() string) {
	t.Helper()
	c := auditlog.Config{Enabled: true}
	c.Finish(t.TempDir())
	log, err := auditlog.Open(c, auditlog.Deps{Agent: "a1", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log, func() string {
		t.Helper()
		b, err := os.ReadFile(c.Sinks[0].Path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// certificate returns the state of a connection with the certificate of an identity.
func certificate(role pki.Role, id string) *tls.ConnectionState {
	uri := pki.Identity{Region: "global", Role: role, ID: id}.URI()
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{URIs: []*url.URL{uri}}}}
}

func TestNote_GivesARequestItsOrigin(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/v1/job/a%0Ab?token=canary", nil)
	r.RemoteAddr = "10.0.0.1:80"
	r.TLS = certificate(pki.RoleOperator, "ann")
	w := httptest.NewRecorder()
	r = api.NoteOrigin(w, r, "a1")
	o := *auditlog.OriginFrom(r.Context())
	id := o.RequestID
	o.RequestID = ""
	want := structs.Origin{
		Operation:   "PUT",
		Endpoint:    "/v1/job/a b",
		Remote:      "10.0.0.1:80",
		Certificate: pki.Identity{Region: "global", Role: pki.RoleOperator, ID: "ann"}.String(),
		Agent:       "a1",
	}
	if o != want {
		t.Errorf("got %+v, want %+v", o, want)
	}
	for _, header := range []http.Header{w.Header(), r.Header} {
		if len(id) != 36 || header.Get("X-Berth-Request-Id") != id {
			t.Errorf("the ID %q is not in %v", id, header)
		}
	}

	r = r.WithContext(opsocket.Mark(t.Context()))
	if !auditlog.OriginFrom(api.NoteOrigin(w, r, "a1").Context()).Socket {
		t.Error("the origin has not the operator socket")
	}
}

// TestNote_TakesTheIDOfAnAgentAlone passes requests on with an ID.
func TestNote_TakesTheIDOfAnAgentAlone(t *testing.T) {
	id := structs.NewID()
	for name, c := range map[string]struct {
		id     string
		state  *tls.ConnectionState
		passed bool
		want   bool
	}{
		"a server":              {id, certificate(pki.RoleServer, "s"), true, true},
		"an agent without TLS":  {id, nil, true, true},
		"an operator":           {id, certificate(pki.RoleOperator, "ann"), true, false},
		"TLS without one":       {id, &tls.ConnectionState{}, true, false},
		"a client":              {id, nil, false, false},
		"a server, as a client": {id, certificate(pki.RoleServer, "s"), false, false},
		"something else":        {strings.Repeat("x", 36), nil, true, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.TLS = c.state
		r.Header.Set(api.HeaderRequestID, c.id)
		if c.passed {
			r.Header.Set(api.HeaderPassedOn, "1")
		}
		got := auditlog.OriginFrom(api.NoteOrigin(httptest.NewRecorder(), r, "").Context()).RequestID
		if (got == c.id) != c.want {
			t.Errorf("%s: got the ID %q, taken over: want %t", name, got, c.want)
		}
	}
}

func TestServe_HasTheChangesOfAnAgent(t *testing.T) {
	caller := access.Caller{AccessorID: "accessor-1", Name: "ann", Type: "client"}
	for needs, want := range map[access.Needs]int{
		access.NeedsAllocExec:  2,
		access.NeedsLifecycle:  2,
		access.NeedsNodeWrite:  2,
		access.NeedsAgentWrite: 2,
		access.NeedsManagement: 2,
		access.NeedsReadLogs:   0,
		access.NeedsAgentRead:  0,
		access.NeedsNothing:    0,
		"":                     0,
	} {
		log, text := openLog(t)
		ctx := auditlog.WithOrigin(t.Context(), &structs.Origin{RequestID: "id-1", Agent: "a1"})
		r := api.AuditedRequest{Needs: needs, Caller: caller, AllocID: "alloc-1"}
		answer, err := api.ServeAudited(ctx, log, r, func() (any, error) {
			if got := strings.Count(text(), "\n"); got != want/2 {
				t.Errorf("%s: %d lines before the handler runs", needs, got)
			}
			return 7, nil
		})
		if answer != 7 || err != nil {
			t.Errorf("%s: got %v, %v", needs, answer, err)
		}
		if got := strings.Count(text(), "\n"); got != want {
			t.Errorf("%s: got %d lines, want %d", needs, got, want)
		}
		for line := range strings.Lines(text()) {
			var e auditlog.Event
			err := json.Unmarshal([]byte(line), &e)
			is := e.Caller.Accessor == "accessor-1" && e.RequestID == "id-1" && len(e.Objects) == 1
			if err != nil || !is || e.Objects[0].ID != "alloc-1" {
				t.Errorf("%s: got %s, %v", needs, line, err)
			}
		}
	}
}

// TestServe_NeedsAnEnforcedSink has a file in the place of the directory of the log.
func TestServe_NeedsAnEnforcedSink(t *testing.T) {
	dir := t.TempDir()
	c := auditlog.Config{Enabled: true}
	c.Finish(dir)
	log, err := auditlog.Open(c, auditlog.Deps{Logger: hclog.NewNullLogger()})
	if err == nil {
		t.Cleanup(log.Close)
		err = os.RemoveAll(dir + "/audit")
	}
	if err == nil {
		err = os.WriteFile(dir+"/audit", nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

	served := false
	handle := func() (any, error) {
		served = true
		return 1, nil
	}
	_, err = api.ServeAudited(t.Context(), log, api.AuditedRequest{Needs: access.NeedsAllocExec}, handle)
	if !structs.IsKind(err, structs.KindUnavailable) || served {
		t.Errorf("got %v, and the handler has run: %t", err, served)
	}
	for name, l := range map[string]*auditlog.Log{"a read": log, "without a log": nil} {
		got, err := api.ServeAudited(t.Context(), l, api.AuditedRequest{Needs: access.NeedsReadLogs}, handle)
		if got != 1 || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestDeny_HasDenialsAlone(t *testing.T) {
	log, text := openLog(t)
	other := structs.NotFoundf("nothing")
	denied := structs.Deniedf("not you")
	if api.NoteDenied(t.Context(), log, other) != other || api.NoteDenied(t.Context(), log, nil) != nil {
		t.Error("an error is another one after Deny")
	}
	if api.NoteDenied(t.Context(), nil, denied) != denied || api.NoteDenied(t.Context(), log, denied) != denied {
		t.Error("an error is another one after Deny")
	}
	if got := text(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"result":"denied","error":"not you"`) {
		t.Errorf("got %s", got)
	}
}
