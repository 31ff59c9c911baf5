package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner"
	"berth/rpc"
	"berth/structs"
)

// claimTimeout bounds a call of the servers.
const claimTimeout = 15 * time.Second

// ClaimCheck compares the volumes of a node with the claims that the servers know.
//
// If the servers no longer know a claim, an operator released it by force, or the servers were restored to an
// older state. Another allocation may use the volume now. So the node compares its volumes with the servers'
// claims: before it restarts a stopped task, each time after the servers were unreachable, and when the list
// of its allocations changes. It kills an allocation that uses a volume without a claim and then releases the
// volume. It does not claim the volume again: others may have written to it, which corrupts a file system
// that stays mounted.
type ClaimCheck struct {
	Logger    hclog.Logger
	Node      structs.CSIClaimListRequest // the request of the claims of this node
	Servers   rpc.Caller
	Inventory func() (*structs.NodeInventory, error) // nil: the node has no volumes
	Runner    func(allocID string) *allocrunner.Runner
	Runners   func() []*allocrunner.Runner
}

// Run ends the allocations that hold volumes here without a claim. It reads the volume store before
// and after its call to the servers: a volume that was mounted or released in between has its claim.
func (c *ClaimCheck) Run(ctx context.Context) error {
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
		// Another grant index is a new mount. It may be younger than the answer of the servers.
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
func (c *ClaimCheck) held() map[structs.CSIClaimKey]uint64 {
	if c.Inventory == nil {
		return nil
	}

	inventory, err := c.Inventory()
	if err != nil {
		c.Logger.Error("failed to read some records of volumes", "error", err)
	}

	held := make(map[structs.CSIClaimKey]uint64, len(inventory.Held))
	for _, h := range inventory.Held {
		held[h.CSIClaimKey] = h.GrantIndex
	}
	return held
}

// granted returns the claims of this node that the servers know.
func (c *ClaimCheck) granted(ctx context.Context) (map[structs.CSIClaimKey]*structs.CSIClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()

	req := c.Node // a copy: the call owns it
	resp, err := rpc.Call(ctx, c.Servers, structs.CSIClaimList, &req)
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

func (c *ClaimCheck) lose(k structs.CSIClaimKey) {
	r := c.Runner(k.AllocID)
	if r == nil {
		return // volumes.Volumes.Reconcile releases the volumes of allocations without a runner
	}
	c.Logger.Error("volume taken from this node, killing its allocation",
		"volume_id", k.VolumeID, "namespace", k.Namespace,
		"alloc_id", k.AllocID)
	r.Lose(fmt.Sprintf("volume %s was taken from this node: "+
		"the servers have no claim of this allocation on it any more", k.VolumeID))
}

// Left returns an error that names an allocation that still stops, or a volume that this node holds without a
// claim.
func (c *ClaimCheck) Left(ctx context.Context) error {
	for _, r := range c.Runners() {
		if r.Stopping() && !isClosed(r.Unwound()) {
			return structs.Unavailablef("allocation %s has not ended", r.ID())
		}
	}

	if c.Inventory == nil {
		return nil
	}
	inventory, err := c.Inventory()
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

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
