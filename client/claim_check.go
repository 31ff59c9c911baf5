package client

import (
	"context"
	"fmt"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

// A claim that the servers no longer know was taken from this node, by force or because they went back to
// an older state: the volume may be another's by now. So what the node's book says is published here is
// held against the servers' claims: before anything that stood still is started again, after each time that
// the servers were away, and whenever they say what this node should run. Whoever uses a volume without a
// claim is killed, and then the volume is let go. Nothing is claimed anew: others may have written meanwhile,
// which a file system that stays mounted does not survive.

// claimsCheck is how often at most news of what to run are reason enough to look. Servers that take a volume
// by force say so themselves, and those that went back to an older state ask: see runLease.
const claimsCheck = 30 * time.Second

// claimsAreDue has runClaims look, soon.
func (c *Client) claimsAreDue() {
	select {
	case c.claimsDue <- struct{}{}:
	default:
	}
}

// runClaims looks at the claims each time that they are due, again until it has succeeded.
func (c *Client) runClaims(ctx context.Context) {
	for {
		select {
		case <-c.claimsDue:
		case <-ctx.Done():
			return
		}
		pause := serverRetry
		for err := c.checkClaims(ctx); err != nil && ctx.Err() == nil; err = c.checkClaims(ctx) {
			wait := pause.Next()
			c.logger.Warn("holding claims against the servers' failed", "again_in", wait, "error", err)
			backoff.Sleep(ctx, wait)
		}
	}
}

// checkClaims ends the allocations that hold volumes here without a claim. The book is read before and
// after the servers are asked: what came or went between is as it should be.
func (c *Client) checkClaims(ctx context.Context) error {
	before := c.held()
	if len(before) == 0 {
		return nil
	}
	claims, err := c.ownClaims(ctx)
	if err != nil {
		return fmt.Errorf("asking for this node's claims: %w", err)
	}
	after := c.held()
	for k, grant := range before {
		if now, still := after[k]; still && now == grant && !stands(claims[k], grant) {
			c.lose(k)
		}
	}
	return nil
}

// held is what the book says; what cannot be read of it is said and left alone.
func (c *Client) held() map[structs.CSIClaimKey]uint64 {
	if c.sub.Inventory == nil {
		return nil
	}
	inventory, err := c.sub.Inventory()
	if err != nil {
		c.logger.Error("some records of volumes cannot be read", "error", err)
	}
	held := make(map[structs.CSIClaimKey]uint64, len(inventory.Held))
	for _, h := range inventory.Held {
		held[h.CSIClaimKey] = h.GrantIndex
	}
	return held
}

func (c *Client) ownClaims(ctx context.Context) (map[structs.CSIClaimKey]*structs.CSIClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &structs.CSIClaimListRequest{NodeID: c.id.nodeID}
	req.Region, req.Namespace = c.config.Get().Region, structs.AllNamespaces
	resp, err := rpc.Call(ctx, c.servers, structs.CSIClaimList, req)
	if err != nil {
		return nil, err
	}
	claims := make(map[structs.CSIClaimKey]*structs.CSIClaim, len(resp.Claims))
	for _, claim := range resp.Claims {
		claims[claim.Key()] = claim
	}
	return claims, nil
}

// stands reports whether a claim is still what the volume was brought here for.
func stands(claim *structs.CSIClaim, grant uint64) bool {
	return claim != nil && claim.State == structs.ClaimGranted && (grant == 0 || claim.GrantIndex == grant)
}

func (c *Client) lose(k structs.CSIClaimKey) {
	r := c.runner(k.AllocID)
	if r == nil {
		return // what nobody runs was let go when the agent started, or is being so: see Reconcile
	}
	c.logger.Error("a volume was taken from this node, its allocation is killed", "volume", k.VolumeID, "namespace", k.Namespace, "alloc_id", k.AllocID)
	r.Lose(fmt.Sprintf("volume %s was taken from this node: the servers have no claim of this allocation on it any more", k.VolumeID))
}
