package node

import (
	"context"
	"slices"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// accountFor makes a row for each attachment that a node of a restored state reports. It reports whether the
// node has reported its volumes and holds no volume without a claim.
func (n Nodes) accountFor(
	ctx context.Context,
	node *structs.Node,
	inventory *structs.NodeInventory,
) bool {
	if inventory == nil {
		return false
	}

	found := state.Unrecorded(n.Store.Read(), node.ID, inventory)
	for chunk := range slices.Chunk(found, max(1, n.Settings.MaxClaims)) {
		n.Logger.Warn("node has attachments without a row, detaching them",
			"node_id", node.ID,
			"attachments", len(chunk),
			"first_volume_id", chunk[0].VolumeID)
		entry := &structs.CSIAttachmentsFound{Attachments: chunk}
		entry.Now = n.Now().UnixNano()
		_, err := fsm.Propose(ctx, n.Raft, fsm.AttachmentsFound, entry)
		if err != nil {
			n.Logger.Warn("failed to record attachments, waiting for the next report",
				"node_id", node.ID, "error", err)
			return false
		}
	}

	volume := state.Unclaimed(n.Store.Read(), node.ID, inventory)
	if volume != "" {
		n.Logger.Warn("node holds a volume without a claim",
			"node_id", node.ID, "volume_id", volume)
	}

	return volume == ""
}
