package cluster

import (
	"berth/structs"
	"time"
)

// LeaseBound is the only row of its table: no leader grants a lease, with its grace, that is longer. It is
// written before a longer one is granted. So a new leader knows how long the leases of earlier leaders may
// last. It shrinks when the last longer lease has ended.
type LeaseBound struct {
	Longest time.Duration
	structs.Indexes
}

// LeaseBoundRequest sets the bound.
type LeaseBoundRequest struct {
	Longest time.Duration
}

// NodeLease is a longer lease of a node, which an operator has ordered. Key: NodeID. It is written before the
// lease is granted, so that a new leader knows of it. It is deleted when the lease has ended.
type NodeLease struct {
	NodeID string
	Length time.Duration // with the grace
	structs.Indexes
}

// NodeLeaseRequest stores the longer lease of a node. Length 0 deletes it.
type NodeLeaseRequest struct {
	NodeID string
	Length time.Duration
}

// NodeExtendLease makes the servers count a node as alive for longer than its heartbeats do, before its agent
// stops for a while.
var NodeExtendLease = structs.Write[NodeExtendLeaseRequest, NodeExtendLeaseResponse]("Node.ExtendLease")

// NodeExtendLeaseRequest names the node. For is the time from now, in which it need not send a heartbeat.
type NodeExtendLeaseRequest struct {
	NodeID string
	For    time.Duration
	structs.WriteOptions
}

// NodeExtendLeaseResponse has the time after which a node without a heartbeat counts as down.
type NodeExtendLeaseResponse struct {
	DownAfter time.Duration // from now: the lease and the grace
	structs.WriteMeta
}
