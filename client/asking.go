package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"berth/client/membership"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// granted is the answer of a server that grants a lease.
type granted struct {
	membership.Grant
	// note acts on the rest of the answer, when the contexts of the requests have ended.
	note func(ctx context.Context) error
}

// request is one request for a lease, at one server.
type request struct {
	addr    string
	missing bool // there is no answer, or the server cannot be reached
	unknown bool // the server may still carry it out

	sent  boottime.Instant // the lease counts from then
	lost  <-chan struct{}  // see node.connect
	grant granted
	err   error
}

// requests are those for one lease, beside each other: see membership.Asking.
type requests struct {
	reg     *registration
	ask     func(ctx context.Context, server rpc.Caller) (granted, error)
	asking  *membership.Asking
	made    []*request
	answers chan *request
	running sync.WaitGroup
}

// askBeside asks the servers for a lease until one grants it. It returns that request, and whether another
// server may still carry out the same one. Its goroutines have ended then.
func (reg *registration) askBeside(
	ctx context.Context, ask func(ctx context.Context, server rpc.Caller) (granted, error),
) (r *request, others bool, err error) {
	known := reg.servers.All()
	if len(known) == 0 {
		return nil, false, structs.Unavailablef("asking for a lease: no server is known")
	}

	q := &requests{
		reg:     reg,
		ask:     ask,
		asking:  membership.NewAsking(reg.lease.Load().TTL, known),
		answers: make(chan *request),
	}

	ctx, cancel := context.WithCancel(ctx)
	defer q.running.Wait()
	defer cancel()
	r, err = q.run(ctx)
	if err == nil {
		q.avoidMissing(r)
	}
	others = slices.ContainsFunc(q.made, func(r *request) bool { return r.unknown })
	return r, others, err
}

// avoidMissing avoids the servers that were asked before the one that has granted the lease, and are missing.
// Those that were asked later have had less time.
func (q *requests) avoidMissing(winner *request) {
	for _, r := range q.made[:slices.Index(q.made, winner)] {
		if r.missing && r.addr != winner.addr {
			q.reg.servers.Avoid(r.addr)
		}
	}
}

// run returns the first request that was granted, or whose answer all servers would give, with its error.
func (q *requests) run(ctx context.Context) (*request, error) {
	var faults []error
	for {
		addr, wait := q.asking.Next(q.reg.clock())
		if addr != "" {
			q.begin(ctx, addr)
			continue
		}

		select {
		case r := <-q.answers:
			r.missing = rpc.IsTransport(r.err)
			r.unknown = outcomeUnknown(r.err)
			if r.err == nil || q.isVerdict(r.err) {
				return r, r.err
			}

			faults = append(faults, fmt.Errorf("server %s: %w", r.addr, r.err))
			if q.asking.Failed() {
				return nil, errors.Join(faults...)
			}
		case <-time.After(wait):
		case <-ctx.Done():
			faults = append(faults, structs.Timeoutf("no server answers in time: %w", ctx.Err()))
			return nil, errors.Join(faults...)
		}
	}
}

// begin makes a request. Its server may have a connection that is dead without a reset, as all of a firewall
// that has forgotten them. So a server that is asked beside another one has to answer a ping first, or gets a
// new connection.
func (q *requests) begin(ctx context.Context, addr string) {
	r := &request{addr: addr, missing: true, unknown: true}
	beside := len(q.made) > 0
	q.made = append(q.made, r)
	q.running.Go(func() {
		if beside {
			q.reg.dropDead(ctx, addr, q.asking.Pace()/2)
		}

		// The connection is made before the request, so that the server can call the node from the first
		// renewal on.
		r.lost, r.err = q.reg.connect(ctx, addr)
		if r.err == nil {
			r.sent = q.reg.clock()
			r.grant, r.err = q.ask(ctx, q.reg.servers.At(addr))
		}
		select {
		case q.answers <- r:
		case <-ctx.Done():
		}
	})
}

// waits reports whether a server has not answered.
func (q *requests) waits() bool {
	return slices.ContainsFunc(q.made, func(r *request) bool { return r.missing })
}

// isVerdict reports whether an error is what another server would answer too. A fault of one server is not.
// An overloaded server is not helped by a second request, unless there is one that does not answer.
func (q *requests) isVerdict(err error) bool {
	switch structs.KindOf(err) {
	case structs.KindUnavailable, structs.KindTimeout, structs.KindInternal:
		return structs.CauseOf(err) != "" || structs.RetryAfter(err) > 0 && !q.waits()
	}
	return true
}

// checks are the looks at the servers that are avoided.
type checks struct {
	running sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // by server
}

// begin looks at each server that has to be looked at, beside all else: a server that answers is not avoided
// any more. Otherwise its connection is closed, and all calls over it continue with another server.
func (k *checks) begin(ctx context.Context, n *node, limit time.Duration) {
	for _, addr := range n.servers.Doubtful() {
		k.mu.Lock()
		busy := k.busy[addr]
		k.busy[addr] = true
		k.mu.Unlock()
		if busy {
			continue
		}

		k.running.Go(func() {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			_, err := rpc.Call(limited, n.servers.At(addr), cluster.StatusPing, &structs.QueryRequest{})
			p, ok := n.pool.(*rpc.Pool)
			switch {
			case !rpc.IsTransport(err) && limited.Err() == nil:
				n.servers.Reached(addr)
			case ok && ctx.Err() == nil:
				p.Drop(addr)
			}

			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.busy, addr)
		})
	}
}
