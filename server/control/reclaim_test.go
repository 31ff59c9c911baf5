package control

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/structs"
	"berth/structs/storage"
)

// markedVolume adds the volume v that is deleted a day after a request, and requests it.
func (w *testEnv) markedVolume() {
	w.t.Helper()
	v := aVolume("v", structs.VolumeReady)
	v.Reclaim = storage.ReclaimDelete
	w.addVolume(v)
	w.requestDeletion()
}

func (w *testEnv) requestDeletion() {
	w.t.Helper()
	put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: now()})
}

const day = storage.DefaultDeleteAfter

// wantDeletes fails the test unless the plugin was called so many times, and the volume is there or gone.
func (w *testEnv) wantDeletes(calls int, there bool) {
	w.t.Helper()
	synctest.Wait()
	if n := len(w.called(deleteMethod)); n != calls || (w.volume("v") != nil) != there {
		w.t.Fatalf("%d deletions, want %d; the volume is %+v", n, calls, w.volume("v"))
	}
	w.check()
}

func TestReclaim_DeletesOnceAtItsTimeUnderAnyLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		stop := w.runLoop("controllers")
		w.markedVolume()
		after(day - time.Second)
		w.wantDeletes(0, true)

		put(w, fsm.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "v", WriteOptions: now()})
		after(3 * day)
		w.wantDeletes(0, true)

		w.requestDeletion()
		after(day / 2)
		stop()
		stop = w.runLoop("controllers") // of the next leader
		defer func() { stop() }()
		after(day/2 - time.Second)
		w.wantDeletes(0, true)
		after(time.Second)
		w.wantDeletes(1, false)

		stop()
		stop = w.runLoop("controllers")
		after(day)
		w.wantDeletes(1, false)
	})
}

func TestReclaim_BeginsWhenTheNextLeaderFindsItsTimePassed(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.markedVolume()
		time.Sleep(2 * day)
		stop := w.runLoop("controllers")
		defer stop()
		w.wantDeletes(1, false)
	})
}

func TestReclaim_WaitsForTheLastClaimAndItsDetach(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		v := aVolume("v", structs.VolumeReady)
		v.Reclaim = storage.ReclaimDelete
		w.addVolume(v)
		w.addClaim("v", "a1", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		w.endAlloc("a1", "n1")
		w.requestDeletion()
		after(2 * day)
		w.wantDeletes(0, true)

		detached := false
		w.setAnswer(func(c nodeCall) (any, error) {
			switch c.method {
			case detachMethod:
				return nil, unavailable()
			case deleteMethod:
				detached = w.attachment("v", "n1") == nil
			}
			return nil, nil
		})
		put(w, fsm.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
			Claims: []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}},
		})
		after(time.Hour)
		w.wantDeletes(0, true)

		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == deleteMethod {
				detached = w.attachment("v", "n1") == nil
			}
			return nil, nil
		})
		after(time.Minute)
		w.wantDeletes(1, false)
		if !detached {
			t.Error("the volume was deleted while it was attached")
		}
	})
}

func TestReclaim_TriesAgainWhatThePluginRejects(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		stop := w.runLoop("controllers")
		defer stop()
		w.setAnswer(func(nodeCall) (any, error) { return nil, structs.Deniedf("no") })
		w.markedVolume()
		after(day)
		w.wantDeletes(1, true)
		after(storage.DeleteAgain - time.Second)
		w.wantDeletes(1, true)
		w.setAnswer(nil)
		after(time.Second)
		w.wantDeletes(2, false)
	})
}

func TestReclaim_WaitsForNodesOfARestoredState(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.log.MarkRestored(w.t, 1)
		w.markedVolume()
		stop := w.runLoop("controllers")
		defer stop()
		after(2 * day)
		w.wantDeletes(0, true)
		if v := w.volume("v"); !v.Marked() {
			t.Errorf("the deletion has begun: the volume is %s", v.State)
		}
		w.accounted("n1")
		w.wantDeletes(1, false)
	})
}

func TestReclaim_DoesNotGrowAMarkedVolume(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		v := aVolume("v", structs.VolumeReady)
		v.Reclaim = storage.ReclaimDelete
		w.addVolume(v)
		w.grow("v", 20)
		w.requestDeletion()
		stop := w.runLoop("controllers")
		defer stop()
		after(day - time.Second)
		if n := len(w.called(expandMethod)); n != 0 {
			t.Errorf("%d calls to expand it", n)
		}
		put(w, fsm.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "v", WriteOptions: now()})
		synctest.Wait()
		if n := len(w.called(expandMethod)); n != 1 {
			t.Errorf("%d calls to expand it after it was kept", n)
		}
	})
}

func TestReclaim_LetsAVolumeBeKeptWhileItsPluginIsAway(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		defer w.runLoop("controllers")()
		w.markedVolume()
		after(3 * day)
		w.wantDeletes(0, true)
		if v := w.volume("v"); v.State != structs.VolumeDeleting || v.LastError == nil {
			t.Fatalf("the volume is %+v", v)
		}

		put(w, fsm.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "v", WriteOptions: now()})
		w.addNode("n2", true)
		after(day)
		w.wantDeletes(0, true)
		if v := w.volume("v"); v.State != structs.VolumeReady || v.LastError != nil {
			t.Errorf("the volume is %+v", v)
		}
	})
}
