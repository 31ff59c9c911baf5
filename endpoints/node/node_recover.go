package node

import (
	"context"
	"slices"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// accountFor makes a row for each attachment that a node of a restored state reports. It reports whether the
// node has reported its volumes and holds no volume without a claim. The state was restored from a snapshot,
// so the node may hold attachments that were made after it. Without a row nobody would detach them, and
// another node could get the volume. The node stays unaccounted until then.
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
	}

	return volume == ""
}
