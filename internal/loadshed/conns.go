package loadshed

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Conns counts connections by remote host.
type Conns struct {
	MostPerHost int // connections of one remote host

	mu   sync.Mutex
	from map[string]int
}

// Add counts a connection, and returns how many of its remote host there are with it.
func (c *Conns) Add(conn net.Conn) (ofHost int) {
	host := hostOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.from == nil {
		c.from = map[string]int{}
	}
	c.from[host]++
	return c.from[host]
}

// Remove stops counting a connection that was added.
func (c *Conns) Remove(conn net.Conn) {
	host := hostOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
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

// isLocal reports whether a connection comes from this machine.
func isLocal(conn net.Conn) bool {
	switch addr := conn.RemoteAddr().(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	}
	return false
}

// HTTPConns bounds the connections of an HTTP server. A connection beyond a bound is answered once, by
// Excess, and closed: a connection that is only closed looks like a server that is down. Beyond twice a bound
// a connection is only closed.
//
// A request that waits for a change keeps its connection for minutes, so a few clients could take all. A part
// of Most is kept for requests that do not wait, and as much for connections from this machine. A request
// that waits beyond its share is answered by ExcessWait, and its connection is closed.
type HTTPConns struct {
	Conns
	Most   int // connections in all
	Excess http.Handler
	// Waits reports whether a request waits for a change. Nil: none does.
	Waits      func(*http.Request) bool
	ExcessWait http.Handler

	local   func(net.Conn) bool // nil: isLocal; tests have no other machine
	uses    httpUses
	unused  unusedConns
	reserve int
}

// httpUses counts the connections of an HTTP server.
type httpUses struct {
	mu      sync.Mutex
	served  int                   // within the bounds
	beyond  map[net.Conn]struct{} // beyond a bound
	waiting int                   // requests that wait for a change
}

// connClass is the decision on a connection. The contexts of its requests have it.
type connClass struct {
	beyond bool // beyond a bound
	local  bool // from this machine
}

type connClassKey struct{}

// excessBody bounds how long net/http reads the body of a request that Excess has answered. Without a bound
// it would wait for ever.
const excessBody = time.Second

// The share of all connections that is kept: a part of them, at least a few, and not most of a small number.
const (
	keptPart   = 10
	keptLeast  = 8
	keptAtMost = 4 // the part that is never exceeded
)

// Bound bounds the connections of a server that has not been started. The server keeps its handler. Its
// shutdown does not wait for connections without a request.
func (c *HTTPConns) Bound(s *http.Server) {
	c.reserve = min(max(c.Most/keptPart, keptLeast), c.Most/keptAtMost)
	serve := s.Handler
	s.ConnContext = c.connContext
	s.ConnState = c.connState
	s.RegisterOnShutdown(c.unused.closeAll)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of, _ := r.Context().Value(connClassKey{}).(connClass)
		switch {
		case of.beyond:
			CountRejected("http connections", 1)
			reject(w, r, c.Excess)
		case c.Waits == nil || !c.Waits(r):
			serve.ServeHTTP(w, r)
		case c.enterWait(of):
			defer c.leaveWait()
			serve.ServeHTTP(w, r)
		default:
			CountRejected("http waiting", 1)
			reject(w, r, c.ExcessWait)
		}
	})
}

// reject answers a request, and closes its connection afterwards.
func reject(w http.ResponseWriter, r *http.Request, answer http.Handler) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).
		SetReadDeadline(time.Now().Add(excessBody))
	answer.ServeHTTP(w, r)
}

// connContext counts a connection; net/http calls it once for each, before anything is read.
func (c *HTTPConns) connContext(ctx context.Context, conn net.Conn) context.Context {
	ofHost := c.Add(conn)
	of := connClass{local: c.isLocal(conn)}
	served, beyond := c.countConn(conn, of, ofHost <= c.MostPerHost)
	of.beyond = !served
	if ofHost > 2*c.MostPerHost || beyond > c.Most {
		_ = conn.Close() // connState is called
	}
	return context.WithValue(ctx, connClassKey{}, of)
}

func (c *HTTPConns) isLocal(conn net.Conn) bool {
	if c.local != nil {
		return c.local(conn)
	}
	return isLocal(conn)
}

// countConn decides whether a connection is served. may is false if its host has too many. beyond is how many
// are not served, 0 if this one is.
func (c *HTTPConns) countConn(conn net.Conn, of connClass, may bool) (served bool, beyond int) {
	c.uses.mu.Lock()
	defer c.uses.mu.Unlock()
	most := c.Most
	if !of.local {
		most -= c.reserve
	}

	if may && c.uses.served < most {
		c.uses.served++
		return true, 0
	}

	if c.uses.beyond == nil {
		c.uses.beyond = map[net.Conn]struct{}{}
	}

	c.uses.beyond[conn] = struct{}{}
	return false, len(c.uses.beyond)
}

func (c *HTTPConns) connState(conn net.Conn, state http.ConnState) {
	c.unused.note(conn, state)
	switch state {
	case http.StateClosed, http.StateHijacked:
		c.Remove(conn)
		c.uncountConn(conn)
	}
}

func (c *HTTPConns) uncountConn(conn net.Conn) {
	c.uses.mu.Lock()
	defer c.uses.mu.Unlock()
	if _, beyond := c.uses.beyond[conn]; beyond {
		delete(c.uses.beyond, conn)
	} else {
		c.uses.served--
	}
}

// enterWait counts a request that waits for a change. It reports false if there are too many.
func (c *HTTPConns) enterWait(of connClass) bool {
	c.uses.mu.Lock()
	defer c.uses.mu.Unlock()
	most := c.Most - c.reserve
	if !of.local {
		most -= c.reserve
	}

	if c.uses.waiting >= most {
		return false
	}

	c.uses.waiting++
	return true
}

func (c *HTTPConns) leaveWait() {
	c.uses.mu.Lock()
	defer c.uses.mu.Unlock()
	c.uses.waiting--
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
