package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"berth/structs"
)

// Limits bound what callers over HTTP may take of the process.
type Limits struct {
	HTTPMaxConns          int `hcl:"http_max_conns"`            // connections in all
	HTTPMaxConnsPerClient int `hcl:"http_max_conns_per_client"` // of one remote address
}

func defaultLimits() Limits { return Limits{HTTPMaxConns: 4096, HTTPMaxConnsPerClient: 1024} }

// validate names all faults.
func (l Limits) validate() error {
	var faults []error
	if l.HTTPMaxConns < 1 {
		faults = append(faults, fmt.Errorf("limits: http_max_conns is %d; expected 1 or more", l.HTTPMaxConns))
	}
	if l.HTTPMaxConnsPerClient < 1 {
		faults = append(faults, fmt.Errorf("limits: http_max_conns_per_client is %d; expected 1 or more", l.HTTPMaxConnsPerClient))
	}
	return errors.Join(faults...)
}

// idleConn is how long a connection is kept on which nobody asks for anything.
const idleConn = 2 * time.Minute

// conns counts the connections of an HTTP server. Whoever has one too many is answered once, 503 and when to
// come again, and the connection is closed: a connection that is only closed would look like a server that is
// down. Those that are being answered so are bounded by as many again; beyond that they are only closed.
type conns struct {
	limits Limits

	mu  sync.Mutex
	all int
	of  map[string]int // by remote address
}

func newConns(l Limits) *conns { return &conns{limits: l, of: map[string]int{}} }

// tooMany marks, in a request's context, a connection that is one too many.
type tooMany struct{}

// serve puts the bounds on a server that has its handler.
func (c *conns) serve(s *http.Server) {
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(tooMany{}) == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "1")
		w.Header().Set("X-Berth-Error-Kind", string(structs.KindUnavailable))
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "this agent has too many connections; expected fewer at once, each used again (limits in its configuration)")
	})
	s.ConnContext = c.opened
	s.ConnState = c.changed
}

// opened is called once for each connection, before anything else.
func (c *conns) opened(ctx context.Context, conn net.Conn) context.Context {
	who := addressOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	c.of[who]++
	if c.all > 2*c.limits.HTTPMaxConns {
		_ = conn.Close()
	}
	if c.all > c.limits.HTTPMaxConns || c.of[who] > c.limits.HTTPMaxConnsPerClient {
		return context.WithValue(ctx, tooMany{}, true)
	}
	return ctx
}

func (c *conns) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	who := addressOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[who]--; c.of[who] == 0 {
		delete(c.of, who)
	}
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}
