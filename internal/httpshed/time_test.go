package httpshed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// piped serves one connection without a buffer in virtual time, and returns its other end. serving ends when the
// connection has.
func piped(t *testing.T, c *Config) (conn net.Conn, srv *http.Server, serving *sync.WaitGroup) {
	here, there := net.Pipe()
	o := listenOnce(there)
	srv = &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "served") }),
		IdleTimeout: c.Idle, ReadHeaderTimeout: c.Head,
	}
	join(srv, nil)
	changed, closed := srv.ConnState, make(chan struct{})
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		changed(conn, state)
		if state == http.StateClosed {
			close(closed)
		}
	}
	serving = &sync.WaitGroup{}
	serving.Go(func() { _ = srv.Serve(c.Listen(o)) })
	serving.Go(func() { <-closed })
	t.Cleanup(func() {
		_ = here.Close()
		o.end()
		serving.Wait()
	})
	return here, srv, serving
}

// demand asks for a path, and returns when the server waits for more and reads nothing ahead any more.
func demand(t *testing.T, conn net.Conn, path string, status int) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(resp.Body)
	if resp.StatusCode != status {
		t.Fatalf("%d, want %d", resp.StatusCode, status)
	}
	synctest.Wait()
}

// ends returns how long it takes until the other end closes, and what it said before.
func ends(t *testing.T, conn net.Conn) (after time.Duration, last string) {
	t.Helper()
	begin := time.Now()
	b, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(begin), string(b)
}

// TestWhoIsRefusedIsNotIdle for as long as they ask; whoever asks for nothing is, as without the wrapper.
func TestWhoIsRefusedIsNotIdle(t *testing.T) {
	for name, first := range map[string]bool{"before any is served": false, "after one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(&door{})
				conn, _, _ := piped(t, c)
				if first {
					demand(t, conn, "/other", 200)
				}
				for range 1000 {
					demand(t, conn, "/shed", 503)
					time.Sleep(c.Idle * 3 / 4)
					demand(t, conn, "/shed", 503)
					time.Sleep(time.Second)
				}
				if after, last := ends(t, conn); after > c.Idle || after < c.Idle*3/4 || last != "" {
					t.Errorf("it is closed after %s", after)
				}
			})
		})
	}
}

// TestAHeadTakesNoLongerForARefusalBeforeIt, also where it is the first that net/http hears of.
func TestAHeadTakesNoLongerForARefusalBeforeIt(t *testing.T) {
	for name, first := range map[string]bool{"before any is served": false, "after one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(&door{})
				conn, _, _ := piped(t, c)
				if first {
					demand(t, conn, "/other", 200)
				}
				demand(t, conn, "/shed", 503)
				if _, err := io.WriteString(conn, "GET /shed"); err != nil {
					t.Fatal(err)
				}
				if after, _ := ends(t, conn); after != c.Head {
					t.Errorf("it is closed after %s", after)
				}
			})
		})
	}
}

func TestWhoDoesNotReadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, _ := piped(t, config(&door{}))
		for range 3 {
			demand(t, conn, "/shed", 503)
			time.Sleep(writeTime / 3)
		}
		begin := time.Now()
		if _, err := io.WriteString(conn, "GET /shed HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetWriteDeadline(begin.Add(time.Hour))
		_, err := conn.Write([]byte("G")) // nobody reads that: who would is writing
		if after := time.Since(begin); errors.Is(err, os.ErrDeadlineExceeded) || err == nil || after > writeTime || after < writeTime/2 {
			t.Errorf("after %s: %v", after, err)
		}
	})
}

// TestAnAnswerOfNetHTTPHasNoDeadlineOfOurs: one that is slow to be read is read whole.
func TestAnAnswerOfNetHTTPHasNoDeadlineOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _, _ := piped(t, config(&door{}))
		for range 2 {
			synctest.Wait() // a request right behind one that net/http still ends is net/http's, too
			demand(t, conn, "/shed", 503)
			if _, err := io.WriteString(conn, "GET /other HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * writeTime)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			_, _ = io.ReadAll(resp.Body)
		}
	})
}

// TestToCloseEndsIt: a server that is closed or shut down leaves nothing behind.
func TestToCloseEndsIt(t *testing.T) {
	for name, end := range map[string]func(*http.Server) error{
		"closed":    (*http.Server).Close,
		"shut down": func(s *http.Server) error { return s.Shutdown(context.Background()) },
	} {
		for _, path := range []string{"/shed", "/other"} {
			t.Run(name+" after "+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					conn, srv, _ := piped(t, config(&door{}))
					if path == "/other" {
						demand(t, conn, path, 200)
					}
					demand(t, conn, "/shed", 503)
					begin := time.Now()
					if err := end(srv); err != nil {
						t.Error(err)
					}
					_, _ = ends(t, conn)
					if after := time.Since(begin); after > 10*time.Second {
						t.Errorf("it took %s", after)
					}
				})
			})
		}
	}
}

func TestOneTooManyIsNotWaitedForLong(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "half a head": "GET / HT", "a head": "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := config(&door{})
				here, there := net.Pipe()
				o := listenOnce(there)
				srv := &http.Server{IdleTimeout: c.Idle, ReadHeaderTimeout: c.Head, Handler: http.NotFoundHandler()}
				join(srv, (*Conn).TurnAway)
				var serving sync.WaitGroup
				serving.Go(func() { _ = srv.Serve(c.Listen(o)) })
				if _, err := io.WriteString(here, sent); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				b, err := io.ReadAll(here)
				if told := string(b) == awayAnswer; err != nil || told != (name == "a head") || time.Since(begin) > c.Head {
					t.Errorf("after %s: %q, %v", time.Since(begin), b, err)
				}
				o.end()
				serving.Wait()
				_ = here.Close()
			})
		})
	}
}
