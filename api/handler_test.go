package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/api/jobs"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a handler on a real socket, before a fake caller and a fake agent.
type server struct {
	*httptest.Server
	caller *apitest.Caller
	agent  *apitest.Agent
}

func newServer(t testing.TB, change ...func(*api.Config)) *server {
	s := &server{caller: &apitest.Caller{}, agent: newAgent()}
	cfg := api.Config{
		Routes: areas.Routes(),
		Caller: s.caller,
		Agent:  s.agent,
		Logger: hclog.NewNullLogger(),
	}
	for _, f := range change {
		f(&cfg)
	}
	s.Server = httptest.NewServer(api.NewHandler(cfg))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s
}

func newAgent() *apitest.Agent {
	me := &cluster.AgentMember{
		Name:   "s1.global",
		Addr:   "10.0.0.1",
		Port:   4748,
		Status: "alive",
		Tags: map[string]string{
			"region": "global",
			"dc":     "dc1",
			"port":   "4747",
		},
	}
	return &apitest.Agent{
		SelfIs: &api.AgentSelf{
			Config: map[string]any{"Region": "global"},
			Member: me,
			Stats:  map[string]map[string]string{"client": {"node_id": "n1"}},
		},
		MembersAs: []*cluster.AgentMember{me},
		HealthIs: &api.AgentHealth{Server: &api.HalfHealth{
			OK:      true,
			Message: "ok",
		}},
		StatsAre:   &nodecalls.HostStats{Uptime: 7},
		Node:       "n1",
		MetricsAre: apitest.Metrics{JSON: map[string]int{"Gauges": 1}},
		Snapshot:   []byte("an archive"),
		IsDebug:    true,
		Servers:    map[string]api.AgentPlace{"leader": {AgentID: "s1", Here: true}},
	}
}

