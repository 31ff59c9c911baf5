package endpoints

import (
	"context"
	"slices"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// accounted reports whether a node of a restored state has reported its volumes and holds no volume without
// a claim. By then each attachment of the report has a row.
func (n nodes) accounted(
	ctx context.Context, node *structs.Node, said *structs.NodeInventory,
) bool {
	if said == nil {
		return false
	}
	found := state.Unrecorded(n.store.Read(), node.ID, said)
	for some := range slices.Chunk(found, max(1, n.config.maxClaims)) {
		n.logger.Warn("node has attachments without a row, detaching them", "node", node.ID,
			"attachments", len(some), "first_volume", some[0].VolumeID)
		_, err := fsm.Propose(ctx, n.raft, fsm.AttachmentsFound, &structs.CSIAttachmentsFound{
			Attachments: some, WriteOptions: structs.WriteOptions{Now: n.now().UnixNano()},
		})
		if err != nil {
			n.logger.Warn("failed to record attachments, waiting for the next report", "node", node.ID,
				"error", err)
			return false
		}
	}
	volume := state.Unclaimed(n.store.Read(), node.ID, said)
	if volume != "" {
		n.logger.Warn("node holds a volume without a claim", "node", node.ID,
			"volume", volume)
	}
	return volume == ""
}
