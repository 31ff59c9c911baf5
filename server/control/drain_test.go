package control

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

func TestDrainLoop_MovesAllocationsAndEndsTheDrain(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		w.addAlloc("a1", "n1")
		stop := w.runLoop("drain")
		defer stop()
		after(time.Minute)
		if w.entryCount() != 3 {
			t.Errorf("%d entries, although no node drains", w.entryCount())
		}
		put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
			NodeID:       "n1",
			DrainSpec:    &structs.DrainSpec{Deadline: -1},
			WriteOptions: now(),
		})
		after(time.Second)
		tx := w.Store.Read()
		if !state.Alloc(tx, "a1").Migrate {
			t.Fatal("the allocation is not moved")
		}
		if state.Node(tx, "n1").DrainStrategy == nil {
			t.Fatal("the drain ended although an allocation runs")
		}
		w.endAlloc("a1", "n1")
		after(time.Second)
		if last := state.Node(w.Store.Read(), "n1").LastDrain; last.Status != structs.DrainComplete {
			t.Errorf("the drain is %s", last.Status)
		}
		w.check()
	})
}

func TestDrainLoop_RecordsThatPluginsStopByForce(t *testing.T) {
	events := forcedEvents(map[string]string{"n1": "volume v is attached"})["n1"]
	if len(events) != 1 || events[0].Subsystem != state.DrainSubsystem ||
		events[0].Details["volume"] != "volume v is attached" {
		t.Errorf("got %+v", events)
	}
}

func TestDrainLoop_TriesAgainAfterAnError(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
			NodeID:       "n1",
			DrainSpec:    &structs.DrainSpec{},
			WriteOptions: now(),
		})
		w.logDown(unavailable())
		stop := w.runLoop("drain")
		defer stop()
		after(10 * time.Second)
		w.logDown(nil)
		after(time.Second)
		if last := state.Node(w.Store.Read(), "n1").LastDrain; last.Status != structs.DrainComplete {
			t.Errorf("the drain is %s", last.Status)
		}
	})
}
