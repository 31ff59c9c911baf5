package client

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner"
	"berth/rpc"
	"berth/structs"
)

// If the servers no longer know a claim, an operator released it by force, or the servers were restored to an
// older state. Another allocation may use the volume now. So the node compares its volumes with the servers'
// claims: before it restarts a stopped task, each time after the servers were unreachable, and when the list
// of its allocations changes. It kills an allocation that uses a volume without a claim and then releases the
// volume. It does not claim the volume again: others may have written to it, which corrupts a file system
// that stays mounted.

// claimCheckInterval is the least time between two checks because of a changed list of allocations. Servers
// that release a claim by force call the node, and restored servers request its report: see runLease.
const claimCheckInterval = 30 * time.Second

// runClaims checks the claims each time a check is due, again until it has succeeded.
func (c *Client) runClaims(ctx context.Context) {
	for {
		select {
		case <-c.claimCheckDue:
		case <-ctx.Done():
			return
		}
		c.retry(ctx, "failed to check claims against the servers", c.claims.check)
	}
}

// claimCheck compares the volumes of this node with the servers' claims.
type claimCheck struct {
	logger    hclog.Logger
	node      *structs.CSIClaimListRequest // the request of the claims of this node
	servers   rpc.Caller
	inventory func() (*structs.NodeInventory, error) // nil: the node has no volumes
	runner    func(allocID string) *allocrunner.Runner
}

// newClaimCheck makes the check of this node.
func (c *Client) newClaimCheck() *claimCheck {
	req := &structs.CSIClaimListRequest{NodeID: c.id.NodeID}
	req.Region = c.config().Region
	req.Namespace = structs.AllNamespaces
	return &claimCheck{
		logger:    c.logger,
		node:      req,
		servers:   c.servers,
		inventory: c.subsystems.Inventory,
		runner:    c.runner,
	}
}

// check ends the allocations that hold volumes here without a claim. It reads the volume store before
// and after its call to the servers: a volume that was mounted or released in between has its claim.
func (c *claimCheck) check(ctx context.Context) error {
	before := c.held()
	if len(before) == 0 {
		return nil
	}

	claims, err := c.granted(ctx)
	if err != nil {
		return fmt.Errorf("reading this node's claims: %w", err)
	}

	after := c.held()
	for k, grant := range before {
		now, still := after[k]
		if still && now == grant &&
			!stillGranted(claims[k], grant) {
			c.lose(k)
		}
	}

	return nil
}

// held returns the volumes that the store holds, with the index of each grant. It logs records that it
// cannot read, and leaves them alone.
func (c *claimCheck) held() map[structs.CSIClaimKey]uint64 {
	if c.inventory == nil {
		return nil
	}
	inventory, err := c.inventory()
	if err != nil {
		c.logger.Error("failed to read some records of volumes", "error", err)
	}
	held := make(map[structs.CSIClaimKey]uint64, len(inventory.Held))
	for _, h := range inventory.Held {
		held[h.CSIClaimKey] = h.GrantIndex
	}
	return held
}

// granted returns the claims of this node that the servers know.
func (c *claimCheck) granted(ctx context.Context) (map[structs.CSIClaimKey]*structs.CSIClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := *c.node // a copy: the call owns it
	resp, err := rpc.Call(ctx, c.servers, structs.CSIClaimList, &req)
	if err != nil {
		return nil, err
	}
	claims := map[structs.CSIClaimKey]*structs.CSIClaim{}
	for _, claim := range resp.Claims {
		claims[claim.Key()] = claim
	}
	return claims, nil
}

// stillGranted reports whether a claim still has the grant under which the volume was mounted here.
func stillGranted(claim *structs.CSIClaim, grant uint64) bool {
	if claim == nil || claim.State != structs.ClaimGranted {
		return false
	}
	return grant == 0 || claim.GrantIndex == grant
}

func (c *claimCheck) lose(k structs.CSIClaimKey) {
	r := c.runner(k.AllocID)
	if r == nil {
		return // volumes.Volumes.Reconcile releases the volumes of allocations without a runner
	}
	c.logger.Error("volume taken from this node, killing its allocation",
		"volume_id", k.VolumeID, "namespace", k.Namespace,
		"alloc_id", k.AllocID)
	r.Lose(fmt.Sprintf("volume %s was taken from this node: "+
		"the servers have no claim of this allocation on it any more", k.VolumeID))
}

// checkEpoch rejects a call of the servers that comes too late: after the lease of this node, or in a later
// epoch. The node may have been frozen between. 0 is the epoch of servers that count none. A call of the next
// epoch may overtake the answer that tells it.
func (c *Client) checkEpoch(epoch uint64) error {
	own := c.servers.Epoch()
	switch {
	case epoch > own:
		return nil
	case epoch != 0 && epoch < own:
		return structs.Unavailablef("this node was lost after the servers sent this call (epoch %d, now %d)",
			epoch, own)
	case c.lease.Load().Ended(c.clock()):
		return structs.Unavailablef("the lease of this node has ended; it takes calls again with the next one")
	}
	return nil
}

// runReturn looks for things that are not this node's own, after each return, until there are none.
func (c *Client) runReturn(ctx context.Context) {
	for {
		select {
		case <-c.returns:
		case <-ctx.Done():
			return
		}
		check := func(ctx context.Context) error { return c.comeback.Check(ctx, c.left) }
		c.retry(ctx, "this node gets no allocations until it has released what it lost", check)
	}
}

// left returns an error that names an allocation that stops, or a volume without a claim.
func (c *Client) left(ctx context.Context) error {
	for _, r := range c.allRunners() {
		if r.Stopping() && !isClosed(r.Unwound()) {
			return structs.Unavailablef("allocation %s has not ended", r.ID())
		}
	}
	return c.claims.left(ctx)
}

// left returns an error that names a volume that this node holds without a claim.
func (c *claimCheck) left(ctx context.Context) error {
	if c.inventory == nil {
		return nil
	}
	inventory, err := c.inventory()
	if err != nil || len(inventory.Held) == 0 {
		return err
	}
	claims, err := c.granted(ctx)
	if err != nil {
		return err
	}
	for _, h := range inventory.Held {
		if !stillGranted(claims[h.CSIClaimKey], h.GrantIndex) {
			return structs.Unavailablef("volume %s is held without a claim", h.VolumeID)
		}
	}
	return nil
}
