package structs

import "time"

// LeaseGrant is the lease that a leader grants to a node. The node counts it from before it sent its request,
// in CLOCK_BOOTTIME.
type LeaseGrant struct {
	HeartbeatTTL   time.Duration // the next heartbeat reaches the leader within it
	HeartbeatGrace time.Duration // the leader waits for that time beyond the TTL
	LeaseTerm      uint64        // Raft's term of the leader
}

// LeaseBound is the only row of its table: no leader grants a lease, with its grace, that is longer. It is
// written before a longer one is granted. So a new leader knows how long the leases of earlier leaders may
// last. It shrinks when the last longer lease has ended.
type LeaseBound struct {
	Longest time.Duration
	Indexes
}

// LeaseBoundRequest sets the bound.
type LeaseBoundRequest struct {
	Longest time.Duration `level:"2"`
}
