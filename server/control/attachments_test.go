package control

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/structs"
)

func TestDuty_D5_ADetachHasTheSecretsOfItsAttach(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("v", "a1", "n1")
		synctest.Wait()
		other := aVolume("v", structs.VolumeReady)
		other.Secrets = structs.Secrets{"k": "rotated"}
		w.addVolume(other)
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a1"}}})
		synctest.Wait()
		calls := w.called(detachMethod)
		if len(calls) != 1 ||
			calls[0].req.(*structs.ClientCSIDetachRequest).Secrets["k"] != "v" {
			t.Errorf("%d calls, want one with the secrets of the attach", len(calls))
		}
	})
}

func TestDuty_G13_ADetachNamesItsNodeThoughTheNodeIsGone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		stop := w.runLoop("controllers")
		defer stop()
		w.addClaim("v", "a2", "n2")
		synctest.Wait()
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeDown})
		put(w, fsm.VolumeUnpublish,
			&structs.CSIVolumeUnpublishRequest{
				Claims:   []structs.CSIClaimKey{{VolumeID: "v", AllocID: "a2"}},
				Operator: "its power is off",
			})
		synctest.Wait()
		calls := w.called(detachMethod)
		if len(calls) != 1 || calls[0].node != "n1" ||
			calls[0].req.(*structs.ClientCSIDetachRequest).ExternalNodeID != "ext-n2" {
			t.Errorf("detached with %+v", calls)
		}
		if w.attachment("v", "n2") != nil {
			t.Error("attachment still exists")
		}
	})
}

// A down node whose claims were not released keeps its volumes. No timer detaches them.
func TestDuty_G12_NothingIsDetachedFromANodeThatIsOnlyDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		for _, name := range []string{"controllers", "reaper", "gc"} {
			stop := w.runLoop(name)
			defer stop()
		}
		w.addClaim("v", "a2", "n2")
		synctest.Wait()
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeDown})
		after(48 * time.Hour)
		if n := len(w.called(detachMethod)); n != 0 || w.attachment("v", "n2") == nil {
			t.Errorf("%d detaches from a node that may still write", n)
		}
	})
}
