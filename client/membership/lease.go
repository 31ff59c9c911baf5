// Package membership has the node as a member of its cluster: its identity, the ID of the cluster, its
// lease, the proof that it is the only agent with its ID, its return after a loss, the check of its claims,
// the drain before it leaves, and the choice of the server that it talks to.
package membership

import (
	"fmt"
	"time"

	"berth/internal/boottime"
	"berth/structs"
)

// Grant is the answer of a leader.
type Grant struct {
	TTL   time.Duration // the next heartbeat reaches the leader within it
	Grace time.Duration // the leader waits for that time beyond the TTL before it counts the node as down
	Term  uint64        // Raft's term of the leader; 0: not told
	Epoch uint64        // of the node, see structs.Node; 0: the servers count none
	// Returning: the servers wait until the node is clean in the epoch. See Return.
	Returning bool
	// Alone is how long the node may act alone, if that is longer than the TTL: an operator has ordered it.
	Alone time.Duration
}

// Lease is a grant and the time of its request: the time for which the servers count this node as alive. A
// node that has no lease yet has the zero Lease.
//
// The servers place the work of a node elsewhere after its lease and a grace. A node must therefore never
// take its lease for longer than the servers do:
//
//   - It counts from before it sent the request: the leader granted the lease later than that.
//   - It counts in CLOCK_BOOTTIME, so a machine that was suspended wakes with its lease over.
//   - The grant of an earlier term than the newest known one is no lease.
//   - Several servers may be asked at a time. Each grant counts from its own request, and none shortens the
//     lease.
type Lease struct {
	Grant
	// Since is before the request was sent.
	Since boottime.Instant
}

// Until returns the end of the lease. It is zero for a node that has none yet.
func (l Lease) Until() boottime.Instant {
	if l.TTL <= 0 {
		return 0
	}

	return l.Since.Add(max(l.TTL, l.Alone))
}

// Ended reports that there was a lease and that it has ended.
func (l Lease) Ended(now boottime.Instant) bool {
	return l.TTL > 0 && now >= l.Until()
}

// GraceEnded reports that there was a lease and that its grace has ended too: the servers count the node as
// down.
func (l Lease) GraceEnded(now boottime.Instant) bool {
	return l.TTL > 0 && now >= l.Until().Add(l.Grace)
}

// Renewed returns the lease after an answer to a request that was sent at an instant. It rejects the answer
// of a former leader. An answer to an earlier request than the lease's changes nothing: the lease would
// end sooner.
func (l Lease) Renewed(g Grant, sent boottime.Instant) (Lease, error) {
	if g.Term != 0 && g.Term < l.Term {
		return l, fmt.Errorf("a former leader of term %d answered; the leader of term %d is known",
			g.Term, l.Term)
	}
	if l.TTL > 0 && sent < l.Since {
		return l, nil
	}
	return Lease{Grant: g, Since: sent}, nil
}

// CheckCall rejects a call of the servers that comes too late: for an epoch that has ended, or after the
// lease. The node may have been frozen meanwhile. 0 is the epoch of servers that count none. A call of the
// next epoch may overtake the answer that tells it.
func (l Lease) CheckCall(epoch uint64, now boottime.Instant) error {
	switch {
	case epoch > l.Epoch:
		return nil
	case epoch != 0 && epoch < l.Epoch:
		return structs.Unavailablef("this node was lost after the servers sent this call (epoch %d, now %d)",
			epoch, l.Epoch)
	case l.Ended(now):
		return structs.Unavailablef("the lease of this node has ended; it takes calls again with the next one")
	}
	return nil
}
