package agent

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/level"
	"berth/internal/loadshed"
	"berth/rpc"
	"berth/state"
)

// soleServer is a cluster of one server that only reads.
type soleServer struct{ core.Raft }

func (soleServer) Leader() (string, bool, bool, time.Duration) {
	return "127.0.0.1:1", true, true, 0
}

func (soleServer) VerifyLeader() error { return nil }
func (soleServer) Alone() bool         { return true }
func (soleServer) Servers() []string   { return nil }

func procedures() []rpc.Endpoint {
	return endpoints.New(core.Deps{
		Store:  state.New(),
		Raft:   soleServer{},
		Logger: hclog.NewNullLogger(),
		Level:  func() int { return level.Now },
	}).List()
}

// newRejectingGate returns a gate that rejects a number of 1,000 reads.
func newRejectingGate(many int) *loadshed.Gate {
	g := loadshed.NewGate(0)
	for range 2 {
		g.Observe(loadshed.Sample{
			Took:     time.Second,
			Seen:     1000,
			Admitted: 1000,
			Delay:    time.Minute,
		})
	}
	g.Observe(loadshed.Sample{
		Took:     time.Second,
		Seen:     875 * 1000 / (1000 - many),
		Admitted: 850,
	})
	return g
}

// serveUnderGate serves the API of a server whose reads pass a gate.
func serveUnderGate(t testing.TB, gate *loadshed.Gate) *httptest.Server {
	s := rpc.NewServer(hclog.NewNullLogger(), procedures()...)
	t.Cleanup(s.Close)
	s.Shed(gate)
	return serveConns(t, defaultLimits(), api.NewHandler(api.Config{
		Routes:       areas.Routes(),
		Caller:       s,
		Agent:        &apitest.Agent{},
		Logger:       hclog.NewNullLogger(),
		AllowedHosts: []string{"example.com"},
	}))
}

// getVolumes reads the volumes under the name of a host; "" is the address.
func getVolumes(t *testing.T, srv *httptest.Server, host string) (resp *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/v1/volumes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err = srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestHTTP_RejectsAReadAsItsProcedureDoes checks that HTTP rejects a read once, with the delay before a
// retry.
func TestHTTP_RejectsAReadAsItsProcedureDoes(t *testing.T) {
	const reads = 1000
	srv := serveUnderGate(t, newRejectingGate(500))
	rejected := 0
	for range reads {
		resp, body := getVolumes(t, srv, "")
		if resp.StatusCode == http.StatusOK {
			continue
		}
		rejected++
		h := resp.Header
		if resp.StatusCode != http.StatusServiceUnavailable ||
			h.Get("Retry-After") == "" ||
			h.Get("X-Berth-Error-Kind") != "unavailable" ||
			strings.TrimSpace(body) != loadshed.Rejected {
			t.Fatalf("got status %d and the headers %v: %s", resp.StatusCode, h, body)
		}
	}
	if rejected < reads*45/100 || rejected > reads*55/100 {
		t.Errorf("%d of %d reads are rejected, want half", rejected, reads)
	}
}

// TestHTTP_RejectsForeignHostsWhileReadsAreRejected: a read under a name that is not the agent's is
// denied before anything is decided about it.
func TestHTTP_RejectsForeignHostsWhileReadsAreRejected(t *testing.T) {
	srv := serveUnderGate(t, newRejectingGate(500))
	for range 200 {
		resp, body := getVolumes(t, srv, "evil.example")
		if resp.StatusCode != http.StatusForbidden {
			t.Fatalf("got status %d, want 403: %s", resp.StatusCode, body)
		}
	}
}
