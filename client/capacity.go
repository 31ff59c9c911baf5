package client

import (
	"sync"

	"berth/client/allocrunner"
	"berth/structs"
)

// nodeCapacity knows the allocations whose set-up has gone past the wait for capacity. Their tasks may start.
type nodeCapacity struct {
	mu    sync.Mutex      // taken before Client.mu
	taken map[string]bool // by ID
}

// capacityHolder returns a stopping allocation of this node whose CPU and memory a needs. It returns "" if
// the node has enough for both, and a holds its capacity then. The servers take care of that, with one
// exception: when the node is back after it was down, they count the capacity of what still ends as free.
func (c *Client) capacityHolder(a *structs.Allocation) (allocID string) {
	c.capacity.mu.Lock()
	defer c.capacity.mu.Unlock()
	all := c.allRunners()
	for _, r := range all {
		if r.ID() != a.ID && r.Stopping() && c.holdsCapacity(r) {
			allocID = max(allocID, r.ID()) // the same one in each look
		}
	}
	if allocID == "" || a.Resources == nil || c.fitsBeside(a, all) {
		c.capacity.taken[a.ID] = true
		return ""
	}
	return allocID
}

func (c *Client) fitsBeside(a *structs.Allocation, all []*allocrunner.Runner) bool {
	capacity := structs.NewNodeRoom(c.Node())
	for _, r := range all {
		if r.ID() != a.ID && c.holdsCapacity(r) {
			capacity.Hold(r.Alloc())
		}
	}
	return capacity.Short(*a.Resources) == ""
}

// holdsCapacity reports whether an allocation has not ended, and its tasks run or may start. The caller holds
// c.capacity.mu.
func (c *Client) holdsCapacity(r *allocrunner.Runner) bool {
	if isClosed(r.Unwound()) {
		return false
	}
	switch r.ClientState().ClientStatus {
	case structs.AllocRunning:
		return true
	case structs.AllocPending:
		return c.capacity.taken[r.ID()]
	}
	return false
}

// forget is for an allocation that this node is about to have no longer.
func (n *nodeCapacity) forget(allocID string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, allocID)
}
