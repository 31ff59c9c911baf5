package membership

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/rpc"
	"berth/structs"
)

// suspendedRetry is the time after which a call may be repeated that was rejected by Suspend.
const suspendedRetry = 2 * time.Second

// ServerPool calls a method at an address, as rpc.ServerPool does.
type ServerPool interface {
	Call(ctx context.Context, addr, method string, req, resp any) error
}

// Servers is an ordered list of servers, best first. It is an rpc.Caller that tries them in this order: the
// leader first, so that the leader can call the node back, and the next one when a server cannot be reached.
// A server that did not answer is avoided: it comes last until it has answered again, also if the others name
// it as the leader. The list keeps no connections, its pool does.
type Servers struct {
	pool  ServerPool
	proof func() *structs.AgentProof // of the node's agent; nil: it has none
	epoch atomic.Uint64              // of the node

	suspended atomic.Bool   // see Suspend
	accepted  chan struct{} // closed by the first SetEpoch
	acceptOne sync.Once

	mu      sync.Mutex
	addrs   []string
	leader  string          // the first of the last answer, "": no server has told
	avoided map[string]bool // each is in addrs; true: Doubtful has named it
	moved   chan struct{}   // closed and replaced when the first address changes
}

// NewServers makes a list that begins with addrs. proof returns the present proof of the agent of the node.
// It is nil for an agent without one.
func NewServers(pool ServerPool, addrs []string, proof func() *structs.AgentProof) *Servers {
	return &Servers{
		pool:     pool,
		proof:    proof,
		accepted: make(chan struct{}),
		addrs:    slices.Clone(addrs),
		avoided:  map[string]bool{},
		moved:    make(chan struct{}),
	}
}

// Set replaces the list by a server's answer, whose leader comes first. While the leader is avoided, the
// first server stays so. An empty answer changes nothing: a server that knows no others must not leave the
// node without servers.
func (l *Servers) Set(addrs []string) {
	if len(addrs) == 0 {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.avoided, func(addr string, _ bool) bool {
		return !slices.Contains(addrs, addr)
	})
	l.leader = addrs[0]
	now := l.addrs[:min(len(l.addrs), 1)]
	rank := func(addr string) int {
		switch {
		case l.avoids(addr):
			return 2
		case l.avoids(l.leader) && !slices.Contains(now, addr):
			return 1
		}
		return 0
	}

	ordered := slices.Clone(addrs)
	slices.SortStableFunc(ordered, func(a, b string) int { return rank(a) - rank(b) })
	l.replace(ordered)
}

// Avoid puts a server last that did not answer, until Reached.
func (l *Servers) Avoid(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.addrs, addr)
	if i < 0 {
		return
	}
	l.avoided[addr] = l.avoided[addr]
	l.replace(append(slices.Delete(slices.Clone(l.addrs), i, i+1), addr))
}

// Reached ends Avoid. The leader comes first again.
func (l *Servers) Reached(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.avoids(addr) {
		return
	}

	delete(l.avoided, addr)
	if addr == l.leader {
		others := slices.DeleteFunc(slices.Clone(l.addrs), func(a string) bool { return a == addr })
		l.replace(append([]string{addr}, others...))
	}
}

// Doubtful returns the avoided servers that are to be looked at: each one once, and the leader by the last
// answer always, since the servers call the node best over its connection.
func (l *Servers) Doubtful() (addrs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for addr, named := range l.avoided {
		if !named || addr == l.leader {
			addrs = append(addrs, addr)
			l.avoided[addr] = true
		}
	}
	return addrs
}

// avoids reports whether a server is avoided. The caller holds l.mu.
func (l *Servers) avoids(addr string) bool {
	_, avoided := l.avoided[addr]
	return avoided
}

// replace sets the list, which has at least one address. The caller holds l.mu.
func (l *Servers) replace(addrs []string) {
	changed := len(l.addrs) == 0 || l.addrs[0] != addrs[0]
	l.addrs = addrs
	if changed {
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// All returns the current list.
func (l *Servers) All() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.addrs)
}

