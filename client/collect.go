package client

import (
	"context"

	"berth/client/allocrunner"
	"berth/structs"
)

// CollectAlloc removes the directory of an allocation that has ended. The error is not-found if the
// allocation is not here, a conflict if it has not ended or not released everything, or another one has still
// to take over its data, and unavailable while the servers do not know its end.
func (c *Client) CollectAlloc(ctx context.Context, allocID string) error {
	r, err := c.Find(allocID)
	if err != nil {
		return err
	}
	if !isClosed(r.Unwound()) {
		return structs.Conflictf("allocation %s is %s; only one that has ended and released everything is removed",
			allocID, r.ClientState().ClientStatus)
	}
	if err := c.data.MayLose(ctx, r); err != nil {
		return err
	}
	if !c.updates.isAcked(r.ClientState()) {
		return structs.Unavailablef("the servers do not know yet that allocation %s has ended; retry", allocID)
	}
	c.collect(r)
	return nil
}

// collect destroys what is left of an allocation whose end the servers know. The final state is kept without
// the runner, since the servers list the allocation until they delete it.
func (c *Client) collect(r *allocrunner.Runner) {
	c.allocs.ignore(r.Alloc(), r.ClientState())
	r.Destroy()
}
