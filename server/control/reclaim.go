package control

import (
	"context"

	"berth/fsm"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// opReclaim begins the deletion of a marked volume. No plugin is called for it.
const opReclaim = "reclaim"

// reclaimStep is the step of a marked volume, which does not grow meanwhile. The end of its last use changes
// its row, so the step need not wait for that.
func (c controllerLoop) reclaimStep(tx *state.ReadTx, v *structs.CSIVolume) workqueue.Step {
	if csi.UsersOf(tx, v) != "" {
		return workqueue.Step{}
	}

	begin := &storage.VolumeReclaimRequest{ID: v.ID, RowIndex: v.CreateIndex, DeleteAt: v.DeleteAt}
	return waitForNodes(tx, v.Namespace, v.ID, workqueue.Step{
		Op:      opReclaim,
		Version: v.ModifyIndex,
		Group:   v.PluginID,
		Serial:  v.Namespace + "/" + v.ID,
		Due:     c.Clock.Until(v.DeleteAt),
		Act: func(ctx context.Context) error {
			begin.WriteOptions = c.stamp(v.Namespace)
			return propose(ctx, c.Deps, fsm.VolumeReclaim, begin)
		},
	})
}
