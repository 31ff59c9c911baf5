package handover

import (
	"context"

	"berth/client/hooks"
	"berth/structs"
)

type capacity struct{ await hooks.Await }

// Capacity makes an allocation wait until its node has the capacity for it beside allocations that still end.
// When a node was down, its capacity is free for the servers, and what ran there ends only after its return.
//
// holder returns another allocation of this node that has not ended and still has its capacity, "" if it has
// that now. progress receives the reason for which it waits.
func Capacity(
	holder func(*structs.Allocation) (allocID string), progress func(allocID, reason string),
) hooks.Alloc {
	return &capacity{hooks.Await{
		Holder:   holder,
		Progress: progress,
		Part:     "its CPU and memory",
	}}
}

func (c *capacity) Name() string { return "capacity" }

// Up waits for the capacity. The tasks of an allocation that runs since before the agent restarted have it.
func (c *capacity) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if env.Running != nil && env.Running() {
		return nil
	}
	return c.await.End(ctx, env.Alloc)
}

// Down has nothing to undo: an allocation that has ended has no capacity.
func (c *capacity) Down(context.Context) error { return nil }
