package client

import (
	"context"
	"time"

	"berth/client/membership/claimcheck"
	"berth/structs"
)

// claimCheckInterval is the least time between two checks because of a changed list of allocations. Servers
// that release a claim by force call the node, and restored servers request its report: see runLease.
const claimCheckInterval = 30 * time.Second

// runClaims checks the claims each time a check is due, again until it has succeeded. A check is due after a
// registration, after a return, at the end of a cut, and while restored servers wait.
func (c *Client) runClaims(ctx context.Context) {
	for {
		select {
		case <-c.claimCheckDue:
		case <-ctx.Done():
			return
		}
		c.retry(ctx, "failed to check claims against the servers", c.claims.Run)
	}
}

// newClaimCheck makes the check of this node.
func newClaimCheck(c *Client) *claimcheck.Check {
	k := &claimcheck.Check{
		Logger:    c.logger,
		Servers:   c.servers,
		Inventory: c.subsystems.Inventory,
		Runner:    c.allocs.get,
		Runners:   c.allocs.all,
	}
	k.Node.NodeID = c.id.NodeID
	k.Node.Region = c.config().Region
	k.Node.Namespace = structs.AllNamespaces
	return k
}
