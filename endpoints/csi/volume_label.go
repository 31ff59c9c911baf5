package csi

import (
	"context"

	"berth/fsm"
	"berth/internal/admit"
	"berth/state/csi"
	"berth/structs"
)

// Label sets and removes labels of a volume. Admission rules see the volume as it will be, as they see one
// that is registered.
func (w VolumeWrites) Label(
	ctx context.Context, req *structs.CSIVolumeLabelRequest, resp *structs.CSIVolumeLabelResponse,
) (uint64, error) {
	tx := w.Store.Read()
	old := csi.Volume(tx, req.RequestNamespace(), req.ID)
	if old != nil { // else the command answers that there is none
		next, err := csi.WithLabels(old, req)
		if err == nil {
			resp.Warnings, err = w.admit(ctx, tx, admit.OfVolume(next, old))
		}
		if err != nil {
			return 0, err
		}
	}
	return fsm.Propose(ctx, w.Raft, fsm.VolumeLabel, req)
}
