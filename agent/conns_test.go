package agent

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// askOver sends a request over a connection and returns the answer's status and its advice when to come
// again.
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
					t.Fatalf("%d", status)
				}
				kept = append(kept, conn)
			}
			if status, again, closes := askOver(t, dial()); status != http.StatusServiceUnavailable || again != "1" ||
				!closes {
				t.Errorf("one too many is answered %d, again %q, closed %v", status, again, closes)
			}
			if status, _, _ := askOver(t, kept[0]); status != http.StatusOK {
				t.Errorf("one that was let in is answered %d", status)
			}
			_ = kept[0].Close()
			for { // until the server has noticed, or the test's time is over
				status, _, _ := askOver(t, dial())
				if status == http.StatusOK {
					break
				}
				select {
				case <-t.Context().Done():
					t.Fatal("no connection takes the place of one that was closed")
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
}

func TestConfig_LimitsAreValidated(t *testing.T) {
	for _, l := range []Limits{{HTTPMaxConns: 0, HTTPMaxConnsPerClient: 1},
		{HTTPMaxConns: 1, HTTPMaxConnsPerClient: -1}} {
		if l.validate() == nil {
			t.Errorf("%+v passes", l)
		}
	}
	if err := defaultLimits().validate(); err != nil {
		t.Error(err)
	}
}