// do makes a request and returns the answer with its body.
func (s *server) do(t testing.TB, method, path, body string) (
	*http.Response, string,
) {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// clearStreaming clears the options of a request that select how its list is fetched.
func clearStreaming(req any) {
	r, ok := req.(interface{ Query() *structs.QueryOptions })
	if ok && r.Query().Stream {
		r.Query().Stream = false
		r.Query().PerPage = 0
	}
}

func TestHandler_RoutesCallTheirProcedures(t *testing.T) {
	s := newServer(t)
	all := routeCalls()
	for _, r := range areas.Routes() {
		methods := strings.Fields(r.Methods)
		want, ok := all[methods[0]+" "+r.Path]
		if !ok ||
			want.body == "" && want.rpc != "" && !strings.Contains(want.path, "?") {
			s.checkPathOnly(t, *r)
		}
		if !ok {
			continue
		}
		delete(all, methods[0]+" "+r.Path)
		if want.rpc == "" && r.Needs == "" {
			t.Errorf("%s %s is served by the agent itself, and names no right: give it the option needs", r.Methods, r.Path)
		}
		for _, method := range methods {
			resp, body := s.do(t, method, want.path, want.body)
			calls := s.caller.Take()
			if want.rpc == "" {
				if len(calls) != 0 || resp.StatusCode != want.status {
					t.Errorf("%s %s: got status %d: %s, called %v",
						method, want.path, resp.StatusCode, body, calls)
				}
				continue
			}
			if len(calls) != 1 || calls[0].Method != want.rpc {
				t.Errorf("%s %s called %v, want %s: %d %s",
					method, want.path, calls, want.rpc, resp.StatusCode, body)
				continue
			}
			clearStreaming(calls[0].Request)
			if !reflect.DeepEqual(calls[0].Request, want.request) {
				t.Errorf("%s %s sent\n%#v, want\n%#v",
					method, want.path, calls[0].Request, want.request)
			}
			if resp.StatusCode != 503 ||
				resp.Header.Get("X-Berth-Error-Kind") != "unavailable" ||
				!strings.HasPrefix(body, "nothing answers "+want.rpc) {
				t.Errorf("%s %s: got status %d and kind %q, want unavailable: %q",
					method, want.path, resp.StatusCode, resp.Header.Get("X-Berth-Error-Kind"), body)
			}
		}
	}
	for name := range all {
		t.Errorf("there is no route %s", name)
	}
}

// A route that is not of a method alone needs the option needs: without it, nobody asks for the right of its
// caller. So a route without one works at an agent that can do nothing itself.
func TestHandler_RoutesWithoutNeedsAreOfMethodsAlone(t *testing.T) {
	s := newServer(t, func(c *api.Config) { c.Agent = nil })
	all := routeCalls()
	for _, r := range areas.Routes() {
		method := strings.Fields(r.Methods)[0]
		want := all[method+" "+r.Path]
		if r.Needs != "" {
			continue
		}

		path := cmp.Or(want.path, strings.ReplaceAll(r.Path, "{id}", "an-id"))
		_, body := s.do(t, method, path, want.body)
		if strings.Contains(body, "panicked") {
			t.Errorf("%s %s is served by the agent itself, and names no right: give it the option needs: %s",
				method, r.Path, body)
		}
	}
}

func TestHandler_RendersARead(t *testing.T) {
	s := newServer(t)
	apitest.Answer(s.caller, structs.JobList, structs.JobListResponse{
		Jobs: []*structs.JobListStub{{ID: "j"}},
		QueryMeta: structs.QueryMeta{
			Index:       42,
			LastContact: 17 * time.Millisecond,
			KnownLeader: true,
			NextToken:   "more",
		},
	})
	resp, body := s.do(t, "GET", "/v1/jobs?pretty", "")
	for name, want := range map[string]string{
		"X-Nomad-Index":       "42",
		"X-Nomad-LastContact": "17",
		"X-Nomad-KnownLeader": "true",
		"X-Nomad-NextToken":   "more",
		"Content-Type":        "application/json",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var jobs []*structs.JobListStub
	err := json.Unmarshal([]byte(body), &jobs)
	if err != nil ||
		len(jobs) != 1 ||
		jobs[0].ID != "j" ||
		!strings.Contains(body, "\n    ") {
		t.Errorf("got %q, error %v, want one job with indentation", body, err)
	}
	apitest.Answer(s.caller, structs.JobList, structs.JobListResponse{})
	if _, body := s.do(t, "GET", "/v1/jobs", ""); body != "[]\n" {
		t.Errorf("an empty list is %q", body)
	}
}

func TestHandler_CompressesLargeAnswers(t *testing.T) {
	s := newServer(t)
	stubs := make([]*structs.JobListStub, 100)
	for i := range stubs {
		stubs[i] = &structs.JobListStub{ID: strings.Repeat("j", i)}
	}
	apitest.Answer(s.caller, structs.JobList, structs.JobListResponse{Jobs: stubs})
	resp, body := s.do(t, "GET", "/v1/jobs", "") // net/http requests gzip and decompresses it
	if !resp.Uncompressed ||
		json.Unmarshal([]byte(body), &stubs) != nil ||
		len(stubs) != 100 {
		t.Errorf("got compression %v and %d bytes, want 100 compressed jobs",
			resp.Uncompressed, len(body))
	}
}

func TestHandler_RendersErrorsByKind(t *testing.T) {
	s := newServer(t)
	for kind, status := range map[structs.Kind]int{
		structs.KindInvalid:      400,
		structs.KindDenied:       403,
		structs.KindNotFound:     404,
		structs.KindConflict:     409,
		structs.KindPrecondition: 412,
		structs.KindInternal:     500,
		structs.KindUnavailable:  503,
		structs.KindTimeout:      504,
	} {
		apitest.Fail(s.caller, structs.JobGet, structs.Errorf(kind, "because of %s", kind))
		resp, body := s.do(t, "GET", "/v1/job/j", "")
		if resp.StatusCode != status ||
			resp.Header.Get("X-Berth-Error-Kind") != string(kind) ||
			body != "because of "+string(kind)+"\n" {
			t.Errorf("%s: got status %d, kind %q: %q",
				kind, resp.StatusCode, resp.Header.Get("X-Berth-Error-Kind"), body)
		}
		c := api.NewClient(api.ClientConfig{Address: s.URL})
		_, _, err := jobs.Get(context.Background(), c, "j", nil)
		c.Close()
		if structs.KindOf(err) != kind ||
			err.Error() != "because of "+string(kind) {
			t.Errorf("%s: the client returned %s: %v", kind, structs.KindOf(err), err)
		}
	}
	apitest.Fail(s.caller, structs.JobGet, context.DeadlineExceeded)
	if resp, _ := s.do(t, "GET", "/v1/job/j", ""); resp.StatusCode != 504 {
		t.Errorf("a deadline: got status %d, want 504", resp.StatusCode)
	}
	type response = *structs.JobGetResponse
	apitest.On(s.caller, structs.JobGet, func(context.Context, *structs.JobGetRequest) (response, error) {
		panic("oh")
	})
	resp, body := s.do(t, "GET", "/v1/job/j", "")
	if resp.StatusCode != 500 || !strings.Contains(body, "panicked: oh") {
		t.Errorf("a panic: got status %d, want 500: %q", resp.StatusCode, body)
	}
	_, body = s.do(t, "GET", "/v1/job/j%1B%5B2J", "")
	if !strings.Contains(body, `serving /v1/job/j\x1b[2J panicked`) {
		t.Errorf("a panic shows the path as %q", body)
	}
	apitest.Answer(s.caller, structs.JobGet, structs.JobGetResponse{})
	if resp, _ := s.do(t, "GET", "/v1/job/j", ""); resp.StatusCode != 404 {
		t.Errorf("an answer without a job: got status %d, want 404", resp.StatusCode)
	}
	_, body = s.do(t, "GET", "/v1/job/j%1B%5B2J"+strings.Repeat("x", 300), "")
	if !strings.Contains(body, `nothing at /v1/job/j\x1b[2Jx`) ||
		len(body) > 2*structs.MaxName {
		t.Errorf("an answer without a job shows the path as %q", body)
	}
}

func TestHandler_RejectsInvalidRequests(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/nothing", "", 404, "there is no route GET /v1/nothing in this API"},
		{"GET", "/", "", 404, "there is no route GET / in this API"},
		{"GET", "/v1/job/j/nothing/more/x", "", 404,
			"there is no route GET /v1/job/j/nothing/more/x in this API"},
		{"PATCH", "/v1/job/j", "", 405, "/v1/job/j does not allow the method PATCH, only GET, PUT, POST, DELETE"},
		{"DELETE", "/v1/jobs", "", 405, "/v1/jobs does not allow the method DELETE, only GET, PUT, POST"},
		{"GET", "/v1/jobs?index=-1", "", 400,
			`the parameter index is "-1", expected a number that is not negative`},
		{"GET", "/v1/jobs?per_page=99999999999", "", 400, "per_page"},
		{"GET", "/v1/jobs?wait=long", "", 400, `the parameter wait is "long", expected a duration such as 30s`},
		{"GET", "/v1/jobs?wait=-3s", "", 400, "wait"},
		{"GET", "/v1/jobs?reverse=perhaps", "", 400, `the parameter reverse is "perhaps", expected true or false`},
		{"GET", "/v1/jobs?stale&consistent", "", 400, "stale and consistent exclude each other"},
		{"PUT", "/v1/jobs", "", 400, "the body is empty"},
		{"PUT", "/v1/jobs", "{", 400, "the body ends in the middle of a value (line 1, column 2)"},
		{"PUT", "/v1/jobs", "[]", 400, "expected an object, found a list"},
		{"PUT", "/v1/jobs", "{}", 400, "Job: expected a job, found none"},
		{"PUT", "/v1/jobs", `{"Job":{"ID":"j","TaskGroups":[{"Name":"g","Services":[{"Identity":{"Nam":"a"}}]}]}}`, 400,
			`Job.TaskGroups[0].Services[0].Identity.Nam: berth does not know this field (did you mean "Name"?)`},
		{"PUT", "/v1/jobs", `{"Job":{"ID":"j","Update":{"MaxParalel":3}}}`, 400,
			"Job.Update.MaxParalel: berth does not know this field"},
		{"PUT", "/v1/jobs", `{"Job":{"ID":"j"},"Prioritize":true}`, 400,
			"Prioritize: berth does not know this field"},
		{"PUT", "/v1/jobs", `{"Job":{"ID":7}}`, 400, "Job.ID: expected a string, found a number"},
		{"PUT", "/v1/job/other", `{"Job":{"ID":"j"}}`, 400, `the path names job "other", the body "j"`},
		{"PUT", "/v1/jobs", `{"Job":{"ID":"` + strings.Repeat("x", structs.MaxHTTPJob) + `"}}`, 413,
			"the body is larger than 16777216 bytes"},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"j\" {"}`, 400, "job.hcl:1"},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"j\" {\n  priority = \"x\"\n  name = var.n\n}","Variables":"x = 1"}`, 400,
			"variables.hcl:1,1: the job file has no variable \"x\"\njob.hcl:2,14: invalid value for \"priority\": " +
				"got a string; expected a whole number\njob.hcl:3,13: there is no variable \"n\""},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"j\" {}","Variables":"x = 1"}`, 400,
			`variables.hcl:1,1: the job file has no variable "x"`},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"j\" {\n  name = file(\"/etc/passwd\")\n}"}`, 400,
			"an agent does not read files for a job"},
		{"PUT", "/v1/jobs/parse", `{"JobHCL":"job \"j\" {}","HCLv1":true}`, 400, "HCLv1: expected false"},
		{"PUT", "/v1/volumes", `{"Volumes":[]}`, 400, "Volumes: expected at least one volume, found none"},
		{"PUT", "/v1/volumes", `{"Volumes":[null]}`, 400, "Volumes[0]: expected a volume, found null"},
		{"PUT", "/v1/volumes", `{"Volumes":[{"ID":"v","Colour":"red"}]}`, 400,
			"Volumes[0].Colour: berth does not know this field"},
		{"PUT", "/v1/volume/csi/v", `{"Volumes":[{"ID":"w"}]}`, 400, `the path names volume "v", the body "w"`},
		{"PUT", "/v1/volume/csi/v/create", `{"Volumes":[{"ID":"v"},{"ID":"v"}]}`, 400,
			"expected one volume, found 2"},
		{"DELETE", "/v1/volume/csi/v/detach", "", 400, "the parameter node"},
		{"GET", "/v1/volumes?type=zip", "", 400, `the parameter type is "zip", expected csi`},
		{"GET", "/v1/volumes/external", "", 400, "plugin_id"},
		{"PUT", "/v1/node/n/eligibility", `{"Eligibility":"perhaps"}`, 400,
			`Eligibility: expected "eligible" or "ineligible", found "perhaps"`},
		{"PUT", "/v1/node/n/eligibility", `{"NodeID":"m","Eligibility":"eligible"}`, 400,
			`the path names node "n", the body "m"`},
		{"PUT", "/v1/search", `{"Prefix":"a","Text":"a"}`, 400, "a Text is for /v1/search/fuzzy"},
		{"PUT", "/v1/search", `{"Prefix":"a","WaitIndex":3}`, 400, "WaitIndex: berth does not know this field"},
		{"PUT", "/v1/search/fuzzy", `{"Prefix":"a","Text":"a"}`, 400, "a Prefix is for /v1/search"},
		{"PUT", "/v1/search/fuzzy", "", 400, "the body is empty"},
		{"GET", "/v1/client/fs/logs/a?type=stdout", "", 400, "task"},
		{"GET", "/v1/client/fs/logs/a?task=t&type=stdboth", "", 400, "expected stdout or stderr"},
		{"GET", "/v1/client/fs/logs/a?task=t&type=stdout&origin=middle", "", 400, "expected start or end"},
		{"GET", "/v1/client/fs/logs/a?task=t&type=stdout&offset=-1", "", 400, "offset"},
		{"GET", "/v1/agent/health?type=toe", "", 400, "expected client or server"},
		{"PUT", "/v1/namespace/a", `{"Name":"b"}`, 400, `the path names namespace "a", the body "b"`},
		{"PUT", "/v1/quota/a", `{"Name":"b"}`, 400, `the path names quota "a", the body "b"`},
		{"PUT", "/v1/quota", `{"Name":"b","Limits":[{"VariablesLimit":3}]}`, 400, "VariablesLimit: berth does not know"},
		{"PUT", "/v1/namespace", `{"Name":"a","NodePoolConfiguration":{"Default":"p"}}`, 400, "NodePoolConfiguration"},
		{"PUT", "/v1/namespace", `{"Name":"a","VaultConfiguration":{"Allowed":["p"]}}`, 400, "does not use Vault"},
		{"PUT", "/v1/namespace", `{"Name":"a","ConsulConfiguration":{"Denied":["p"]}}`, 400, "the Consul of its nodes"},
		{"PUT", "/v1/node/pool/a", `{"Name":"b"}`, 400, `the path names node pool "a", the body "b"`},
		{"PUT", "/v1/node/pools", `{"Name":"a","NodeIdentityTTL":"1h"}`, 400, "NodeIdentityTTL: berth does not know"},
	} {
		resp, body := s.do(t, c.method, c.path, c.body)
		if resp.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s %.80s: got %d %q, want %d %q",
				c.method, c.path, c.body, resp.StatusCode, body, c.status, c.want)
		}
		ct := resp.Header.Get("Content-Type")
		if !strings.HasPrefix(ct, "text/plain") ||
			resp.Header.Get("X-Berth-Error-Kind") == "" {
			t.Errorf("%s %s: got an error of type %s and kind %q",
				c.method, c.path, ct, resp.Header.Get("X-Berth-Error-Kind"))
		}
	}
}

