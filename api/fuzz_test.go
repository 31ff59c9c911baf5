package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/nodecalls"
	"berth/structs/validate"
)

// FuzzHTTP checks that the handler answers every request without a panic, and that its errors are bounded.
func FuzzHTTP(f *testing.F) {
	for name, r := range routeCalls() {
		method, _, _ := strings.Cut(name, " ")
		f.Add(method, r.path, "X-Nomad-CSI-Secrets: a=b", []byte(r.body))
	}
	f.Add("PUT", "/v1/jobs", "Content-Type: application/json", []byte(`{"Job":{"ID":"a","TaskGroups":[
		{"Count":2000000000,"Tasks":[{"Resources":{"CPU":9223372036854775807}}]}]}}`))
	f.Add("PUT", "/v1/job/a/plan", "Host: evil.example", []byte(`{"Job":null}`))
	h := newFuzzed(f)
	f.Fuzz(func(t *testing.T, method, target, header string, body []byte) {
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n\r\n", method,
			target, len(body), header)
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append([]byte(head), body...))))
		if err != nil {
			return // net/http answers those
		}
		h.serve(t, r)
	})
}

// FuzzRoutes checks the same of each route by itself, with an ID, parameters and a body of any content.
func FuzzRoutes(f *testing.F) {
	lines := routeLines()
	for i, line := range lines {
		for _, s := range seedsOf(line) {
			f.Add(uint16(i), s.id, s.query, []byte(s.body))
		}
	}
	h := newFuzzed(f)
	f.Fuzz(func(t *testing.T, route uint16, id, query string, body []byte) {
		line := lines[int(route)%len(lines)]
		r := routeSeed{id, query, string(body)}.request(line)
		if r != nil {
			h.serve(t, r)
		}
	})
}

// TestFuzzRoutes_HasSeedsOfEveryRoute checks that the seeds reach every route, with each parameter, with a
// body if the route reads one, and with several IDs if its path has one.
func TestFuzzRoutes_HasSeedsOfEveryRoute(t *testing.T) {
	h := newFuzzed(t)
	for _, line := range routeLines() {
		ids := map[string]bool{}
		reads := false
		body := false
		for _, s := range seedsOf(line) {
			r := s.request(line)
			if r == nil {
				t.Errorf("%s: the seed %+v is no request", line, s)
				continue
			}
			read := &readMeter{Reader: strings.NewReader(s.body)}
			r.Body = read
			h.serve(t, r)
			if r.Pattern != line {
				continue
			}
			ids[s.id] = true
			reads = reads || read.used
			body = body || len(s.body) > 2 && read.used
		}
		if len(ids) == 0 {
			t.Errorf("no seed reaches the route %s", line)
		}
		if hasID(line) && len(ids) < 2 {
			t.Errorf("the seeds reach the route %s with the IDs %v alone", line, ids)
		}
		if reads && !body {
			t.Errorf("%s reads a body, and no seed has one; add one to routeCalls", line)
		}
	}
	given, err := url.ParseQuery(allParameters)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range parametersRead(t) {
		if !given.Has(name) {
			t.Errorf("the seeds lack the parameter %q: add it to allParameters", name)
		}
	}
}

// allParameters has each parameter that a route reads.
const allParameters = "address=127.0.0.1:1&all=true&cas=1&by=me&choose=1%7Ca&command=%5B%22ls%22%5D&consistent=false&diffs=true&diff_tag=golden&diff_version=1&include_children=true&eval_priority=3&filter=ID+%3D%3D+%22a%22" +
	"&follow=false&force=true&format=prometheus&id=s1&idempotency_token=t&index=1&job=j&limit=2&lines=3&namespace=*&next_token=a&no_shutdown_delay=true&node=n1" +
	"&node_id=n1&now=true&offset=1&origin=end&path=alloc/data/f&per_page=1&plain=true&class=c&plugin_id=p&snapshot_id=s&prefix=a&pretty&prune=true" +
	"&purge=true&reason=why&region=global&reverse=true&sort=CreateIndex&stale=true&status=pending&task=web&tty=false&type=stdout" +
	"&version=1&wait=1ms&volume_id=v&alloc_id=x&dry_run=true" +
	"&job_id=j&task_group=g&volume_name=data&node_pool=gpu&detach=true&algo=aes256-gcm&full=true&publish_time=1&global=true" +
	"&server_id=s1&action=dump&group=g&log_level=debug&log_json=true&service_name=berth&logs_since=1h&created=7&epoch=8&alloc=a1&alloc=a2"

var parameterRead = regexp.MustCompile(`(?:\.(?:Param|Flag|Has)\(|numberParam\[[a-z0-9]+\]\(c, )"([a-z_]+)"`)