// First returns the server that is called first ("" if none is known) and a channel that closes when another
// takes its place.
func (l *Servers) First() (addr string, moved <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.addrs) > 0 {
		addr = l.addrs[0]
	}
	return addr, l.moved
}

// SetEpoch sets the epoch with which Call stamps the calls of the node, because the servers have accepted its
// agent. The calls in flight keep theirs. It ends a suspension.
func (l *Servers) SetEpoch(epoch uint64) {
	l.epoch.Store(epoch)
	l.suspended.Store(false)
	l.acceptOne.Do(func() { close(l.accepted) })
}

// Suspend makes Call reject the calls of the node (structs.EpochRequest): another agent is the node. It may
// be of the same epoch.
func (l *Servers) Suspend() { l.suspended.Store(true) }

// Epoch returns the epoch of the node.
func (l *Servers) Epoch() uint64 { return l.epoch.Load() }

// MoveToEnd moves a server that does not answer to the end, if it is still the first.
func (l *Servers) MoveToEnd(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.addrs) < 2 || l.addrs[0] != addr {
		return
	}
	l.replace(append(slices.Clone(l.addrs[1:]), addr))
}

// Call calls a method at the first server. It calls each of the others once while nothing was sent, because
// the connection failed, or the answer says that another server may serve the request (structs.IsNotServed).
//
// After any other unavailable, the request may have had effects outside of the servers, a token in Consul for
// example, which each further server would make again. After such an error, or an unknown outcome, the next
// call begins with another server, but this one is not repeated: that is the caller's decision.
//
// It stamps the calls of the node with its epoch and with the proof of its agent. They wait until the servers
// have accepted the agent: one on a copied disk must change nothing for the node.
//
// If the answer says when to try again (structs.RetryAfter), the next call begins with the same server: it is
// overloaded, or a system that all servers use is away.
func (l *Servers) Call(ctx context.Context, method string, req, resp any) error {
	if r, ok := req.(structs.EpochRequest); ok {
		err := l.stamp(ctx, method, r)
		if err != nil {
			return err
		}
	}

	err := structs.Unavailablef("calling %s: no server is known", method)
	for _, addr := range l.All() {
		err = l.pool.Call(ctx, addr, method, req, resp)
		if ctx.Err() != nil {
			return err
		}

		kind := structs.KindOf(err)
		if kind != structs.KindUnavailable && kind != structs.KindTimeout ||
			structs.RetryAfter(err) > 0 {
			return err
		}

		l.MoveToEnd(addr)
		if !mayServeElsewhere(err) {
			return err
		}
	}
	return err
}

// stamp prepares a call of the node once its agent is accepted.
func (l *Servers) stamp(ctx context.Context, method string, r structs.EpochRequest) error {
	if l.suspended.Load() {
		return structs.Rejectedf(structs.CauseSecondAgent, suspendedRetry,
			"calling %s: another agent has the lease of this node", method)
	}
	select {
	case <-l.accepted:
	case <-ctx.Done():
		return structs.Unavailablef("calling %s: no server has accepted the agent of this node yet: %w",
			method, ctx.Err())
	}

	r.StampEpoch(l.epoch.Load())
	about, ok := r.(structs.AgentRequest)
	if ok && l.proof != nil {
		about.StampAgent(l.proof())
	}
	return nil
}

// At returns a caller of one server. It is for the requests of the lease, which have no epoch.
func (l *Servers) At(addr string) rpc.Caller { return single{l.pool, addr} }

type single struct {
	pool ServerPool
	addr string
}

// Call implements rpc.Caller.
func (s single) Call(ctx context.Context, method string, req, resp any) error {
	return s.pool.Call(ctx, s.addr, method, req, resp)
}

// mayServeElsewhere reports whether the called server has begun nothing of the request, and another one may
// serve it.
func mayServeElsewhere(err error) bool {
	notSent := structs.IsKind(err, structs.KindUnavailable) && rpc.IsTransport(err)
	return notSent || structs.IsNotServed(err)
}
