package events_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/api/events"
	"berth/structs"
	"berth/structs/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// feed answers Event.List. An answer may be an error. After the last one it waits until the request ends.
type feed struct {
	mu      sync.Mutex
	asked   []event.ListRequest
	answers []any
	// idle is how many answers without an event come before the wait.
	idle int
}

func (f *feed) list(ctx context.Context, req *event.ListRequest) (*event.ListResponse, error) {
	f.mu.Lock()
	f.asked = append(f.asked, *req)
	if len(f.answers) == 0 && f.idle == 0 {
		f.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	defer f.mu.Unlock()
	if len(f.answers) == 0 {
		f.idle--
		return &event.ListResponse{Next: req.After}, nil
	}
	next := f.answers[0]
	f.answers = f.answers[1:]
	if err, failed := next.(error); failed {
		return nil, err
	}
	return next.(*event.ListResponse), nil
}

func (f *feed) requests() []event.ListRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// serve serves the answers of a feed.
func serve(t *testing.T, f *feed) *httptest.Server {
	t.Helper()
	caller := &apitest.Caller{}
	apitest.On(caller, event.List, f.list)
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: caller,
		Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return srv
}

// read reads a stream until its end, which the error tells.
func read(t *testing.T, srv *httptest.Server, query string) (resp *http.Response, lines []string, err error) {
	t.Helper()
	resp, err = http.Get(srv.URL + "/v1/event/stream?" + query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	s := bufio.NewScanner(resp.Body)
	for s.Scan() {
		lines = append(lines, s.Text())
	}
	return resp, lines, s.Err()
}

func jobEvent(index uint64, key string) *event.Event {
	return &event.Event{
		Topic:     event.Job,
		Type:      "JobRegistered",
		Key:       key,
		Namespace: "default",
		Index:     index,
		Payload:   []byte(`{"Job":{"ID":"` + key + `"}}`),
	}
}

const header = `"Type":"JobRegistered","Key":"KEY","Namespace":"default","FilterKeys":[]`

func line(index, key string) string {
	return `{"Topic":"Job",` + strings.ReplaceAll(header, "KEY", key) +
		`,"Index":` + index + `,"Payload":{"Job":{"ID":"` + key + `"}}}`
}

func TestStream_SendsALineForEachIndexAndGoesOnAfterTheLast(t *testing.T) {
	f := &feed{
		answers: []any{
			&event.ListResponse{
				Events: []*event.Event{jobEvent(3, "a"), jobEvent(3, "b"), jobEvent(5, "c")},
				Next:   5, NextSkip: 1,
			},
			&event.ListResponse{Events: []*event.Event{jobEvent(6, "d")}, Next: 8},
		},
		idle: 1,
	}
	resp, lines, err := read(t, serve(t, f), "index=3&topic=Job&follow=false")
	want := []string{
		`{"Index":3,"Events":[` + line("3", "a") + "," + line("3", "b") + "]}",
		`{"Index":5,"Events":[` + line("5", "c") + "]}",
		`{"Index":6,"Events":[` + line("6", "d") + "]}",
		"{}",
	}
	if err != nil || !reflect.DeepEqual(lines, want) || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s (%v), want %s", strings.Join(lines, "\n"), err, strings.Join(want, "\n"))
	}
	for n, want := range [][2]uint64{{2, 0}, {5, 1}, {8, 0}} {
		req := f.requests()[n]
		if req.After != want[0] || req.Skip != want[1] || !req.AllowStale || req.MaxWait != time.Millisecond {
			t.Errorf("request %d is %+v, want it after %v", n, req, want)
		}
	}
}

func TestStream_ShowsThatItIsAlive(t *testing.T) {
	f := &feed{idle: 3}
	srv := serve(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/event/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := make([]byte, 9)
	_, err = io.ReadFull(resp.Body, got)
	if err != nil || string(got) != "{}\n{}\n{}\n" {
		t.Errorf("got %q, %v", got, err)
	}
	asked := f.requests()
	if asked[0].MaxWait != time.Millisecond || asked[1].MaxWait != 10*time.Second ||
		len(asked[0].Topics[event.All]) != 1 {
		t.Errorf("the requests are %+v", asked)
	}
}

func TestStream_RejectsAWrongRequestWithAStatus(t *testing.T) {
	f := &feed{answers: []any{structs.Deniedf("no"), structs.Invalidf("there is no topic")}}
	srv := serve(t, f)
	for query, want := range map[string]int{"index=x": 400, "follow=x": 400} {
		resp, _, _ := read(t, srv, query)
		if resp.StatusCode != want {
			t.Errorf("%s has the status %d, want %d", query, resp.StatusCode, want)
		}
	}
	for _, want := range []int{403, 400} {
		resp, lines, _ := read(t, srv, "topic=Jib")
		if resp.StatusCode != want {
			t.Errorf("got the status %d, want %d: %s", resp.StatusCode, want, lines)
		}
	}
}

// before is the answer before a gap.
func before() *event.ListResponse {
	return &event.ListResponse{Events: []*event.Event{jobEvent(3, "a")}, Next: 3}
}

// gap is an answer to a reader that was too slow.
func gap() *event.ListResponse {
	return &event.ListResponse{
		Events: []*event.Event{jobEvent(9, "z")},
		Next:   9,
		Missed: &event.Gap{From: 4, To: 7},
	}
}

func TestStream_TellsWhatAReaderHasMissed(t *testing.T) {
	for _, query := range []string{"", "topic=*", "topic=Job&topic=Stream"} {
		f := &feed{answers: []any{before(), gap()}, idle: 1}
		_, lines, err := read(t, serve(t, f), "follow=false&"+query)
		want := `{"Index":7,"Events":[{"Topic":"Stream","Type":"EventsMissed","Key":"EventsMissed",` +
			`"Namespace":"","FilterKeys":[],"Index":7,` +
			`"Reason":"the servers no longer have the events 4 to 7: read the state again",` +
			`"Payload":{"Missed":{"From":4,"To":7}}}]}`
		if err != nil || len(lines) != 4 || lines[1] != want {
			t.Errorf("%q: got %s (%v)", query, strings.Join(lines, "\n"), err)
		}
	}
}

// A client of the dialect does not know the topic. It sees the end of its stream, as in the dialect.
func TestStream_BreaksOffForAClientThatCannotLearnWhatItHasMissed(t *testing.T) {
	f := &feed{answers: []any{before(), gap()}, idle: 1}
	_, lines, err := read(t, serve(t, f), "topic=Job")
	if err == nil || len(lines) != 1 {
		t.Errorf("got %s (%v), want the stream to break off", lines, err)
	}

	f = &feed{answers: []any{gap()}, idle: 1}
	resp, lines, err := read(t, serve(t, f), "topic=Job&follow=false")
	if err != nil || len(lines) != 2 || resp.Header.Get("X-Berth-Events-Missed") != "4-7" {
		t.Errorf("got %s (%v) and the header %q", lines, err, resp.Header.Get("X-Berth-Events-Missed"))
	}
}

func TestStream_GoesOnAfterAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &feed{
			answers: []any{
				&event.ListResponse{Events: []*event.Event{jobEvent(3, "a")}, Next: 3},
				structs.Unavailablef("the cluster has no leader"),
				structs.Busy(7*time.Second, "busy"),
				&event.ListResponse{Events: []*event.Event{jobEvent(4, "b")}, Next: 4},
				structs.Deniedf("the token has ended"),
			},
		}
		caller := &apitest.Caller{}
		apitest.On(caller, event.List, f.list)
		h := api.NewHandler(api.Config{Routes: areas.Routes(), Caller: caller, Logger: hclog.NewNullLogger()})
		w := httptest.NewRecorder()
		began := time.Now()
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("a denial during the stream ends it with %v", p)
				}
			}()
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/event/stream", nil)
			req.Host = "127.0.0.1"
			h.ServeHTTP(w, req)
		}()
		want := `{"Index":3,"Events":[` + line("3", "a") + "]}\n{}\n{}\n" +
			`{"Index":4,"Events":[` + line("4", "b") + "]}\n"
		if w.Body.String() != want || time.Since(began) != 7500*time.Millisecond {
			t.Errorf("after %s got %s, want %s", time.Since(began), w.Body.String(), want)
		}
	})
}

