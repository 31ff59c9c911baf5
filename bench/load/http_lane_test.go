package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/structs"
)

// fakeSite is a server over HTTP that counts.
type fakeSite struct {
	*httptest.Server
	mu     sync.Mutex
	opened int      // connections
	open   int      // requests in flight
	most   int      // of them at once
	paths  []string // in the order in which they came
	bodies []string
}

func newFakeSite(t *testing.T, serve http.HandlerFunc) *fakeSite {
	s := &fakeSite{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.open++
		s.most = max(s.most, s.open)
		s.paths = append(s.paths, r.URL.Path)
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		serve(w, r)
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			s.opened++
			s.mu.Unlock()
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// count is a number of the site's.
func (s *fakeSite) count(of *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *of
}

// received are the paths and bodies that came so far.
func (s *fakeSite) received() (paths, bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.paths), slices.Clone(s.bodies)
}

// lane opens a lane to it. Request n is a PUT of n to /n.
func (s *fakeSite) lane(t *testing.T, conns int) *httpLane {
	addr := s.Listener.Addr().String()
	wire, err := render(addr, 1000, func(n int) (*http.Request, error) {
		return http.NewRequest(http.MethodPut, fmt.Sprint("/", n),
			strings.NewReader(fmt.Sprint(n)))
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := openHTTPLane(addr, conns, wire)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// try is an attempt of which a test sees the answer.
type try chan error

func (try) sending()             {}
func (a try) answered(err error) { a <- err }

// ask sends request n and waits for its answer.
func ask(t *testing.T, l *httpLane, n int) error {
	a := make(try, 1)
	if err := l.send(t.Context(), n, a); err != nil {
		t.Fatal(err)
	}
	return <-a
}

func answerFine(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "fine")
}

func TestLanes_ReuseConnections(t *testing.T) {
	s := newFakeSite(t, answerFine)
	l := s.lane(t, 4)
	a := offer{rate: 20000, time: 100 * time.Millisecond}.run(t.Context(), []lane{l})
	if len(a.took) != 2000 || a.failed != 0 ||
		a.unsent != 0 || len(a.rejected) != 0 {
		t.Errorf("of 2000 requests %d were answered well, %d failed (%v), %d were unsent", len(a.took), a.failed,
			a.last, a.unsent)
	}
	if opened, most := s.count(&s.opened), s.count(&s.most); opened != 4 || most > 4 {
		t.Errorf("%d connections were opened for at most %d requests at once, want 4", opened, most)
	}
	paths, bodies := s.received()
	for i, p := range paths {
		if p[1:] != bodies[i] {
			t.Fatalf("%s came with %q", p, bodies[i])
		}
	}
}

func TestLanes_RequestsWaitInOrder(t *testing.T) {
	s := newFakeSite(t, answerFine)
	l := s.lane(t, 1)
	offer{rate: 1e6, time: time.Millisecond}.run(t.Context(), []lane{l})
	paths, _ := s.received()
	if len(paths) != 1000 {
		t.Errorf("%d came, want 1000", len(paths))
	}
	for i, p := range paths {
		if p != fmt.Sprint("/", i) {
			t.Fatalf("%s came as number %d", p, i)
		}
	}
}

// TestLanes_BusyConnectionsAcceptNoRequest delays the server's answers: all other requests stay unsent.
func TestLanes_BusyConnectionsAcceptNoRequest(t *testing.T) {
	came := make(chan struct{}, 100)
	hold := make(chan struct{})
	s := newFakeSite(t, func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-hold
	})
	defer close(hold)
	l := s.lane(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var a *answers
	var wg sync.WaitGroup
	wg.Go(func() {
		a = offer{rate: 1000, time: 50 * time.Millisecond}.run(ctx, []lane{l})
	})
	for range 3 {
		<-came
	}
	cancel()
	wg.Wait()
	if a.sent != 3 || a.unsent != 47 || len(a.lag) != 3 || len(a.took) != 0 {
		t.Errorf("%d were sent, %d unsent, %d answered; want 3, 47 and none",
			a.sent, a.unsent, len(a.took))
	}
}

// TestLanes_CloseAnswersRequestsInFlight with an error.
func TestLanes_CloseAnswersRequestsInFlight(t *testing.T) {
	came := make(chan struct{})
	hold := make(chan struct{})
	s := newFakeSite(t, func(http.ResponseWriter, *http.Request) {
		close(came)
		<-hold
	})
	defer close(hold)
	l := s.lane(t, 2)
	a := make(try, 1)
	if err := l.send(t.Context(), 0, a); err != nil {
		t.Fatal(err)
	}
	<-came
	l.close()
	if err := <-a; err == nil {
		t.Error("a request was answered well that was not answered")
	}
}

// TestLanes_RejectionsHaveARetryTime. After a rejection that closes the connection, the lane opens another.
func TestLanes_RejectionsHaveARetryTime(t *testing.T) {
	s := newFakeSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/1":
			w.Header().Set("Connection", "close")
			w.Header().Set("X-Berth-Retry-After", "1ms")
			fallthrough
		case "/0":
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	l := s.lane(t, 1)
	for n, want := range []time.Duration{2 * time.Second, time.Millisecond} {
		if err := ask(t, l, n); !structs.IsKind(err, structs.KindUnavailable) || structs.RetryAfter(err) != want {
			t.Errorf("request %d: %v, retry after %s, want %s",
				n, err, structs.RetryAfter(err), want)
		}
	}
	if err := ask(t, l, 2); err != nil || s.count(&s.opened) != 2 {
		t.Errorf("after that: %v, by connection %d", err, s.count(&s.opened))
	}
}

// TestLanes_RedialBrokenConnections, however they broke; the request that they served fails, and no other.
func TestLanes_RedialBrokenConnections(t *testing.T) {
	say := map[string]string{
		"/0": "",
		"/1": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"/2": "what?\r\n",
		"/3": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	}
	s := newFakeSite(t, func(w http.ResponseWriter, r *http.Request) {
		text, broken := say[r.URL.Path]
		if !broken {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	})
	l := s.lane(t, 1)
	for n := range say {
		var number int
		_, _ = fmt.Sscanf(n, "/%d", &number)
		if err := ask(t, l, number); err == nil || structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: %v, want an error that is none of the server's", n, err)
		}
		if err := ask(t, l, 4); err != nil {
			t.Errorf("the request after %s failed: %v", n, err)
		}
	}
	if opened := s.count(&s.opened); opened != 5 {
		t.Errorf("%d connections were opened, want 5", opened)
	}
}

// TestLanes_ReplaceEndedIdleConnections before a request needs them.
func TestLanes_ReplaceEndedIdleConnections(t *testing.T) {
	s := newFakeSite(t, answerFine)
	l := s.lane(t, 2)
	if err := ask(t, l, 0); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock() // no dial meanwhile
	old := slices.Clone(l.free)
	first := []net.Conn{old[0].conn, old[1].conn}
	s.CloseClientConnections()
	l.mu.Unlock()
	for fresh := 0; fresh < 2; {
		<-l.freed
		fresh = 0
		l.mu.Lock()
		for _, c := range l.free {
			if !slices.Contains(first, c.conn) {
				fresh++
			}
		}
		l.mu.Unlock()
	}
	if err := ask(t, l, 1); err != nil {
		t.Error(err)
	}
}

// TestLanes_WithoutAServerEnd: no request waits for ever.
func TestLanes_WithoutAServerEnd(t *testing.T) {
	s := newFakeSite(t, answerFine)
	l := s.lane(t, 2)
	s.Close()
	a := offer{rate: 1000, time: 100 * time.Millisecond}.run(t.Context(), []lane{l})
	if len(a.took) != 0 || a.unsent+a.failed != 100 {
		t.Errorf("%d were answered, %d failed, %d were unsent; want none, and 100 together", len(a.took),
			a.failed, a.unsent)
	}
	if err := l.send(t.Context(), 0, make(try, 1)); err == nil {
		t.Error("a lane without a server accepted a request")
	}
	if _, err := openHTTPLane(l.addr, 2, l.wire); err == nil {
		t.Error("a lane opened without a server")
	}
}
