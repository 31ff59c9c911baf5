package loadshed

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// flooded is an HTTP server with small bounds. A GET with an index waits until the server is released. The
// address 127.0.0.1 is the machine itself, and the other addresses of the loopback are other machines.
type flooded struct {
	t       *testing.T
	conns   *HTTPConns
	addr    string
	release chan struct{}
	waits   chan struct{} // has a value for each request that began to wait
	reads   sync.WaitGroup
}

func newFlooded(t *testing.T, most int) *flooded {
	reject := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	f := &flooded{t: t, release: make(chan struct{}), waits: make(chan struct{}, 10*most)}
	f.conns = &HTTPConns{
		Most:       most,
		Excess:     http.HandlerFunc(reject),
		Waits:      func(r *http.Request) bool { return r.URL.Query().Has("index") },
		ExcessWait: http.HandlerFunc(reject),
		local:      func(conn net.Conn) bool { return hostOf(conn) == "127.0.0.1" },
	}
	f.conns.MostPerHost = most
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("index") {
			f.waits <- struct{}{}
			<-f.release
		}
	}))
	f.conns.Bound(srv.Config)
	srv.Start()
	f.addr = srv.Listener.Addr().String()
	t.Cleanup(func() { // after the end of the clients' connections
		close(f.release)
		srv.Close()
		f.reads.Wait()
	})
	return f
}

// answer is the answer to a request. closes says that the connection ends with it.
type answer struct {
	status int
	closes bool
	err    error
}

// request sends a request from an address over a connection of its own.
func (f *flooded) request(from, method, path string) <-chan answer {
	f.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(f.t.Context(), "tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: berth\r\nContent-Length: 0\r\n\r\n", method, path)
	if err != nil {
		f.t.Fatal(err)
	}
	answered := make(chan answer, 1)
	f.reads.Go(func() {
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			answered <- answer{err: err}
			return
		}
		_ = resp.Body.Close()
		a := answer{status: resp.StatusCode}
		if resp.Close {
			_, err = r.ReadByte()
			a.closes = err == io.EOF
		}
		answered <- a
	})
	return answered
}

// flood sends a number of blocking reads from 20 other machines. It returns how many of them wait: the others
// are rejected.
func (f *flooded) flood(many int) (waiting int) {
	f.t.Helper()
	for i := range many {
		answered := f.request(fmt.Sprintf("127.0.1.%d", 1+i%20), http.MethodGet, "/v1/jobs?index=7")
		select {
		case <-f.waits:
			waiting++
		case a := <-answered:
			f.wantRejected(a)
		}
	}
	return waiting
}

func (f *flooded) wantRejected(a answer) {
	f.t.Helper()
	if a.status != http.StatusServiceUnavailable || !a.closes {
		f.t.Errorf("got %+v, want status 503 and the end of the connection", a)
	}
}

func (f *flooded) wantServed(what string, answered <-chan answer) {
	f.t.Helper()
	if a := <-answered; a.status != http.StatusOK || a.closes {
		f.t.Errorf("%s: got %+v, want it served", what, a)
	}
}

// Blocking reads from a few addresses take neither the connections of writes and of other reads, nor those of
// this machine.
func TestHTTPConns_BlockingReadsLockNobodyOut(t *testing.T) {
	f := newFlooded(t, 100) // 10 are kept for each purpose
	if got := f.flood(120); got != 80 {
		t.Errorf("%d blocking reads wait, want 80", got)
	}
	f.wantServed("a write", f.request("127.0.1.1", http.MethodPut, "/v1/jobs"))
	f.wantServed("a read", f.request("127.0.1.2", http.MethodGet, "/v1/jobs"))
	f.wantServed("a write of this machine", f.request("127.0.0.1", http.MethodPut, "/v1/jobs"))

	// This machine has as many blocking reads more.
	for range 10 {
		local := f.request("127.0.0.1", http.MethodGet, "/v1/jobs?index=7")
		select {
		case <-f.waits:
		case a := <-local:
			t.Fatalf("a blocking read of this machine: got %+v, want it to wait", a)
		}
	}
	f.wantRejected(<-f.request("127.0.0.1", http.MethodGet, "/v1/jobs?index=7"))
	f.wantServed("a write of this machine", f.request("127.0.0.1", http.MethodPut, "/v1/jobs"))
}

// Connections of other machines, also idle ones, take not all of the connections.
func TestHTTPConns_KeepsConnectionsForThisMachine(t *testing.T) {
	f := newFlooded(t, 100)
	for i := range 90 {
		from := fmt.Sprintf("127.0.1.%d", 1+i%20)
		f.wantServed("an idle connection", f.request(from, http.MethodGet, "/v1/jobs"))
	}
	for range 30 { // those beyond the bound do not count
		f.wantRejected(<-f.request("127.0.1.1", http.MethodGet, "/v1/jobs"))
	}
	for range 10 {
		f.wantServed("this machine", f.request("127.0.0.1", http.MethodGet, "/v1/jobs"))
	}
	f.wantRejected(<-f.request("127.0.0.1", http.MethodGet, "/v1/jobs"))
}

// A place is free again when its request has ended.
func TestHTTPConns_AnEndedWaitMakesPlace(t *testing.T) {
	f := newFlooded(t, 100)
	if got := f.flood(81); got != 80 {
		t.Errorf("%d blocking reads wait, want 80", got)
	}
	for range 5 {
		f.release <- struct{}{}
	}
	f.awaitWaits(75)
	if got := f.flood(6); got != 5 {
		t.Errorf("%d more blocking reads wait, want 5", got)
	}
}

// awaitWaits waits until the server counts a number of requests that wait.
func (f *flooded) awaitWaits(want int) {
	f.t.Helper()
	for {
		f.conns.uses.mu.Lock()
		waiting := f.conns.uses.waiting
		f.conns.uses.mu.Unlock()
		switch {
		case waiting == want:
			return
		case f.t.Context().Err() != nil:
			f.t.Fatalf("%d requests wait, want %d", waiting, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestHTTPConns_KeepsAPartOfEachBound(t *testing.T) {
	for most, want := range map[int]int{1: 0, 3: 0, 4: 1, 20: 5, 40: 8, 100: 10, 4096: 409} {
		c := &HTTPConns{Most: most}
		c.Bound(&http.Server{})
		if c.reserve != want {
			t.Errorf("of %d connections %d are kept, want %d", most, c.reserve, want)
		}
	}
}

func TestIsLocal_IsThisMachine(t *testing.T) {
	for _, c := range []struct {
		conn net.Conn
		want bool
	}{
		{connFrom("127.0.0.1", 1), true},
		{connFrom("127.8.0.1", 1), true},
		{connFrom("::1", 1), true},
		{connFrom("::ffff:127.0.0.1", 1), true},
		{&remoteConn{addr: &net.UnixAddr{Name: "sock"}}, true},
		{connFrom("10.0.0.1", 1), false},
		{connFrom("fe80::1", 1), false},
	} {
		if got := isLocal(c.conn); got != c.want {
			t.Errorf("%s: got %t, want %t", c.conn.RemoteAddr(), got, c.want)
		}
	}
}
