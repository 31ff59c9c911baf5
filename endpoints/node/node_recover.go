package node

import (
	"context"
	"slices"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// accountFor makes a row for each attachment that an unaccounted node reports. It reports whether the node
// has reported its volumes and holds no volume without a claim. The state was restored from a snapshot, or
// the node was deleted, so the node may have attachments without a row. Nobody would detach them, and another
// node could get the volume. The node stays unaccounted until then.
func (n Nodes) accountFor(
	ctx context.Context,
	node *structs.Node,
	inventory *structs.NodeInventory,
) bool {
	if inventory == nil {
		// The agent has not reported yet. Its next heartbeats will have the inventory.
		return false
	}

	found := state.Unrecorded(n.Store.Read(), node.ID, inventory)
	// An inventory may have more attachments than one entry.
	for chunk := range slices.Chunk(found, max(1, n.Settings.MaxClaims)) {
		n.Logger.Warn("node has attachments without a row, detaching them",
			"node_id", node.ID,
			"attachments", len(chunk),
			"first_volume_id", chunk[0].VolumeID)
		entry := &structs.CSIAttachmentsFound{Attachments: chunk}
		entry.Now = n.Clock.Now().UnixNano()
		_, err := fsm.Propose(ctx, n.Raft, fsm.AttachmentsFound, entry)
		if err != nil {
			n.Logger.Warn("failed to record attachments, waiting for the next report",
				"node_id", node.ID, "error", err)
			// The rows that are stored stay, and the next report has only the others left.
			return false
		}
	}

	// Such a volume was brought there under a claim that the restored state does not have.
	volume := state.Unclaimed(n.Store.Read(), node.ID, inventory)
	if volume != "" {
		n.Logger.Warn("node holds a volume without a claim",
			"node_id", node.ID, "volume_id", volume)
		n.shortenLeftovers(ctx, node, inventory)
	}

	return volume == ""
}

// shortenLeftovers records which of its volumes from before a returned node has let go of, so that they no
// longer wait for the others.
func (n Nodes) shortenLeftovers(ctx context.Context, node *structs.Node, inventory *structs.NodeInventory) {
	still := state.StillLeft(n.Store.Read(), node, inventory)
	if len(still) == 0 || len(still) == len(node.Leftovers) {
		return
	}
	entry := &structs.NodeLeftoversUpdate{NodeID: node.ID, Still: still}
	entry.Now = n.Clock.Now().UnixNano()
	_, err := fsm.Propose(ctx, n.Raft, fsm.NodeLeftovers, entry)
	if err != nil {
		n.Logger.Warn("failed to record what a returned node has let go of, waiting for the next report",
			"node_id", node.ID, "error", err)
	}
}
