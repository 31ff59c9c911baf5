package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"berth/api"
	"berth/internal/httpshed"
	"berth/internal/loadshed"
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

// headTime is how long a request's head may take to arrive.
const headTime = 10 * time.Second

// conns are the connections of an HTTP server. It counts them: whoever has one too many is answered once, 503 and
// when to come again, and the connection is closed: a connection that is only closed would look like a server that
// is down. Those that are being answered so are bounded by as many again; beyond that they are only closed. Reads
// that a server's gate refuses are answered on their connection, too (see internal/httpshed).
type conns struct {
	limits Limits
	shed   httpshed.Config

	mu  sync.Mutex
	all int
	of  map[string]int // by remote address
}

// newConns makes the connections of an agent. gate is nil where it has no server: those that it asks then refuse
// by themselves. elsewhere says whether its server passes on what it may not answer by itself.
func newConns(l Limits, gate *loadshed.Gate, elsewhere func() bool) *conns {
	c := &conns{limits: l, of: map[string]int{}, shed: httpshed.Config{
		Idle: idleConn, Head: headTime, Refusal: refusal, TurnAway: turnAway,
	}}
	if gate == nil {
		return c
	}
	c.shed.Refuses = func() bool { return gate.Refuses() || gate.Passing().Refuses() }
	c.shed.GateOf = func(target []byte) httpshed.Gate {
		sheds, stale := api.Sheds(target)
		switch {
		case !sheds:
			return nil
		case !stale && elsewhere():
			return gate.Passing()
		}
		return gate
	}
	return c
}

func refusal(b []byte, again time.Duration) []byte {
	return api.AppendUnavailable(b, loadshed.Refused, again, false)
}

func turnAway(b []byte) []byte {
	const text = "this agent has too many connections; expected fewer at once, each used again (limits in its configuration)"
	return api.AppendUnavailable(b, text, time.Second, true)
}

// serve has a server, not yet started, bounded so. It may only be given listeners that listen returns.
func (c *conns) serve(s *http.Server) {
	s.ReadHeaderTimeout, s.IdleTimeout = headTime, idleConn
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		c.opened(conn.(*httpshed.Conn))
		return conn.(*httpshed.Conn).Context(ctx)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) { c.changed(conn.(*httpshed.Conn), state) }
}

// listen makes the connections that ln accepts those that serve expects.
func (c *conns) listen(ln net.Listener) net.Listener { return c.shed.Listen(ln) }

// opened is called once for each connection, before anything else.
func (c *conns) opened(conn *httpshed.Conn) {
	who := addressOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	c.of[who]++
	if c.all > 2*c.limits.HTTPMaxConns {
		_ = conn.Close()
	}
	if c.all > c.limits.HTTPMaxConns || c.of[who] > c.limits.HTTPMaxConnsPerClient {
		conn.TurnAway()
	}
}

func (c *conns) changed(conn *httpshed.Conn, state http.ConnState) {
	conn.Changed(state)
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
