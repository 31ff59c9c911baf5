package client

import (
	"context"

	"berth/client/allocrunner"
	"berth/structs"
)

// runnerHere returns the runner of an allocation. The error is not-found if the allocation is not here.
func (c *Client) runnerHere(allocID string) (*allocrunner.Runner, error) {
	r := c.runner(allocID)
	if r == nil {
		return nil, structs.NotFoundf("allocation %s is not on this node", allocID)
	}
	return r, nil
}

// RestartAlloc restarts the running tasks of an allocation, the one with a name, or with all every task. It
// does not wait. The error is not-found if the allocation is not here. See allocrunner.Runner.RestartTasks
// and RestartAll for the others.
func (c *Client) RestartAlloc(allocID, task string, all bool) error {
	r, err := c.runnerHere(allocID)
	if err != nil {
		return err
	}
	if all {
		return r.RestartAll()
	}
	return r.RestartTasks(task)
}

// SignalAlloc sends a signal to the running tasks of an allocation, or to the one with a name. The error is
// not-found if the allocation is not here; see allocrunner.Runner.SignalTasks for the others.
func (c *Client) SignalAlloc(ctx context.Context, allocID, task, signal string) error {
	r, err := c.runnerHere(allocID)
	if err != nil {
		return err
	}
	return r.SignalTasks(ctx, task, signal)
}

// CollectAlloc removes the directory of an allocation that has ended. The error is not-found if the
// allocation is not here, a conflict if it has not ended or not released everything, or another one has still
// to take over its data, and unavailable while the servers do not know its end.
func (c *Client) CollectAlloc(ctx context.Context, allocID string) error {
	r, err := c.runnerHere(allocID)
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

// collect destroys what is left of an allocation whose end the servers know.
func (c *Client) collect(r *allocrunner.Runner) {
	c.ignoreAlloc(r.Alloc(), r.ClientState())
	r.Destroy()
}