func TestStream_EndsWithoutServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller := &apitest.Caller{}
		first := true
		apitest.On(caller, event.List, func(context.Context, *event.ListRequest) (*event.ListResponse, error) {
			if first {
				first = false
				return &event.ListResponse{Next: 3}, nil
			}
			return nil, structs.Unavailablef("no server answers")
		})
		h := api.NewHandler(api.Config{Routes: areas.Routes(), Caller: caller, Logger: hclog.NewNullLogger()})
		began := time.Now()
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("the stream ends with %v", p)
				}
			}()
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/event/stream", nil)
			req.Host = "127.0.0.1"
			h.ServeHTTP(httptest.NewRecorder(), req)
		}()
		if took := time.Since(began); took < time.Minute || took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestClient_ReadsTheLines(t *testing.T) {
	f := &feed{
		answers: []any{&event.ListResponse{Events: []*event.Event{jobEvent(3, "a"), jobEvent(3, "b")}, Next: 3}},
		idle:    1,
	}
	c := api.NewClient(api.ClientConfig{Address: serve(t, f).URL})
	defer c.Close()
	s, err := events.Open(t.Context(), c, events.Options{Topics: []string{"Job:a", "Job:b"}, Namespace: "*"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, err := s.Next()
	if err != nil || got.Index != 3 || len(got.Events) != 2 || got.Events[1].Key != "b" ||
		string(got.Events[1].Payload) != `{"Job":{"ID":"b"}}` {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = s.Next()
	if !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
	asked := f.requests()[0]
	want := map[event.Topic][]string{event.Job: {"a", "b"}}
	if !reflect.DeepEqual(asked.Topics, want) || asked.Namespace != "*" {
		t.Errorf("the request is %+v", asked)
	}
}

// The header of a line equals what encoding/json makes of the whole event.
func TestLine_IsTheJSONOfItsEvents(t *testing.T) {
	e := jobEvent(3, `a"b`)
	e.Payload = []byte(`{"Job":null}`)
	e.Reason = "why"
	e.FilterKeys = []string{"k"}
	f := &feed{answers: []any{&event.ListResponse{Events: []*event.Event{e}, Next: 3}}, idle: 1}
	_, lines, err := read(t, serve(t, f), "follow=false")
	if err != nil {
		t.Fatal(err)
	}
	var got events.Line
	err = json.Unmarshal([]byte(lines[0]), &got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil || string(again) != lines[0] {
		t.Errorf("the line is %s, want %s", lines[0], again)
	}
}
