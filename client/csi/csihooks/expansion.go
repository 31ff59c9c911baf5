package csihooks

import (
	"context"
	"time"

	"berth/structs"
)

// reportExpansion returns a function that reports the result of an expansion to the servers. If the report
// does not reach them, they let the node expand the volume once more.
func (h *volumesHook) reportExpansion(
	w *requiredVolume, claim *structs.CSIClaim,
) func(context.Context, int64, error) {
	return func(ctx context.Context, capacity int64, err error) {
		nodeID, secret := h.Node()
		req := &structs.CSINodeExpandOutcome{
			VolumeID: w.ID,
			AllocID:  h.alloc.ID,
			NodeID:   nodeID,
			SecretID: secret,
			// The servers ignore the outcome of an earlier claim.
			RowIndex: claim.CreateIndex,
			Bytes:    claim.ExpandBytes,
			Capacity: capacity,
		}

		req.Namespace = w.Namespace

		if err != nil {
			h.logger.Warn("failed to expand a volume on the node, using its old size",
				"volume_id", w.ID, "namespace", w.Namespace,
				"error", err)
			req.Err = &structs.OperationError{
				Message: err.Error(),
				Kind:    structs.KindOf(err),
				Code:    structs.CodeOf(err),
				Time:    time.Now().UnixNano(),
			}
		}

		if _, err := callOnce(ctx, h, structs.CSIVolumeNodeExpanded, req); err != nil {
			h.logger.Warn("failed to report a volume's size",
				"volume_id", w.ID, "namespace", w.Namespace,
				"error", err)
		}
	}
}
