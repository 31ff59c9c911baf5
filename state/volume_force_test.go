package state_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// A word about a machine that was off says nothing about the machine after its return, nor about allocations
// that have come since then.
func TestVolumeForce_IsAboutTheStateThatWasShown(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Status(structs.NodeDown, "n1")
	seen := &structs.DetachShown{Epoch: state.Node(w.Store.Read(), "n1").Epoch, Allocs: []string{"a1"}}
	force := func(shown *structs.DetachShown) error {
		return try(w, state.VolumeForce, &structs.CSIVolumeForceRequest{
			VolumeID:     "v",
			NodeID:       "n1",
			Claims:       []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
			By:           "ann",
			Reason:       "it is off",
			Shown:        shown,
			WriteOptions: w.Now(),
		})
	}
	rejected := func(shown *structs.DetachShown, says string) {
		t.Helper()
		err := force(shown)
		if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		if csi.Claim(w.Store.Read(), "default", "v", "a1") == nil {
			t.Fatal("the claim is released")
		}
	}
	rejected(&structs.DetachShown{Epoch: seen.Epoch}, "you were not shown it")
	w.Status(structs.NodeReady, "n1")
	w.Status(structs.NodeDown, "n1")
	rejected(seen, "was back since you looked")
	seen.Epoch = state.Node(w.Store.Read(), "n1").Epoch
	if err := force(seen); err != nil || csi.Claim(w.Store.Read(), "default", "v", "a1") != nil {
		t.Errorf("the present state: %v", err)
	}
}
