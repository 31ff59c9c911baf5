package rpc

import (
	"context"
	"fmt"
	"time"

	"berth/internal/loadshed"
	"berth/structs"
)

// Limits bound the requests that a server takes on at once. A request beyond them is answered with
// unavailable and the time after which to retry (structs.RetryAfter). It costs little and has had no effect.
//
// Requests that wait for a change or for a plugin have separate bounds, so that any number of them leaves
// permits for the others.
type Limits struct {
	Calls      int           // requests of one connection in flight
	Waiting    int           // waiting requests of one connection
	Streams    int           // open streams of one session
	AllCalls   int           // requests in flight in all, also of this process
	AllWaiting int           // waiting requests in all
	Queue      time.Duration // how long a request waits for a permit; one that waits for a change does not
	RetryAfter time.Duration // the time after which to retry a rejected request
	Message    int64         // bytes of one request
	InFlight   int64         // bytes of requests in all, of those above structs.SmallRPC
	Response   int64         // bytes of one answer
}

// DefaultLimits suffice for the connection of another server, and for ten thousands of nodes.
func DefaultLimits() Limits {
	return Limits{
		Calls:      512,
		Waiting:    8192,
		Streams:    10_000,
		AllCalls:   8192,
		AllWaiting: 1 << 18,
		Queue:      2 * time.Second,
		RetryAfter: time.Second,
		Message:    structs.MaxRPCRequest,
		InFlight:   structs.MaxRPCInFlight,
		Response:   structs.MaxRPCAnswer,
	}
}

// load is the requests in flight of one connection, or of all.
type load struct{ calls, waiting loadshed.Permits }

func newLoad(calls, waiting int) *load {
	return &load{
		calls:   make(loadshed.Permits, calls),
		waiting: make(loadshed.Permits, waiting),
	}
}

// queryRequest is a request to read.
type queryRequest interface{ Query() *structs.QueryOptions }

// waits reports whether a request waits for a change or for a plugin.
func waits(e *Endpoint, req any) bool {
	if e.Slow {
		return true
	}
	r, ok := req.(queryRequest)
	return ok && r.Query().MinIndex > 0
}

// enter takes the permits of a request, and returns done for its end. st is its stream, nil for a request of
// this process. Before enter waits for a permit, it writes the queued answers of the stream.
func (s *Server) enter(
	ctx context.Context, method string, waiting bool, st *requestStream,
) (done func(), err error) {
	take := func(permits loadshed.Permits) bool {
		if permits.TryEnter() {
			return true
		}

		if waiting || s.limits.Queue <= 0 {
			return false
		}

		if st != nil {
			st.out.flush()
		}

		return permits.Enter(ctx, s.limits.Queue)
	}

	all := s.all.permits(waiting)
	if st == nil {
		if !take(all) {
			return nil, s.reject(method, "all")
		}
		return all.Leave, nil
	}

	own := st.load.permits(waiting)
	if !take(own) {
		return nil, s.reject(method, "connection")
	}

	if !take(all) {
		own.Leave()
		return nil, s.reject(method, "all")
	}

	return func() {
		all.Leave()
		own.Leave()
	}, nil
}

func (l *load) permits(waiting bool) loadshed.Permits {
	if waiting {
		return l.waiting
	}
	return l.calls
}

// Shed sets the gate that decides which requests of Sheddable endpoints are admitted. A request of this
// process to an Inline endpoint bypasses it. Shed is called before anything is served. The caller runs the
// gate.
func (s *Server) Shed(g *loadshed.Gate) {
	s.gate = g
}

// shed rejects a read that the gate does not admit.
func (s *Server) shed(e *Endpoint, req any) error {
	if s.gate == nil || !e.mayShed(req) {
		return nil
	}
	return s.gate.Admit()
}

// mayShed reports whether the gate of this server may reject a request. It admits a blocking query, a request
// that a node makes about itself, and one that the gate of another server decides on.
func (e *Endpoint) mayShed(req any) bool {
	if !e.Sheddable {
		return false
	}

	if r, ok := req.(queryRequest); ok {
		q := r.Query()
		if q.MinIndex > 0 ||
			!q.AllowStale &&
				e.ForwardsReads != nil && e.ForwardsReads() {
			return false
		}
	}

	r, ok := req.(interface {
		Credentials() (nodeID, secretID string)
	})
	if !ok {
		return true
	}

	_, secret := r.Credentials()
	return secret == ""
}

// admit rejects a request beyond the bound of its endpoint.
func (s *Server) admit(e *Endpoint) error {
	if e.Admit == nil {
		return nil
	}
	return e.Admit(int(s.coming.Load()))
}

// weighRequest computes the approximate memory of a request until it is served: its bytes, and its parts
// when they are decoded. It counts them among those in flight.
func (s *Server) weighRequest(q *inbound, req *request) error {
	if q.parts > structs.MaxRPCParts {
		return badPayload(q.Name,
			fmt.Errorf("it has %d entries and lists; at most %d are allowed",
				q.parts, structs.MaxRPCParts))
	}
	req.weight = int64(len(q.payload)) + int64(q.parts)*structs.RPCPartBytes
	return s.countBytes(req, structs.SmallRPC)
}

// countBytes counts the bytes of a request among those in flight unless they are few, or are counted already.
// A small request is never rejected, so that large ones do not keep a node's heartbeat out. Very many
// requests may wait at a time, so the caller passes a smaller number of few bytes for them.
func (s *Server) countBytes(req *request, few int64) error {
	if req.weight <= few || req.counted > 0 {
		return nil
	}
	if !s.bytes.Take(req.weight) {
		return s.reject(req.Name, "bytes")
	}
	req.counted = req.weight
	return nil
}

// reject returns the error of a request beyond a limit, and counts it.
func (s *Server) reject(method, limit string) error {
	loadshed.CountRejected(limit, 1)
	text := "too many requests of this connection are in flight"
	switch limit {
	case "all":
		text = "this server has too many requests to serve"
	case "bytes":
		text = fmt.Sprintf("this server has large requests in flight of nearly %d MiB, the most it takes",
			s.limits.InFlight>>20)
	}
	return structs.Busy(s.limits.RetryAfter, "%s: %s", method, text)
}
