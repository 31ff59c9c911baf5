package cluster

import (
	"context"
	"time"

	"berth/rpc"
	"berth/structs"
)

// setUnaccounted records whether the servers wait for the node's report, and returns whether that is new. If
// it is, the index of their state may be older than before, so the node's next query for allocations starts
// with index 0.
func (n *Node) setUnaccounted(unaccounted bool) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !unaccounted {
		n.unaccountedSince = time.Time{}
		return false
	}
	if n.unaccountedSince.IsZero() {
		n.unaccountedSince = time.Now()
		n.resync = true
		news = true
		if n.cancelQuery != nil {
			n.cancelQuery()
		}
	}
	return news
}

// reportAfterRestore does the node's part of a restore: it reports the states of the allocations, ends those
// that have a volume without a claim, and returns the inventory of the node. It returns nil if the servers do
// not wait for it.
func (n *Node) reportAfterRestore(ctx context.Context) *structs.NodeInventory {
	n.mu.Lock()
	since := n.unaccountedSince
	states := map[string]string{}
	for id, status := range n.ended {
		states[id] = status
	}
	for id, r := range n.allocs {
		if r.works {
			states[id] = structs.AllocRunning
		}
	}
	n.mu.Unlock()
	if since.IsZero() {
		return nil
	}
	update := &structs.AllocsClientUpdateRequest{
		NodeID:   n.ID,
		SecretID: n.secret(),
	}
	for id, status := range states {
		update.Allocs = append(update.Allocs, &structs.AllocClientUpdate{ID: id, ClientStatus: status})
	}
	if _, err := rpc.Call(ctx, n.servers, structs.NodeUpdateAllocs, update); err != nil {
		return nil
	}
	n.checkClaims(ctx)
	return n.inventory()
}

// checkClaims ends the allocations that have a volume mounted and have lost its claim.
func (n *Node) checkClaims(ctx context.Context) {
	req := &structs.CSIClaimListRequest{NodeID: n.ID}
	req.Namespace = structs.AllNamespaces
	resp, err := rpc.Call(ctx, n.servers, structs.CSIClaimList, req)
	if err != nil {
		return
	}
	granted := map[structs.CSIClaimKey]uint64{}
	for _, c := range resp.Claims {
		granted[c.Key()] = c.GrantIndex
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.allocs {
		for k, grant := range r.grants {
			if granted[k] != grant {
				r.stop()
			}
		}
	}
}

// inventory returns the mounts of the node and the other claims of its allocations.
func (n *Node) inventory() *structs.NodeInventory {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := &structs.NodeInventory{Held: n.Storage.mounts(n.Name)}
	mounted := map[structs.CSIClaimKey]bool{}
	for at := range i.Held {
		h := &i.Held[at]
		mounted[h.CSIClaimKey] = true
		if r := n.allocs[h.AllocID]; r != nil {
			h.GrantIndex = r.grants[h.CSIClaimKey]
		}
	}
	for _, r := range n.allocs {
		for _, k := range r.keys {
			if !mounted[k] {
				i.Left = append(i.Left, structs.CSIHeldClaim{CSIClaimKey: k})
			}
		}
	}
	return i
}
