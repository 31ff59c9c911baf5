package operator_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	_ "berth/api/events" // the route
	"berth/api/show"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/cli/operator"
	"berth/structs"
	"berth/structs/event"
)

var eventTree = []command.Command{operator.EventCommand}

func fixedClock(t *testing.T) {
	t.Helper()
	show.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local) }
	t.Cleanup(func() { show.Now = time.Now })
}

// serveEvents serves one answer with events, and records the requests.
func serveEvents(t *testing.T, resp event.ListResponse) (addr string, asked *apitest.Caller) {
	t.Helper()
	caller := &apitest.Caller{}
	apitest.On(caller, event.List, func(_ context.Context, req *event.ListRequest) (*event.ListResponse, error) {
		if req.After >= resp.Next {
			return &event.ListResponse{Next: req.After}, nil
		}
		return &resp, nil
	})
	return clitest.Serve(t, caller, nil), caller
}

func TestEvents_ShowsALineForEachEvent(t *testing.T) {
	fixedClock(t)
	addr, caller := serveEvents(t, event.ListResponse{
		Next:   12,
		Missed: &event.Gap{From: 3, To: 8},
		Events: []*event.Event{
			{
				Topic: event.Job, Type: "JobRegistered", Key: "web",
				Namespace: "default", Index: 11, Payload: []byte("{}"),
			},
			{
				Topic: event.Allocation, Type: "PlanResult", Key: "a1a1a1a1-0000-0000-0000-000000000000",
				Namespace: "team", Index: 12, Reason: "two\nlines", Payload: []byte(`{"Allocation":null}`),
			},
		},
	})
	code, out, errs := clitest.Run(t, eventTree, "events", "-address", addr, "-index", "3", "-topic", "Job:web",
		"-topic", "Allocation", "-filter", "f")
	want := "03:04:05  8  Stream      EventsMissed            EventsMissed  " +
		"the servers no longer have the events 3 to 8: read the state again\n" +
		"03:04:05  11  Job         JobRegistered           web\n" +
		"03:04:05  12  Allocation  PlanResult              team/a1a1a1a1  two lines\n"
	if code != 0 || out != want || errs != "" {
		t.Errorf("got %d %q %q, want\n%s", code, out, errs, want)
	}
	req := caller.Take()[0].Request.(*event.ListRequest)
	if req.After != 2 || req.Filter != "f" || fmt.Sprint(req.Topics) != "map[Allocation:[*] Job:[web] Stream:[*]]" {
		t.Errorf("the request is %+v", req)
	}

	_, out, _ = clitest.Run(t, eventTree, "events", "-address", addr, "-json")
	if !strings.HasSuffix(out, `"Reason":"two\nlines","Payload":{"Allocation":null}}]}`+"\n") ||
		strings.Count(out, "\n") != 3 {
		t.Errorf("the JSON is %s", out)
	}
}

func TestEvents_ReportsAFaultAtOnce(t *testing.T) {
	caller := &apitest.Caller{}
	apitest.Fail(caller, event.List, structs.Invalidf("there is no topic %q", "Jib"))
	addr := clitest.Serve(t, caller, nil)
	for _, line := range []string{"events", "events -f"} {
		args := append(strings.Fields(line), "-topic", "Jib", "-address", addr)
		code, _, errs := clitest.Run(t, eventTree, args...)
		if code != 2 || !strings.Contains(errs, `there is no topic "Jib"`) {
			t.Errorf("got %d %q", code, errs)
		}
	}
}

// lostServer is an agent whose first streams break off after some lines.
type lostServer struct {
	streams [][]string
	asked   []string
}

func (l *lostServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.asked = append(l.asked, r.URL.Query().Get("index"))
	lines := l.streams[0]
	l.streams = l.streams[1:]
	if lines == nil {
		w.Header().Set("X-Berth-Error-Kind", "denied")
		http.Error(w, "the token has ended", http.StatusForbidden)
		return
	}
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// eventText is an event of a line.
func eventText(index int, key string) string {
	return fmt.Sprintf(`{"Topic":"Job","Type":"T","Key":"%s","Index":%d,"Payload":{}}`, key, index)
}

func eventLine(index int, events ...string) string {
	return fmt.Sprintf(`{"Index":%d,"Events":[%s]}`, index, strings.Join(events, ","))
}

// TestEvents_ShowsEachEventOnceOverALostAgent checks that the command goes on in the middle of a log entry.
func TestEvents_ShowsEachEventOnceOverALostAgent(t *testing.T) {
	fixedClock(t)
	l := &lostServer{streams: [][]string{
		{"{}", eventLine(3, eventText(3, "a")), eventLine(4, eventText(4, "b"), eventText(4, "c"))},
		{eventLine(4, eventText(4, "b")), eventLine(4, eventText(4, "c"), eventText(4, "d")),
			eventLine(5, eventText(5, "e"))},
		{eventLine(5, eventText(5, "e"))},
		nil,
	}}
	srv := httptest.NewServer(l)
	defer srv.Close()
	code, out, errs := clitest.Run(t, eventTree, "events", "-f", "-address", srv.URL)
	var keys []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		keys = append(keys, fields[len(fields)-1])
	}
	if got := strings.Join(keys, " "); got != "a b c d e" || code != 3 {
		t.Errorf("got %q with the code %d: %s%s", got, code, out, errs)
	}
	if got := strings.Join(l.asked, " "); got != "0 4 5 5" {
		t.Errorf("the streams begin at %q", got)
	}
	if !strings.Contains(errs, "waits for the agent: the stream of events broke off") {
		t.Errorf("the output says nothing about the break: %q", errs)
	}
}
