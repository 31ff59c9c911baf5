package structs

import "time"

// LeaseGrant is the lease that a leader grants to a node. The node counts it from before it sent its request,
// in CLOCK_BOOTTIME.
type LeaseGrant struct {
	HeartbeatTTL   time.Duration // the next heartbeat reaches the leader within it
	HeartbeatGrace time.Duration // the leader waits for that time beyond the TTL
	LeaseTerm      uint64        // Raft's term of the leader
	// Epoch is the node's (see Node.Epoch). The node sends it with its writes.
	Epoch uint64 `json:",omitempty"`
	// Returning: the servers wait for NodeHeartbeatRequest.CleanFor with that epoch (see Node.Returning).
	Returning bool `json:",omitempty"`
	// LeaseFor is how long the node may act alone. It is longer than HeartbeatTTL after NodeExtendLease. 0 is
	// HeartbeatTTL.
	LeaseFor time.Duration `json:",omitempty"`
}
