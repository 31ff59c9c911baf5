// Package roomhook makes an allocation wait until its node has room for it beside those that still end. When
// a node was down, its room is free for the servers, and what ran there ends only after its return.
package roomhook

import (
	"context"

	"berth/client/hooks"
	"berth/structs"
)

type room struct{ await hooks.Await }

// New makes the hook of an allocation. holder returns another allocation of this node that has not ended and
// has its room, "" if it has its room now. progress receives the reason for which it waits.
func New(
	holder func(*structs.Allocation) (allocID string), progress func(allocID, reason string),
) hooks.Alloc {
	return &room{hooks.Await{
		Holder:   holder,
		Progress: progress,
		Part:     "the room",
	}}
}

func (r *room) Name() string { return "room" }

// Up waits for the room. The tasks of an allocation that runs since before the agent restarted have it.
func (r *room) Up(ctx context.Context, env *hooks.AllocEnv) error {
	if env.Running != nil && env.Running() {
		return nil
	}
	return r.await.End(ctx, env.Alloc)
}

// Down has nothing to undo: an allocation that has ended has no room.
func (r *room) Down(context.Context) error { return nil }
