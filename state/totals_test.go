package state_test

import (
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

func TestTotals_CountMarkedVolumes(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) {
		v.Reclaim = storage.ReclaimDelete
		v.DeleteAfter = new(time.Hour)
	})
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
	got := state.CountTotals(w.Store.Read()).Volumes
	if got[state.VolumeMarked] != 1 || got[state.VolumeGrows] != 0 {
		t.Errorf("got %v", got)
	}
}
