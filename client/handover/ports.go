package handover

import (
	"context"

	"berth/client/hooks"
	"berth/structs"
)

type ports struct{ await hooks.Await }

// Ports makes an allocation wait until no other allocation of its node runs with one of its ports. The plan
// that replaces an allocation gives its static ports to the new one before the old one has ended. The hook is
// nil for an allocation without ports.
//
// holder returns another allocation of this node that has not ended and has one of the ports, "" if there is
// none. progress receives the reason for which an allocation waits.
func Ports(
	env *hooks.AllocEnv,
	holder func(*structs.Allocation) (allocID string), progress func(allocID, reason string),
) hooks.Alloc {
	if len(env.Alloc.Ports) == 0 {
		return nil
	}
	return &ports{hooks.Await{
		Holder:   holder,
		Progress: progress,
		Part:     "one of its ports",
	}}
}

func (p *ports) Name() string { return "ports" }

func (p *ports) Up(ctx context.Context, env *hooks.AllocEnv) error {
	return p.await.End(ctx, env.Alloc)
}

// Down has nothing to undo: an allocation that has ended has no ports.
func (p *ports) Down(context.Context) error { return nil }
