package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// stream serves the lines of a stream, and what it was asked for.
func stream(t *testing.T, lines ...string) (addr string, asked func() *http.Request) {
	t.Helper()
	var last *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		last = req
		_, _ = w.Write([]byte(strings.Join(lines, "\n") + "\n"))
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://"), func() *http.Request { return last }
}

// line is the line of a log entry with the reports of some nodes.
func line(numbers ...int64) string {
	var events []string
	for _, n := range numbers {
		events = append(events, fmt.Sprintf(`{"Topic":"Instance","Reason":"healthy %d","Payload":{"Instance":{`+
			`"HealthDescription":"healthy %d"}}}`, n, n))
	}
	return `{"Index":7,"Events":[` + strings.Join(events, ",") + `]}`
}

const gap = `{"Index":7,"Events":[{"Topic":"Stream","Type":"EventsMissed"}]}`

func TestEventReader_CountsUntilTheLastReport(t *testing.T) {
	now := time.Now().UnixNano()
	other := `{"Index":7,"Events":[{"Topic":"Node","Reason":"healthy 1"}]}`
	addr, asked := stream(t, "{}", line(now, now), gap, other, line(now), line(-now), line(now))
	r, err := openReader(t.Context(), addr, readersPerAddress, url.Values{"topic": {"Instance:a", "Stream"}})
	if err != nil {
		t.Fatal(err)
	}
	err = r.run()
	if err != nil || r.read.Load() != 3 || r.gaps != 1 || len(r.lag) != 2 {
		t.Errorf("read %d events and %d gaps, %d lags: %v; want 3, 1 and 2",
			r.read.Load(), r.gaps, len(r.lag), err)
	}
	if r.lag[0] < 0 || slices.Max(r.lag) > time.Since(time.Unix(0, now)) {
		t.Errorf("the events were late by %v", r.lag)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
	got := asked()
	if !strings.HasPrefix(got.RemoteAddr, "127.0.0.3:") || got.URL.Query()["topic"][1] != "Stream" {
		t.Errorf("the stream was asked from %s for %v", got.RemoteAddr, got.URL.Query())
	}
}

func TestEventReader_TellsOfAStreamThatBrokeOff(t *testing.T) {
	addr, _ := stream(t, line(time.Now().UnixNano()))
	r, err := openReader(t.Context(), addr, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("got %v", err)
	}
	_ = r.close()

	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := openReader(ended, addr, 0, nil); err == nil {
		t.Error("a stream opens although its context has ended")
	}
}

func TestEventReader_TellsTheAnswerOfAServerWithoutEvents(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no events are kept", http.StatusPreconditionFailed)
	}))
	defer srv.Close()
	_, err := openReader(t.Context(), strings.TrimPrefix(srv.URL, "http://"), 3, nil)
	if err == nil || !strings.Contains(err.Error(), "reader 3: 412") || !strings.Contains(err.Error(), "kept") {
		t.Errorf("got %v", err)
	}
}

// The readers of nodes have each node once, so that they get one copy of each event together.
func TestOwnNodes_DivideTheFleet(t *testing.T) {
	f := &fleet{size: 25}
	seen := map[string]int{}
	for i := range 10 {
		for _, topic := range ownNodes(f, i, 10) {
			seen[topic]++
		}
	}
	if len(seen) != 26 || seen["Stream"] != 10 {
		t.Errorf("the readers have %d topics, want 25 nodes and the stream: %v", len(seen), seen)
	}
}

func TestPrintEventRows_HasMediansBesideTheFirstSide(t *testing.T) {
	var rows []*eventRow
	for _, cpu := range []float64{50, 10, 40} {
		rows = append(rows, &eventRow{Side: eventSides[0].name, CPU: cpu, Writes: 100 * cpu},
			&eventRow{Side: eventSides[1].name, CPU: cpu + 10, Gaps: int(cpu)})
	}
	var b strings.Builder
	printEventRows(&b, medianRows(rows))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 3 || !slices.Contains(strings.Fields(lines[1]), "4000") ||
		!slices.Contains(strings.Fields(lines[2]), "1.250") {
		t.Errorf("got\n%s", b.String())
	}
}
