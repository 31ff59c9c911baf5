package client

import (
	"context"
	"time"

	"berth/client/csihooks"
	"berth/structs"
)

// Servers whose state was restored from a snapshot do not know what happened since. They answer heartbeats
// with Unaccounted until this node has told them. The node then
//
//   - registers anew, with all its plugin instances;
//   - asks from the start which allocations it is to run: the index of the state may be older than before;
//   - sends the newest state of every allocation that it knows, also of those that have ended;
//   - reports which volumes it holds or held (structs.NodeInventory), with each heartbeat;
//   - ends what holds a volume without a claim (see checkClaims).
//
// A report counts only once no volume can be staged any more on the word of the state before: see
// csihooks.ConfirmAfter.

// doubtedTTL is how soon a node comes again that the servers wait for: as if its lease were so short. How
// long a server may take to answer follows from the lease itself, because the report may take longer than
// that.
const doubtedTTL = 2 * time.Second

// untilNextBeat returns the lease by which the next heartbeat is sent.
func (c *Client) untilNextBeat(ttl time.Duration) time.Duration {
	if c.doubted.IsZero() {
		return ttl
	}
	return min(ttl, doubtedTTL)
}

// leaseLength returns for how long the lease of a heartbeat's answer is, and takes note of what the servers
// wait for.
func (c *Client) leaseLength(resp *structs.NodeHeartbeatResponse) time.Duration {
	if !resp.Unaccounted {
		c.doubted = time.Time{}
		return resp.HeartbeatTTL
	}
	if c.doubted.IsZero() {
		c.doubted = time.Now()
		c.registerAgain()
		select {
		case c.anew <- struct{}{}:
		default:
		}
	}
	c.claimsAreDue()
	return resp.HeartbeatTTL
}

// report tells what became of the allocations, and returns which volumes this node holds: nil while one of
// both cannot be told.
func (c *Client) report(ctx context.Context) *structs.NodeInventory {
	if c.doubted.IsZero() || time.Since(c.doubted) < csihooks.ConfirmAfter {
		return nil
	}
	c.tellAllocs()
	if err := c.sendUpdates(ctx); err != nil {
		c.logger.Warn("failed to send the states of allocations, and the servers wait for them", "error", err)
		return nil
	}
	return c.inventory()
}

// inventory is what the book says of volumes; nil while that is not known.
func (c *Client) inventory() *structs.NodeInventory {
	if c.sub.Inventory == nil {
		return &structs.NodeInventory{}
	}
	inventory, err := c.sub.Inventory()
	if err != nil {
		c.logger.Error("failed to read the volumes of this node, for which the servers wait", "error", err)
		return nil
	}
	return inventory
}

// tellAllocs has the servers told what they may have forgotten: the newest state of each allocation.
func (c *Client) tellAllocs() {
	for _, r := range c.allRunners() {
		c.updates.putNewest(r.ClientState)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.ignored {
		c.updates.put(i.ended)
	}
}

// ignored is an allocation that is not run here, because it has ended or cannot be run.
type ignored struct {
	index uint64                     // its AllocModifyIndex when that was decided
	ended *structs.AllocClientUpdate // what became of it
}

// endedAs is what a node without an allocation says of one that has ended for the servers. One that they gave
// up for lost does not run here.
func endedAs(alloc *structs.Allocation) *structs.AllocClientUpdate {
	u := &structs.AllocClientUpdate{ID: alloc.ID, ClientStatus: alloc.ClientStatus,
		ClientDescription: alloc.ClientDescription, TaskStates: alloc.TaskStates}
	if u.ClientStatus == structs.AllocLost {
		u.ClientStatus = structs.AllocFailed
	}
	return u
}
