// Package fence has the loops of the leader that prove that lost nodes can no longer write: by fence devices,
// and by the end of the lease of a node that ends its tasks then (LeaseLoop).
//
// The rows decide, so that a new leader continues where an earlier one ended: next has no clock and no
// effect. A run has its row before its agent starts. The loop fences a node only if somebody waits for a
// volume of it, a few nodes at once, and none while so many nodes are lost that the fault may be on the side
// of the servers (state.FenceBrake). The order of an operator passes all of this.
//
// The entry that records a proof also releases the volumes (state.FenceEnd), unless the node came back after
// the run had begun.
package fence
