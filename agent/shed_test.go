package agent

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/endpoints"
	"berth/internal/loadshed"
	"berth/rpc"
	"berth/state"
)

// alone is a cluster of one server that only reads.
type alone struct{ endpoints.Raft }

func (alone) Leader() (string, bool, bool, time.Duration) { return "127.0.0.1:1", true, true, 0 }
func (alone) VerifyLeader(context.Context) error          { return nil }
func (alone) Alone() bool                                 { return true }
func (alone) Servers() []string                           { return nil }

func procedures() []rpc.Endpoint {
	return endpoints.New(endpoints.Deps{Store: state.New(), Raft: alone{}, Logger: hclog.NewNullLogger()}).List()
}

// TestRoutesAndProceduresShedAlike: what may be refused at the connection is what may be refused by the
// procedure that a route calls, and nothing else.
func TestRoutesAndProceduresShedAlike(t *testing.T) {
	sheds := map[string]bool{}
	for _, e := range procedures() {
		sheds[e.Name] = e.Sheds
	}
	var caller apitest.Caller
	h := api.NewHandler(api.Config{Caller: &caller, Logger: hclog.NewNullLogger(),
		AllowedHosts: []string{"example.com"},
		Agent:        &apitest.Agent{HealthIs: &api.AgentHealth{}, SelfIs: &api.AgentSelf{}}})
	some := 0
	for _, r := range api.Routes() {
		if !strings.Contains(r.Methods, "GET") {
			if r.Sheds {
				t.Errorf("%s %s sheds, and is no read", r.Methods, r.Path)
			}
			continue
		}
		path := strings.ReplaceAll(r.Path, "{id}", "an-id")
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path+"?plugin_id=p&task=t", nil))
		want := false
		for _, call := range caller.Take() {
			want = sheds[call.Method] && !r.Streams
		}
		got, _ := api.Sheds([]byte(path))
		if got != want || r.Sheds != want {
			t.Errorf("%s: it is said to shed: %v, at the connection: %v, its procedure does: %v", r.Path, r.Sheds, got,
				want)
		}
		if waits, _ := api.Sheds([]byte(path + "?index=7")); waits {
			t.Errorf("%s sheds while it waits", r.Path)
		}
		if want {
			some++
		}
	}
	if some < 10 {
		t.Errorf("%d routes shed", some)
	}
}

// refusing is a gate that refuses so many of 1,000 reads.
func refusing(many int) *loadshed.Gate {
	c := loadshed.DefaultConfig()
	c.Few = 0
	g := loadshed.New(c)
	for range 2 {
		g.Observe(loadshed.Sample{Took: time.Second, Seen: 1000, In: 1000, Delay: time.Minute})
	}
	g.Observe(loadshed.Sample{Took: time.Second, Seen: 875 * 1000 / (1000 - many), In: 850})
	return g
}

// TestAReadIsRefusedOnceAtMost: at the connection or by its procedure, whichever sees it first, and alike.
func TestAReadIsRefusedOnceAtMost(t *testing.T) {
	gate := refusing(500)
	s := rpc.NewServer(hclog.NewNullLogger(), procedures()...)
	defer s.Close()
	s.Shed(gate)
	h := api.NewHandler(api.Config{Caller: s, Agent: &apitest.Agent{}, Logger: hclog.NewNullLogger()})
	srv := serveConns(t, newConns(defaultLimits(), gate, func() bool { return false }), h)
	seen := map[string]int{}
	const reads = 1000
	for n := range reads {
		path := "/v1/volumes"
		if n%100 == 0 {
			path += "?%73tale" // that one is left to the procedure
		}
		resp, err := srv.Client().Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			continue
		}
		if resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Berth-Error-Kind") != "unavailable" {
			t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, b)
		}
		seen[resp.Status+resp.Header.Get("Content-Type")+string(b)]++
	}
	if len(seen) != 1 {
		t.Errorf("it is said in several ways: %v", seen)
	}
	for _, n := range seen {
		if n < reads*45/100 || n > reads*55/100 {
			t.Errorf("%d of %d are refused, where half should be", n, reads)
		}
	}
}

// TestAForeignHostLearnsNothing_AlsoWhileReadsAreRefused: a read under a name that is not the agent's is
// denied, or refused at the connection with the words that every read gets. Neither tells anything of the
// cluster.
func TestAForeignHostLearnsNothing_AlsoWhileReadsAreRefused(t *testing.T) {
	gate := refusing(500)
	s := rpc.NewServer(hclog.NewNullLogger(), procedures()...)
	defer s.Close()
	s.Shed(gate)
	h := api.NewHandler(api.Config{Caller: s, Agent: &apitest.Agent{}, Logger: hclog.NewNullLogger()})
	srv := serveConns(t, newConns(defaultLimits(), gate, func() bool { return false }), h)
	seen := map[int]int{}
	for range 200 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/v1/volumes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example"
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen[resp.StatusCode]++
		if resp.StatusCode == http.StatusServiceUnavailable &&
			strings.TrimSpace(string(b)) != loadshed.Refused {
			t.Fatalf("it says %q", b)
		}
	}
	denied, refused := seen[http.StatusForbidden], seen[http.StatusServiceUnavailable]
	if denied+refused != 200 || denied == 0 || refused == 0 {
		t.Errorf("answers by status: %v", seen)
	}
}

// TestWhatIsPassedOnIsTheLeadersToRefuse: a server refuses itself what any may answer, and nothing else.
func TestWhatIsPassedOnIsTheLeadersToRefuse(t *testing.T) {
	gate := refusing(999)
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	srv := serveConns(t, newConns(defaultLimits(), gate, func() bool { return true }), h)
	for path, want := range map[string]int{"/v1/nodes": 0, "/v1/nodes?stale": 50, "/v1/nodes?stale=false": 0} {
		refused := 0
		for range 100 {
			resp, err := srv.Client().Get(srv.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusServiceUnavailable {
				refused++
			}
		}
		if refused < want || want == 0 && refused > 0 {
			t.Errorf("%d of 100 of %s are refused, want %d", refused, path, want)
		}
	}
}
