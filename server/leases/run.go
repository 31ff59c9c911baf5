package leases

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/lease"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	// expiredTogether is the time between two checks of the leases. Those that end between two checks share a
	// log entry.
	expiredTogether = 200 * time.Millisecond

	// mostDown is the most nodes that one log entry marks down.
	mostDown = 4096

	// countEvery is the time between two counts of the nodes, on which the length of a lease depends.
	countEvery = time.Second
)

// Deps are the dependencies of a leadership.
type Deps struct {
	loop.Common
	Term uint64 // Raft's term of the leadership; not 0
}

// Run grants and ends leases while this server leads, until ctx ends. It marks nodes down whose leases have
// ended.
func (l *Leases) Run(ctx context.Context, d Deps) {
	r := l.Lead(d)
	defer r.End()
	for {
		r.Step(ctx)
		if !backoff.Sleep(ctx, expiredTogether) {
			return
		}
	}
}

// Lead prepares a leadership. No lease is granted before its first step that succeeds.
func (l *Leases) Lead(d Deps) *Leadership {
	return &Leadership{
		leases:  l,
		deps:    d,
		earlier: lease.Bound(d.Store.Read()),
	}
}

// Leadership is the time in which a server leads. Its methods run on one goroutine.
type Leadership struct {
	leases *Leases
	deps   Deps

	earlier time.Duration    // the bound of the leases of earlier leaders
	begun   bool             // this server grants leases
	ready   bool             // the bound covers the leases to grant
	needed  time.Duration    // the bound that the leases of now need
	since   boottime.Instant // no lease that needs more than needed was granted since then
	counted boottime.Instant // when the nodes were last counted
}

// Step does all that is due now. It does not wait for a time. It is called every 200 ms or so.
func (r *Leadership) Step(ctx context.Context) {
	r.follow(ctx)
	switch {
	case !r.ready:
	case !r.begun:
		r.begin()
	default:
		nodes := r.leases.expired()
		if len(nodes) > 0 {
			r.markDown(ctx, nodes)
		}
	}
}

// End ends the leadership. No lease is granted after it.
func (r *Leadership) End() {
	if r.begun {
		r.leases.end()
	}
}

// begin starts to grant leases. A node that registers from now on calls Renew, or else adopt gives it a
// lease. The others have their rows.
func (r *Leadership) begin() {
	r.begun = true
	r.leases.begin(r.deps.Term)
	tx := r.deps.Store.Read()
	r.leases.extendAll(liveNodes(tx), max(r.earlier, r.needed))
	for longer := range lease.NodeLeases(tx) {
		_ = r.leases.Extend(longer.NodeID, longer.Length) // this server leads
	}
}

// liveNodes returns the nodes that are not down.
func liveNodes(tx state.Reader) (ids []string) {
	for n := range state.Nodes(tx) {
		if n.Status != structs.NodeDown {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// follow adapts the leases to the number of nodes. It records a higher bound before longer leases are
// granted, and a lower one when the last longer lease has ended.
func (r *Leadership) follow(ctx context.Context) {
	now := r.leases.clock()
	if r.ready && now.Sub(r.counted) < countEvery {
		return
	}

	r.counted = now
	tx := r.deps.Store.Read()
	if r.ready {
		r.dropEnded(ctx, tx)
	}

	live := liveNodes(tx)
	nodes := len(live)
	needed := r.leases.config.bound(nodes)
	recorded := lease.Bound(tx) // read again, because an archive may have replaced it
	if r.begun {
		r.adopt(live, max(r.needed, recorded))
	}

	raise := needed > recorded
	lower := needed < recorded && needed == r.needed && now.Sub(r.since) > recorded
	if (raise || lower) && !r.record(ctx, needed) {
		return
	}

	r.ready = true
	r.leases.setTTL(r.leases.config.ttl(nodes))
	if needed != r.needed {
		r.needed = needed
		r.since = r.leases.clock()
	}
}

// adopt gives a lease of a length to each live node that has none. The length is at most the recorded bound:
// the answer to the next heartbeat grants the rest of it. So the bound stays until the lease has ended.
func (r *Leadership) adopt(live []string, length time.Duration) {
	adopted := r.leases.adopt(live, length)
	if adopted {
		r.since = r.leases.clock()
	}
}

// dropEnded deletes the longer leases that have ended: the usual lease of the node ends later.
func (r *Leadership) dropEnded(ctx context.Context, tx *state.ReadTx) {
	for longer := range lease.NodeLeases(tx) {
		if r.leases.lasts(longer.NodeID, r.needed) {
			continue
		}

		gone := &cluster.NodeLeaseRequest{NodeID: longer.NodeID}
		_, err := fsm.Propose(ctx, r.deps.Proposer, fsm.NodeLeaseSet, gone)
		if err != nil && ctx.Err() == nil {
			r.deps.Logger.Warn("failed to delete a lease that has ended, retrying",
				"node_id", longer.NodeID, "error", err)
		}
	}
}

// record records a bound. It reports false if leases may not be longer than before.
func (r *Leadership) record(ctx context.Context, bound time.Duration) bool {
	_, err := fsm.Propose(ctx, r.deps.Proposer, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: bound})
	if err != nil && ctx.Err() == nil {
		r.deps.Logger.Warn("failed to record the bound of leases, retrying", "error", err)
	}
	return err == nil
}

// markDown records that nodes are down, in few entries. If that fails, their leases stay ended, and it is
// tried again.
func (r *Leadership) markDown(ctx context.Context, nodes []string) {
	r.leases.forgetDeleted(r.deps.Store.Read())
	first := nodes[:min(len(nodes), 16)]
	r.deps.Logger.Warn("nodes missed their heartbeats",
		"nodes", len(nodes),
		"first", first)
	for some := range slices.Chunk(nodes, mostDown) {
		now := r.deps.Clock.Now()
		_, err := fsm.Propose(ctx, r.deps.Proposer, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs: some,
			Status:  structs.NodeDown,
			Event: &structs.NodeEvent{
				Message:   "Node heartbeat missed",
				Subsystem: "Cluster",
				Timestamp: now,
			},
			WriteOptions: structs.WriteOptions{Now: now.UnixNano()},
		})

		if err == nil {
			r.leases.markedDown(some)
			continue
		}

		if ctx.Err() == nil {
			r.deps.Logger.Error("failed to mark nodes down, retrying",
				"nodes", len(some),
				"error", err)
			r.leases.retain(some, r.leases.clock().Add(time.Second))
		}
	}
}
