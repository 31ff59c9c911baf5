package leases

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/boottime"
	"berth/state"
	"berth/structs"
)

const (
	// expiredTogether is the time between two checks of the leases. Those that end between two checks share a
	// log entry.
	expiredTogether = 200 * time.Millisecond

	// mostDown is the most nodes that one log entry marks down.
	mostDown = 4096

	// countEvery is the time between two counts of the nodes, on which the length of a lease depends.
	countEvery = time.Second

	// olderServers is the time between two attempts to record the bound while a server does not know it.
	olderServers = time.Minute
)

// Deps are the dependencies of a leadership.
type Deps struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Logger   hclog.Logger
	Term     uint64 // Raft's term of the leadership; not 0
}

// Run grants and ends leases while this server leads, until ctx ends. It marks nodes down whose leases have
// ended.
func (l *Leases) Run(ctx context.Context, d Deps) {
	r := &leadership{
		Leases: l,
		Deps:   d,
	}
	earlier := state.LeaseBound(d.Store.Read())
	for !r.ready {
		r.follow(ctx)
		if !r.ready && !backoff.Sleep(ctx, expiredTogether) {
			return
		}
	}

	l.begin(d.Term)
	defer l.end()
	// A node that registers from now on calls Renew. The others have their rows.
	tx := d.Store.Read()
	l.extendAll(liveNodes(tx), max(earlier, r.needed))
	for longer := range state.NodeLeases(tx) {
		_ = l.Extend(longer.NodeID, longer.Length) // this server leads
	}
	for backoff.Sleep(ctx, expiredTogether) {
		r.follow(ctx)
		nodes := l.expired()
		if len(nodes) > 0 {
			r.markDown(ctx, nodes)
		}
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

// leadership is the time in which a server leads. Its methods run on one goroutine.
type leadership struct {
	*Leases
	Deps

	ready   bool             // the bound covers the leases to grant
	needed  time.Duration    // the bound that the leases of now need
	since   boottime.Instant // no lease that needs more than needed was granted since then
	counted boottime.Instant // when the nodes were last counted
	retry   boottime.Instant // not before: an attempt to record a bound that older servers do not know
}

// follow adapts the leases to the number of nodes. It records a higher bound before longer leases are
// granted, and a lower one when the last longer lease has ended.
func (r *leadership) follow(ctx context.Context) {
	now := r.clock()
	if r.ready && now.Sub(r.counted) < countEvery {
		return
	}

	r.counted = now
	tx := r.Store.Read()
	if r.ready {
		r.dropEnded(ctx, tx)
	}

	nodes := len(liveNodes(tx))
	needed := r.config.bound(nodes)
	recorded := state.LeaseBound(tx) // read again, because an archive may have replaced it
	raise := needed > recorded && now >= r.retry
	lower := needed < recorded && needed == r.needed && now.Sub(r.since) > recorded
	if (raise || lower) && !r.record(ctx, needed) {
		return
	}

	r.ready = true
	r.setTTL(r.config.ttl(nodes))
	if needed != r.needed {
		r.needed = needed
		r.since = r.clock()
	}
}

// dropEnded deletes the longer leases that have ended: the usual lease of the node ends later.
func (r *leadership) dropEnded(ctx context.Context, tx *state.ReadTx) {
	for longer := range state.NodeLeases(tx) {
		if r.lasts(longer.NodeID, r.needed) {
			continue
		}
		_, err := fsm.Propose(ctx, r.Proposer, fsm.NodeLeaseSet, &structs.NodeLeaseRequest{NodeID: longer.NodeID})
		if err != nil && ctx.Err() == nil {
			r.Logger.Warn("failed to delete a lease that has ended, retrying",
				"node_id", longer.NodeID, "error", err)
		}
	}
}

// record records a bound. It reports false if leases may not be longer than before.
func (r *leadership) record(ctx context.Context, bound time.Duration) bool {
	_, err := fsm.Propose(ctx, r.Proposer, fsm.LeaseBoundSet, &structs.LeaseBoundRequest{Longest: bound})
	switch {
	case err == nil:
		return true
	case structs.IsKind(err, structs.KindPrecondition):
		// Servers of an earlier version grant leases without a bound until the last of them is upgraded.
		r.retry = r.clock().Add(olderServers)
		r.Logger.Info("the bound of leases is not recorded yet", "reason", err)
		return true
	case ctx.Err() == nil:
		r.Logger.Warn("failed to record the bound of leases, retrying", "error", err)
	}
	return false
}

// markDown records that nodes are down, in few entries. If that fails, their leases stay ended.
func (r *leadership) markDown(ctx context.Context, nodes []string) {
	first := nodes[:min(len(nodes), 16)]
	r.Logger.Warn("nodes missed their heartbeats",
		"nodes", len(nodes),
		"first", first)
	for some := range slices.Chunk(nodes, mostDown) {
		now := time.Now()
		_, err := fsm.Propose(ctx, r.Proposer, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs: some,
			Status:  structs.NodeDown,
			Event: &structs.NodeEvent{
				Message:   "Node heartbeat missed",
				Subsystem: "Cluster",
				Timestamp: now,
			},
			WriteOptions: structs.WriteOptions{Now: now.UnixNano()},
		})

		if err != nil && ctx.Err() == nil {
			r.Logger.Error("failed to mark nodes down, retrying",
				"nodes", len(some),
				"error", err)
			r.retain(some, r.clock().Add(time.Second))
		}
	}
}