// parametersRead returns the names of the parameters in the sources of the package and of those of the nouns.
func parametersRead(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, below...)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range parameterRead.FindAllSubmatch(src, -1) {
			names = append(names, string(m[1]))
		}
	}
	if len(names) < 40 {
		t.Fatalf("found %d parameters", len(names))
	}
	return names
}

// routeLines returns the patterns of all routes, each with one method.
func routeLines() (lines []string) {
	for _, r := range areas.Routes() {
		for _, method := range strings.Fields(r.Methods) {
			lines = append(lines, method+" "+r.Path)
		}
	}
	return lines
}

// routeSeed is an input of FuzzRoutes.
type routeSeed struct{ id, query, body string }

var routeID = regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`)

func hasID(line string) bool { return routeID.MatchString(line) }

// seedsOf returns the inputs for a route: its request of routeCalls with further IDs, parameters and bodies.
func seedsOf(line string) []routeSeed {
	calls := routeCalls()
	call, ok := calls[line]
	if !ok { // of a route that also takes PUT
		call = calls[strings.Replace(line, "POST ", "PUT ", 1)]
	}
	_, query, _ := strings.Cut(call.path, "?")
	seeds := []routeSeed{
		{"here", query, call.body},
		{"a%2Fb", allParameters, call.body},
		{"here", allParameters, ""},
		{"n1", "index=-1&per_page=99999999999&wait=x&filter=%22&next_token=%00&stale&consistent", "null"},
	}
	if !hasID(line) {
		return seeds
	}
	return append(seeds,
		routeSeed{"..%2f..", query, call.body},
		routeSeed{"%00", query, "{}"},
		routeSeed{"a/b/" + strings.Repeat("c", 300), query, call.body})
}

// request returns the request of an input, nil if it is none.
func (s routeSeed) request(line string) *http.Request {
	method, path, _ := strings.Cut(line, " ")
	target := "http://localhost" + routeID.ReplaceAllLiteralString(path, s.id) + "?" + s.query
	r, err := http.NewRequest(method, target, strings.NewReader(s.body))
	if err != nil {
		return nil
	}
	return r
}

// readMeter records whether a body is read.
type readMeter struct {
	*strings.Reader
	used bool
}

func (m *readMeter) Read(p []byte) (int, error) {
	m.used = true
	return m.Reader.Read(p)
}

func (m *readMeter) Close() error { return nil }

// fuzzed is a handler before an agent with an allocation, here, and before servers that validate jobs and
// volumes.
type fuzzed struct {
	http.Handler
	caller *apitest.Caller
}

func newFuzzed(tb testing.TB) *fuzzed {
	caller := &apitest.Caller{}
	apitest.On(caller, structs.JobRegister,
		func(_ context.Context, req *structs.JobRegisterRequest) (*structs.JobRegisterResponse, error) {
			defaults.Canonicalize(req.Job)
			return &structs.JobRegisterResponse{}, validate.Job(req.Job)
		})
	apitest.On(caller, structs.CSIVolumeRegister, func(_ context.Context,
		req *structs.CSIVolumeRegisterRequest) (*structs.CSIVolumeRegisterResponse, error) {
		for _, v := range req.Volumes {
			v.Canonicalize()
			if err := validate.Volume(v); err != nil {
				return nil, err
			}
		}
		return &structs.CSIVolumeRegisterResponse{}, nil
	})
	agent := newAgent()
	_, ended := writeFiles(tb, agent)
	close(ended)
	agent.Control = func(string) error { return nil }
	agent.UsageIs = map[string]*nodecalls.AllocResourceUsage{"here": {}}
	return &fuzzed{
		caller: caller,
		Handler: api.NewHandler(api.Config{
			Routes: areas.Routes(),
			Caller: caller,
			Agent:  agent,
			Logger: hclog.NewNullLogger(),
		}),
	}
}

// serve serves a request and checks the answer.
func (h *fuzzed) serve(t *testing.T, r *http.Request) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	h.caller.Take()
	text := w.Body.String()
	if strings.Contains(text, "panicked") && w.Code == http.StatusInternalServerError {
		t.Fatalf("%s %s: %s", r.Method, r.URL, text)
	}
	kind := w.Header().Get("X-Berth-Error-Kind")
	if kind != "" && (w.Code < 400 || len(text) > structs.MaxErrorText+16) {
		t.Fatalf("%s %s: %d, an error of %d bytes", r.Method, r.URL, w.Code, len(text))
	}
	if kind == string(structs.KindInternal) {
		t.Fatalf("%s %s: the error is no fault of the request: %s", r.Method, r.URL, text)
	}
}
