package client

import (
	"context"
	"time"

	"berth/client/membership"
	"berth/structs"
)

// claimCheckInterval is the least time between two checks because of a changed list of allocations. Servers
// that release a claim by force call the node, and restored servers request its report: see registration.run.
const claimCheckInterval = 30 * time.Second

// claims compares the volumes of the node with the claims that the servers know.
type claims struct {
	*node
	check *membership.ClaimCheck
	due   chan struct{} // has a value: run has to compare
}

func newClaims(n *node) *claims {
	return &claims{node: n, due: make(chan struct{}, 1)}
}

// run checks the claims each time a check is due, again until it has succeeded. A check is due after a
// registration, after a return, at the end of a cut, and while restored servers wait.
func (k *claims) run(ctx context.Context) {
	for {
		select {
		case <-k.due:
		case <-ctx.Done():
			return
		}
		k.retry(ctx, "failed to check claims against the servers", k.check.Run)
	}
}

// newClaimCheck makes the check of this node.
func newClaimCheck(c *Client) *membership.ClaimCheck {
	k := &membership.ClaimCheck{
		Logger:    c.logger,
		Servers:   c.servers,
		Inventory: c.subsystems.Inventory,
		Runner:    c.work.allocs.get,
		Runners:   c.work.allocs.all,
	}
	k.Node.NodeID = c.id.NodeID
	k.Node.Region = c.config().Region
	k.Node.Namespace = structs.AllNamespaces
	return k
}
