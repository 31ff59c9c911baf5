package csi

import (
	"testing"

	"berth/structs"
)

// A deletion has succeeded also if another volume has the ID by the time that somebody looks.
func TestVolumeDelete_IsOverWhenAnotherVolumeHasTheID(t *testing.T) {
	row := &structs.CSIVolume{ID: "v", CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady}}
	row.CreateIndex = 7
	if gone, err := isGone(7, row); gone || !structs.IsKind(err, structs.KindInternal) {
		t.Errorf("a deletion that failed: got %t, %v", gone, err)
	}
	row.CreateIndex = 8
	for _, state := range []string{structs.VolumeReady, structs.VolumeCreating, structs.VolumeDeleting} {
		row.State = state
		if gone, err := isGone(7, row); !gone || err != nil {
			t.Errorf("the next volume is %s: got %t, %v", state, gone, err)
		}
	}
	row.CreateIndex = 7
	if gone, err := isGone(7, row); gone || err != nil {
		t.Errorf("a deletion that goes on: got %t, %v", gone, err)
	}
}
