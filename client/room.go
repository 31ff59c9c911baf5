package client

import (
	"sync"

	"berth/client/allocrunner"
	"berth/structs"
)

// nodeRoom knows the allocations whose set-up has gone past the wait for room. Their tasks may start.
type nodeRoom struct {
	mu    sync.Mutex      // taken before Client.mu
	taken map[string]bool // by ID
}

// roomHolder returns an allocation on this node that is stopping, if the room of the node does not suffice
// for a beside those that have it; otherwise it gives a its room and returns "". The servers take care of
// that, with one exception: when the node is back after it was down, they count the room of what still ends
// as free.
func (c *Client) roomHolder(a *structs.Allocation) (allocID string) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	all := c.allRunners()
	for _, r := range all {
		if r.ID() != a.ID && r.Stopping() && c.hasRoom(r) {
			allocID = max(allocID, r.ID()) // the same one in each look
		}
	}
	if allocID == "" || a.Resources == nil || c.fitsBeside(a, all) {
		c.room.taken[a.ID] = true
		return ""
	}
	return allocID
}

func (c *Client) fitsBeside(a *structs.Allocation, all []*allocrunner.Runner) bool {
	room := structs.NewNodeRoom(c.Node())
	for _, r := range all {
		if r.ID() != a.ID && c.hasRoom(r) {
			room.Hold(r.Alloc())
		}
	}
	return room.Short(*a.Resources) == ""
}

// hasRoom reports whether an allocation has not ended, and its tasks run or may start. The caller holds
// c.room.mu.
func (c *Client) hasRoom(r *allocrunner.Runner) bool {
	if isClosed(r.Unwound()) {
		return false
	}
	switch r.ClientState().ClientStatus {
	case structs.AllocRunning:
		return true
	case structs.AllocPending:
		return c.room.taken[r.ID()]
	}
	return false
}

// forget is for an allocation that this node is about to have no longer.
func (n *nodeRoom) forget(allocID string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.taken, allocID)
}
