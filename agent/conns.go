package agent

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"berth/api"
	"berth/internal/loadshed"
	"berth/ui"
)

// Limits bound the use of the process by HTTP callers.
type Limits struct {
	HTTPMaxConns          int `hcl:"http_max_conns"`            // connections in all
	HTTPMaxConnsPerClient int `hcl:"http_max_conns_per_client"` // of one remote address
}

// defaultLimits leaves a quarter of the connections to one address, which may be a proxy with many callers.
func defaultLimits() Limits {
	return Limits{HTTPMaxConns: 4096, HTTPMaxConnsPerClient: 1024}
}

// validate names all faults.
func (l Limits) validate() error {
	var faults []error
	if l.HTTPMaxConns < 1 {
		faults = append(faults, fmt.Errorf("limits: http_max_conns is %d; expected 1 or more",
			l.HTTPMaxConns))
	}

	if l.HTTPMaxConnsPerClient < 1 {
		faults = append(faults, fmt.Errorf("limits: http_max_conns_per_client is %d; expected 1 or more",
			l.HTTPMaxConnsPerClient))
	}

	return errors.Join(faults...)
}

// idleConn is the time after which a connection without requests is closed.
const idleConn = 2 * time.Minute

// headTime bounds the time in which the head of a request arrives.
const headTime = 10 * time.Second

// bound bounds an HTTP server that has not been started.
func (l Limits) bound(s *http.Server) {
	const text = "this agent has too many connections; expected fewer at once, each used again " +
		"(limits in its configuration)"
	const waiting = "too many blocking queries wait at this agent; its other connections are kept for " +
		"writes and other reads (limits in its configuration)"

	// Without it a caller could hold a connection with a request that never comes.
	s.ReadHeaderTimeout = headTime
	s.IdleTimeout = idleConn

	// The connections above the bounds get an answer and are closed: a client sees a reason, not a reset.
	conns := &loadshed.HTTPConns{
		Most:   l.HTTPMaxConns,
		Excess: api.Busy(time.Second, text),
		// Blocking queries wait for minutes. If they took all connections, nobody could write what they wait
		// for.
		Waits:      func(r *http.Request) bool { return api.Waits(r) || ui.Waits(r) },
		ExcessWait: api.Busy(time.Second, waiting),
	}

	conns.MostPerHost = l.HTTPMaxConnsPerClient
	conns.Bound(s)
}
