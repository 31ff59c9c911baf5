package client

import (
	"context"
	"time"

	"berth/client/csi/csihooks"
	"berth/structs"
)

// Servers that were restored from a snapshot do not know the later changes. They answer heartbeats with
// Unaccounted until this node has reported its volumes. The node then
//
//   - registers again, with all its plugin instances;
//   - pulls its allocations from index 0: the index of the state may be lower than before;
//   - sends the newest state of every allocation that it knows, also of ended ones;
//   - reports the volumes that it holds or held (structs.NodeInventory) with each heartbeat;
//   - ends allocations that hold a volume without a claim (see membership.ClaimCheck).
//
// A report counts only after csihooks.ConfirmAfter: until then the node may still stage a volume because of
// an answer from the previous state.

// unaccountedTTL bounds the heartbeat interval of a node for which the servers wait. It does not shorten the
// lease itself, which bounds the time for an answer: the report may take longer than unaccountedTTL.
const unaccountedTTL = 2 * time.Second

// untilNextBeat returns the lease from which the next heartbeat's time is computed.
func (reg *registration) untilNextBeat(ttl time.Duration) time.Duration {
	if reg.unaccounted.IsZero() && !reg.comeback.Pending() {
		return ttl
	}
	return min(ttl, unaccountedTTL)
}

// noteUnaccounted starts a recovery if the servers wait for the node's inventory.
func (reg *registration) noteUnaccounted(waiting bool) {
	if !waiting {
		reg.unaccounted = time.Time{}
		return
	}
	if reg.unaccounted.IsZero() {
		reg.unaccounted = time.Now()
		notify(reg.due)
		notify(reg.work.pullAnew)
	}
	notify(reg.claims.due)
}

// reportInventory sends the states of the allocations and returns the volumes of this node. It returns nil
// while one of the two fails.
func (reg *registration) reportInventory(ctx context.Context) *structs.NodeInventory {
	if reg.unaccounted.IsZero() ||
		time.Since(reg.unaccounted) < csihooks.ConfirmAfter {
		return nil
	}
	// The servers decide about claims without an allocation, so they have to know the ends first.
	reg.work.allocs.resend()
	// A server that does not answer must leave time for the heartbeat itself.
	limited, cancel := context.WithTimeout(ctx, beatTimeout(reg.lease.Load().TTL)/2)
	defer cancel()
	if err := reg.work.sendUpdates(limited); err != nil {
		reg.logger.Warn("failed to report allocations, the node stays unaccounted", "error", err)
		return nil
	}
	return reg.readInventory()
}

// readInventory returns the volumes in the store, nil if the store cannot be read.
func (reg *registration) readInventory() *structs.NodeInventory {
	if reg.subsystems.Inventory == nil {
		return &structs.NodeInventory{}
	}
	inventory, err := reg.subsystems.Inventory()
	if err != nil {
		reg.logger.Error("failed to read the volume store, the node stays unaccounted", "error", err)
		return nil
	}
	return inventory
}

// endedAs returns the state that a node reports for an allocation that is not here and has ended for the
// servers. An allocation that they took for lost does not run here: it has failed.
func endedAs(alloc *structs.Allocation) *structs.AllocClientUpdate {
	u := &structs.AllocClientUpdate{
		ID:                alloc.ID,
		ClientStatus:      alloc.ClientStatus,
		ClientDescription: alloc.ClientDescription,
		TaskStates:        alloc.TaskStates,
	}
	if u.ClientStatus == structs.AllocLost {
		u.ClientStatus = structs.AllocFailed
	}
	return u
}
