package httpshed

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const benchHead = "GET /shed/a-volume?namespace=default HTTP/1.1\r\nHost: 127.0.0.1:4646\r\nUser-Agent: Go-http-client/1.1\r\nAccept-Encoding: gzip\r\n\r\n"

// BenchmarkRefused is a request that is refused, over a socket, here and by a handler; and one that a handler serves
// while none is refused, with connections that are wrapped and not. CPU time is that of both ends.
func BenchmarkRefused(b *testing.B) {
	for name, c := range map[string]struct{ wrapped, open bool }{
		"refused here": {true, false}, "refused by a handler": {}, "served, wrapped": {true, true}, "served": {false, true},
	} {
		b.Run(name, func(b *testing.B) {
			status := http.StatusServiceUnavailable
			if c.open {
				status = http.StatusOK
			}
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "too much", status)
			}))
			if d := new(door); c.wrapped {
				d.open.Store(c.open)
				srv.Listener = config(d).Listen(srv.Listener)
				srv.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context { return conn.(*Conn).Context(ctx) }
				srv.Config.ConnState = func(conn net.Conn, state http.ConnState) { conn.(*Conn).Changed(state) }
			}
			srv.Start()
			defer srv.Close()
			exchange(b, srv.Listener.Addr().String())
		})
	}
}

// exchange has many connections ask for it, each again when it is answered.
func exchange(b *testing.B, addr string) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var clients sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	for range 32 {
		clients.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			buf, head := make([]byte, 4096), []byte(benchHead)
			for left.Add(-1) >= 0 {
				if _, err := conn.Write(head); err != nil {
					b.Error(err)
					return
				}
				if _, err := conn.Read(buf); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the CPU time of this process so far.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return u.Utime.Nano() + u.Stime.Nano()
}

// repeated has the same head whenever it is read, so many times, and takes every answer.
type repeated struct {
	net.Conn
	left int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	r.left--
	return copy(p, benchHead), nil
}

func (r *repeated) Write(p []byte) (int, error)      { return len(p), nil }
func (r *repeated) SetReadDeadline(time.Time) error  { return nil }
func (r *repeated) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkDecided is what is decided about a request, without the system's part.
func BenchmarkDecided(b *testing.B) {
	d := &door{}
	for name, open := range map[string]bool{"refused": false, "passed on while none is refused": true} {
		b.Run(name, func(b *testing.B) {
			d.open.Store(open)
			r := &repeated{}
			c := &Conn{Conn: r, config: config(d), begins: true}
			p := make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				r.left, c.begins = 1, true
				_, _ = c.Read(p)
				c.Changed(http.StateIdle)
			}
		})
	}
}

func TestToRefuseAllocatesNothing(t *testing.T) {
	d := &door{}
	r := &repeated{}
	c := &Conn{Conn: r, config: config(d), begins: true}
	p := make([]byte, 4096)
	const requests = 100
	n := testing.AllocsPerRun(10, func() {
		r.left = requests
		if n, err := c.Read(p); n != 0 || err != io.EOF {
			t.Fatal(n, err)
		}
	})
	if n > 0 || d.asked.Load() != 11*requests {
		t.Errorf("%.0f allocations for %d requests; the gate was asked %d times", n, requests, d.asked.Load())
	}
}
