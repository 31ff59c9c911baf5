package agent

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/api"
	"berth/structs"
)

// askOver sends a request over a connection. It returns the status of the answer and its Retry-After header,
// and reports whether the answer ends the connection.
func askOver(t *testing.T, conn net.Conn) (status int, again string, closes bool) {
	t.Helper()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: berth\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After"), resp.Close
}

// serveConns serves on a real socket, as an agent does.
func serveConns(t testing.TB, l Limits, h http.Handler) *httptest.Server {
	srv := httptest.NewUnstartedServer(h)
	l.bound(srv.Config)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

func TestHTTP_ConnectionsAreBounded(t *testing.T) {
	for name, limits := range map[string]Limits{
		"of one client": {HTTPMaxConns: 100, HTTPMaxConnsPerClient: 3},
		"in all":        {HTTPMaxConns: 3, HTTPMaxConnsPerClient: 100},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serveConns(t, limits, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			dial := func() net.Conn {
				conn, err := net.Dial("tcp", srv.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			var kept []net.Conn
			for range 3 {
				conn := dial()
				status, _, _ := askOver(t, conn)
				if status != http.StatusOK {
					t.Fatalf("got status %d, want 200", status)
				}
				kept = append(kept, conn)
			}
			status, again, closes := askOver(t, dial())
			if status != http.StatusServiceUnavailable || again != "1" || !closes {
				t.Errorf("an excess connection: got status %d, Retry-After %q, closed %v", status, again, closes)
			}
			status, _, _ = askOver(t, kept[0])
			if status != http.StatusOK {
				t.Errorf("an admitted connection: got status %d, want 200", status)
			}
			_ = kept[0].Close()
			for { // until the server has seen the end of the connection, or the time of the test is over
				status, _, _ = askOver(t, dial())
				if status == http.StatusOK {
					break
				}
				select {
				case <-t.Context().Done():
					t.Fatal("the end of a connection admits no other one")
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

// Blocking queries take not all connections: a write gets in, and a further query learns when to try again.
func TestHTTP_KeepsConnectionsForWrites(t *testing.T) {
	waits := make(chan struct{}, 100)
	limits := Limits{HTTPMaxConns: 40, HTTPMaxConnsPerClient: 100}
	srv := serveConns(t, limits, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if api.Waits(r) {
			waits <- struct{}{}
			<-r.Context().Done()
		}
	}))
	ask := func(method, path string) (resp *http.Response, err error) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
		if err != nil {
			return nil, err
		}
		resp, err = srv.Client().Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return resp, err
	}
	var queries sync.WaitGroup
	t.Cleanup(func() {
		srv.CloseClientConnections()
		queries.Wait()
	})
	for range 32 { // 8 connections are kept
		queries.Go(func() { _, _ = ask(http.MethodGet, "/v1/jobs?index=7") })
		<-waits
	}
	resp, err := ask(http.MethodGet, "/v1/jobs?index=7")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || !resp.Close {
		t.Errorf("one more blocking query: got status %d, %v", resp.StatusCode, resp.Header)
	}
	for method, path := range map[string]string{http.MethodPut: "/v1/jobs", http.MethodGet: "/v1/jobs?index=0"} {
		resp, err := ask(method, path)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s %s: got %+v, %v", method, path, resp, err)
		}
	}
}

// TestAgent_BoundsTheHeadOfARequest allows for what net/http adds to the bound: 4 KiB, and on a connection
// that has served a request up to 4 KiB that it reads while it waits for the next one.
func TestAgent_BoundsTheHeadOfARequest(t *testing.T) {
	addr, _, _ := startServer(t, "-data-dir", t.TempDir())
	get(t, addr+"/v1/nodes") // waits for a leader
	for size, want := range map[int]int{
		structs.MaxHTTPHead - 4<<10:  http.StatusOK,
		structs.MaxHTTPHead + 12<<10: http.StatusRequestHeaderFieldsTooLarge,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, addr+"/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", strings.Repeat("x", size))
		resp, err := http.DefaultClient.Do(req)
		for tries := 0; err != nil && tries < 10; tries++ { // net/http hangs up 500 ms after its rejection
			resp, err = http.DefaultClient.Do(req)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("a header of %d bytes: got status %d, want %d", size, resp.StatusCode, want)
		}
	}
}

func TestConfig_LimitsAreValidated(t *testing.T) {
	for _, l := range []Limits{
		{HTTPMaxConns: 0, HTTPMaxConnsPerClient: 1},
		{HTTPMaxConns: 1, HTTPMaxConnsPerClient: -1},
	} {
		if l.validate() == nil {
			t.Errorf("%+v is valid, want an error", l)
		}
	}
	if err := defaultLimits().validate(); err != nil {
		t.Error(err)
	}
}
