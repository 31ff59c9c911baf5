package loadshed

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Conns counts connections, in all and by remote host. Those of a host beyond MostPerHost do not count in
// all, so that one host takes no more of a bound on all connections than it may have.
type Conns struct {
	MostPerHost int // connections of one remote host

	mu   sync.Mutex
	all  int
	from map[string]int
}

// Add counts a connection, and returns how many there are with it: in all, and of its remote host.
func (c *Conns) Add(conn net.Conn) (all, ofHost int) {
	host := hostOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == nil {
		c.from = map[string]int{}
	}
	c.from[host]++
	if c.from[host] <= c.MostPerHost {
		c.all++
	}
	return c.all, c.from[host]
}

// Remove stops counting a connection that was added.
func (c *Conns) Remove(conn net.Conn) {
	host := hostOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from[host] <= c.MostPerHost {
		c.all--
	}
	c.from[host]--
	if c.from[host] == 0 {
		delete(c.from, host)
	}
}

// hostOf returns the remote address of a connection without its port.
func hostOf(conn net.Conn) string {
	addr := conn.RemoteAddr().String()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// HTTPConns bounds the connections of an HTTP server. A connection beyond a bound is answered once, by
// Excess, and closed: a connection that is only closed looks like a server that is down. Beyond twice a bound
// a connection is only closed.
type HTTPConns struct {
	Conns
	Most   int // connections in all
	Excess http.Handler

	unused unusedConns
}

// excess marks the context of a connection that is beyond a bound.
type excess struct{}

// excessBody bounds how long net/http reads the body of a request that Excess has answered. Without a bound
// it would wait for ever.
const excessBody = time.Second

// Bound bounds the connections of a server that has not been started. The server keeps its handler. Its
// shutdown does not wait for connections without a request.
func (c *HTTPConns) Bound(s *http.Server) {
	serve := s.Handler
	s.ConnContext = c.connContext
	s.ConnState = c.connState
	s.RegisterOnShutdown(c.unused.closeAll)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(excess{}) == nil {
			serve.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		_ = http.NewResponseController(w).
			SetReadDeadline(time.Now().Add(excessBody))
		c.Excess.ServeHTTP(w, r)
	})
}

// connContext counts a connection; net/http calls it once for each, before anything is read.
func (c *HTTPConns) connContext(ctx context.Context, conn net.Conn) context.Context {
	all, ofHost := c.Add(conn)
	if all > 2*c.Most || ofHost > 2*c.MostPerHost {
		_ = conn.Close() // connState is called
	}
	if all > c.Most || ofHost > c.MostPerHost {
		return context.WithValue(ctx, excess{}, true)
	}
	return ctx
}

func (c *HTTPConns) connState(conn net.Conn, state http.ConnState) {
	c.unused.note(conn, state)
	switch state {
	case http.StateClosed, http.StateHijacked:
		c.Remove(conn)
	}
}

// unusedConns are the connections that have not sent the head of a request yet. http.Server.Shutdown waits up
// to 5 seconds for each of them, and a client that dials ahead has some.
type unusedConns struct {
	mu     sync.Mutex
	all    map[net.Conn]struct{}
	closed bool // so is each that comes now
}

// note records the state of a connection.
func (u *unusedConns) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.all, conn)
	case u.closed:
		_ = conn.Close()
	case u.all == nil:
		u.all = map[net.Conn]struct{}{conn: {}}
	default:
		u.all[conn] = struct{}{}
	}
}

// closeAll closes the unused connections, also later ones.
func (u *unusedConns) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for conn := range u.all {
		_ = conn.Close()
	}
}
