package ui

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
	"berth/structs/event"
)

// feed answers Event.List with one event for each value of its channel, and records the indexes asked for.
type feed struct {
	indexes chan uint64
	mu      sync.Mutex
	asked   []event.ListRequest
}

func (f *feed) list(ctx context.Context, req *event.ListRequest) (*event.ListResponse, error) {
	f.mu.Lock()
	f.asked = append(f.asked, *req)
	f.mu.Unlock()
	select {
	case index := <-f.indexes:
		return &event.ListResponse{
			Events: []*event.Event{{Topic: event.Job, Index: index, Payload: []byte("{}")}},
			Next:   index,
		}, nil
	case <-time.After(req.MaxWait):
		return &event.ListResponse{Next: req.After}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *feed) requests() []event.ListRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// follow opens the stream of a view, and returns its lines.
func follow(t *testing.T, h http.Handler, query string) *bufio.Scanner {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/ui/live?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %v", resp.StatusCode, resp.Header)
	}
	return bufio.NewScanner(resp.Body)
}

// changed reads up to the next change, and returns its index.
func changed(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		index, found := strings.CutPrefix(lines.Text(), "data: ")
		if found {
			return index
		}
	}
	t.Fatalf("the stream ended: %v", lines.Err())
	return ""
}

// The stream begins after the newest change of the rows of the view. After each change it begins anew, so
// that the events of one second are told once.
func TestLive_TellsOfChangesAfterTheNewestRow(t *testing.T) {
	h, servers := newPage(t)
	newest := uint64(40)
	apitest.On(servers, structs.JobList, func(context.Context, *structs.QueryRequest) (
		*structs.JobListResponse, error,
	) {
		resp := &structs.JobListResponse{QueryMeta: structs.QueryMeta{Index: newest}}
		newest += 10
		return resp, nil
	})
	f := &feed{indexes: make(chan uint64)}
	apitest.On(servers, event.List, f.list)
	lines := follow(t, h, "topics=Job,Fence&namespace=team")
	f.indexes <- 41
	if got := changed(t, lines); got != "50" {
		t.Errorf("the first change has the index %s", got)
	}
	f.indexes <- 99
	if got := changed(t, lines); got != "99" {
		t.Errorf("the second change has the index %s", got)
	}
	asked := f.requests()
	filter := `Topic == "Job" or Topic == "Fence"`
	if asked[0].After != 40 || asked[0].Filter != filter || asked[0].Namespace != "team" {
		t.Errorf("the first request is %+v", asked[0])
	}
	for _, q := range asked[1:] {
		if q.After == 50 {
			return
		}
	}
	t.Errorf("no request begins after what the view has read: %+v", asked)
}

// opened opens a stream that lasts until the end of the test, and returns its status.
func opened(t *testing.T, url, header, value string) (status int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(header, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp.StatusCode
}

// The stream of a view is one of the token of its session, and counts among those that the API sends to it.
func TestLive_CountsAsAStreamOfTheToken(t *testing.T) {
	servers := &apitest.Caller{}
	apitest.On(servers, event.List, (&feed{indexes: make(chan uint64)}).list)
	logger := hclog.NewNullLogger()
	agent := &apitest.Agent{SelfIs: &api.AgentSelf{}}
	routes := api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: servers,
		Agent:  agent,
		Logger: logger,
		ACL:    true,
	})
	page := NewHandler(Config{API: routes, Agent: "agent-1", Logger: logger})
	mux := http.NewServeMux()
	mux.Handle("/v1/", routes)
	mux.Handle("/ui/", page)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)

	for range api.MaxOwnStreams {
		if status := opened(t, srv.URL+"/v1/event/stream", "X-Berth-Token", "s.good"); status != http.StatusOK {
			t.Fatalf("a stream of the token: got %d", status)
		}
	}
	for token, want := range map[string]int{
		"s.good":  http.StatusServiceUnavailable,
		"s.other": http.StatusOK,
	} {
		if status := opened(t, srv.URL+"/ui/live?topics=Job", "Cookie", loggedIn(page, token)); status != want {
			t.Errorf("a view of %s: got %d, want %d", token, status, want)
		}
	}
}

func TestLive_RejectsOtherTopics(t *testing.T) {
	h, _ := newPage(t)
	for _, topics := range []string{"", "ACLToken", `Job" or Topic != "x`} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/ui/live", nil)
		r.URL.RawQuery = "topics=" + strings.ReplaceAll(strings.ReplaceAll(topics, " ", "+"), `"`, "%22")
		resp, body := send(t, h, r)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got %d %s", topics, resp.StatusCode, body)
		}
	}
}

func TestLive_AnswersWithTheErrorOfTheServers(t *testing.T) {
	h, servers := newPage(t)
	apitest.Fail(servers, event.List, structs.Deniedf("the token has ended"))
	resp, body := get(t, h, "/ui/live?topics=Fence")
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "the token has ended") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

// Each topic of a view is one of the servers.
func TestLive_TopicsOfViewsExist(t *testing.T) {
	known := map[string]bool{}
	for _, topic := range event.Topics {
		known[string(topic)] = true
	}
	for _, topic := range liveTopics() {
		if !known[topic] {
			t.Errorf("there is no topic %q", topic)
		}
	}
}