func TestHandler_BoundsTheWaitOfABlockingQuery(t *testing.T) {
	s := newServer(t)
	s.do(t, "GET", "/v1/jobs?wait=99h", "")
	got := s.caller.Take()[0].Request.(*structs.QueryRequest).MaxWait
	if got != 10*time.Minute {
		t.Errorf("got the wait %s, want 10m", got)
	}
}

func TestHandler_ReadsTheTokenFromThreeHeaders(t *testing.T) {
	s := newServer(t)
	for name, value := range map[string]string{
		"X-Nomad-Token": "secret",
		"X-Berth-Token": "secret",
		"Authorization": "Bearer secret",
	} {
		req, _ := http.NewRequest("GET", s.URL+"/v1/jobs", nil)
		req.Header.Set(name, value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		got := s.caller.Take()[0].Request.(*structs.QueryRequest).AuthToken
		if got != "secret" {
			t.Errorf("%s: got the token %q, want secret", name, got)
		}
	}
}

func TestHandler_AcceptsIDsWithSlashes(t *testing.T) {
	s := newServer(t)
	for path, want := range map[string]string{
		"/v1/job/a%2Fb":                    "a/b",
		"/v1/job/a%2Fallocations":          "a/allocations",
		"/v1/job/a%20b%25":                 "a b%",
		"/v1/job/a/b/summary":              "a/b",
		"/v1/volume/csi/a/b":               "a/b",
		"/v1/volume/csi//buckets/x":        "", // net/http redirects to the path with one slash
		"/v1/volume/csi/%2Fbuckets%2Fx":    "/buckets/x",
		"/v1/volume/csi/a/b/claims":        "a/b",
		"/v1/volume/csi/a%2Fclaims/claims": "a/claims",
	} {
		s.do(t, "GET", path, "")
		for _, call := range s.caller.Take() {
			var got string
			switch r := call.Request.(type) {
			case *structs.JobGetRequest:
				got = r.JobID
			case *structs.CSIVolumeGetRequest:
				got = r.ID
			case *structs.CSIClaimListRequest:
				got = r.VolumeID
			}
			if want != "" && got != want {
				t.Errorf("%s is %q, want %q", path, got, want)
			}
		}
	}
}

func TestHandler_HealthHasTheStatusOfTheHalves(t *testing.T) {
	s := newServer(t)
	s.agent.HealthIs = &api.AgentHealth{
		Client: &api.HalfHealth{Message: "no server was reached yet"},
		Server: &api.HalfHealth{OK: true},
	}
	for path, want := range map[string]int{
		"/v1/agent/health":             500,
		"/v1/agent/health?type=client": 500,
		"/v1/agent/health?type=server": 200,
	} {
		resp, body := s.do(t, "GET", path, "")
		if resp.StatusCode != want || !json.Valid([]byte(body)) {
			t.Errorf("%s: got status %d, want %d: %s", path, resp.StatusCode, want, body)
		}
	}
}

func TestHandler_RejectsWritesFromOtherOrigins(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct {
		method, header, value string
		denied                bool
	}{
		{"PUT", "Origin", "https://elsewhere.example", true},
		{"POST", "Sec-Fetch-Site", "cross-site", true},
		{"PUT", "Origin", s.URL, false},
		{"PUT", "Sec-Fetch-Site", "same-origin", false},
		{"GET", "Origin", "https://elsewhere.example", false}, // the page cannot read the answer
	} {
		req, _ := http.NewRequest(c.method, s.URL+"/v1/jobs", strings.NewReader(`{"Job":{"ID":"j"}}`))
		req.Header.Set(c.header, c.value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		calls := s.caller.Take()
		if (resp.StatusCode == 403) != c.denied || (len(calls) == 0) != c.denied {
			t.Errorf("%s with %s: %s: got status %d, called %v",
				c.method, c.header, c.value, resp.StatusCode, calls)
		}
	}
}
