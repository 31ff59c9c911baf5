package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/structs"
)

// LeaseConfig sets the interval of heartbeats and the time after which a silent node counts as down.
type LeaseConfig struct {
	TTL   time.Duration // a node sends its next heartbeat within this, in a cluster that is not large
	Grace time.Duration // the most by which a heartbeat may be late
	// MaxPerSecond bounds the heartbeats: with more nodes the TTL grows. A heartbeat costs the leader 10 to
	// 15 µs and never touches the log. Nodes send one per half lease, so 1000 are 3 % of one core at most.
	MaxPerSecond float64
}

// expiredTogether is the time between two checks of the leases. Those that end between two checks share a log
// entry.
const expiredTogether = 200 * time.Millisecond

// Leases are the memory of a leader of the last heartbeat of each node. A new leader gives every node a
// whole lease, so a change of leader never takes a node down.
type Leases struct {
	config LeaseConfig

	mu       sync.Mutex
	leading  bool
	ends     map[string]time.Time // by node
	earliest time.Time            // no lease ends before; zero: there is none
}

// NewLeases makes the leases of a server.
func NewLeases(config LeaseConfig) *Leases {
	return &Leases{
		config: config,
		ends:   map[string]time.Time{},
	}
}

// Renew starts the lease of a node again and returns the time within which its next heartbeat is expected.
func (l *Leases) Renew(nodeID string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	ttl := l.ttl()
	if !l.leading {
		return ttl
	}
	end := time.Now().Add(ttl + l.config.Grace)
	l.ends[nodeID] = end
	l.noteEnd(end)
	return ttl
}

// noteEnd keeps the earliest end of the leases.
func (l *Leases) noteEnd(end time.Time) {
	if l.earliest.IsZero() || end.Before(l.earliest) {
		l.earliest = end
	}
}

func (l *Leases) ttl() time.Duration {
	if l.config.MaxPerSecond <= 0 {
		return l.config.TTL
	}
	seconds := float64(len(l.ends)) / l.config.MaxPerSecond
	return max(l.config.TTL, time.Duration(seconds*float64(time.Second)))
}

// startLeading gives every node that is not down a whole lease. It reads the rows after it has set leading:
// a node that called Renew before has its row already.
func (l *Leases) startLeading(store *state.Store) {
	l.mu.Lock()
	l.leading = true
	l.mu.Unlock()
	for n := range state.Nodes(store.Read()) {
		if n.Status != structs.NodeDown {
			l.Renew(n.ID)
		}
	}
}

func (l *Leases) stopLeading() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = false
	l.ends = map[string]time.Time{}
	l.earliest = time.Time{}
}

// expired removes and returns the nodes whose leases have ended by now. It reads all leases when the earliest
// known one has ended. Nodes renew theirs long before the end, so that is seldom.
func (l *Leases) expired(now time.Time) (nodes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.earliest) {
		return nil
	}
	l.earliest = time.Time{}
	for node, end := range l.ends {
		if end.After(now) {
			l.noteEnd(end)
			continue
		}
		delete(l.ends, node)
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}

// retain keeps leases that ended but could not be recorded, so that they expire again soon. A renewed lease
// stays renewed.
func (l *Leases) retain(nodes []string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range nodes {
		if _, renewed := l.ends[id]; !renewed {
			l.ends[id] = until
			l.noteEnd(until)
		}
	}
}

// leaseLoop marks nodes down whose leases end.
type leaseLoop struct{ Deps }

func (l leaseLoop) run(ctx context.Context) {
	l.Leases.startLeading(l.Store)
	defer l.Leases.stopLeading()
	for backoff.Sleep(ctx, expiredTogether) {
		nodes := l.Leases.expired(time.Now())
		if len(nodes) > 0 {
			l.markDown(ctx, nodes)
		}
	}
}

// markDown records that nodes are down, in few entries. If that fails, their leases stay ended.
func (l leaseLoop) markDown(ctx context.Context, nodes []string) {
	first := nodes[:min(len(nodes), 16)]
	l.Logger.Warn("nodes missed their heartbeats",
		"nodes", len(nodes),
		"first", first)
	for some := range slices.Chunk(nodes, mostDown) {
		now := time.Now()
		err := propose(ctx, l.Deps, fsm.NodeStatus, &structs.NodeStatusUpdate{
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
			l.Logger.Error("failed to mark nodes down, retrying",
				"nodes", len(some),
				"error", err)
			l.Leases.retain(some, now.Add(time.Second))
		}
	}
}
