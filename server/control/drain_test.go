package control

import (
	"strings"
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
		if w.log.Len() != 3 {
			t.Errorf("%d entries, although no node drains", w.log.Len())
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

// The plugins stay off after a drain by force. One that leaves the system jobs alone keeps none off.
func TestDrainLoop_KeepsPluginsOffAfterAForcedDrain(t *testing.T) {
	for _, c := range []struct {
		spec structs.DrainSpec
		want bool
	}{
		{structs.DrainSpec{Deadline: -1}, true},
		{structs.DrainSpec{}, false},
		{structs.DrainSpec{Deadline: -1, IgnoreSystemJobs: true}, false},
		{structs.DrainSpec{Deadline: time.Hour, Force: true}, false}, // it ends before that
	} {
		virtual(t, func(t *testing.T, w *testEnv) {
			w.addNode("n1", false)
			put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
				NodeID:       "n1",
				DrainSpec:    &c.spec,
				WriteOptions: now(),
			})
			stop := w.runLoop("drain")
			defer stop()
			after(time.Second)
			last := state.Node(w.Store.Read(), "n1").LastDrain
			if last.Status != structs.DrainComplete || last.PluginsOff != c.want {
				t.Errorf("%+v: the last drain is %+v", c, last)
			}
		})
	}
}

// A request that comes before a step changes what the step does.
func TestDrainLoop_TakesNoStepOfAnOlderDrain(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		w.addAlloc("a1", "n1")
		drain := func(spec *structs.DrainSpec) {
			put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
				NodeID:       "n1",
				DrainSpec:    spec,
				WriteOptions: now(),
			})
		}
		drain(&structs.DrainSpec{Deadline: -1})
		w.Drains = beforeLock(func() { drain(nil) })
		stop := w.runLoop("drain")
		defer stop()
		after(time.Second)
		if state.Alloc(w.Store.Read(), "a1").Migrate {
			t.Error("an allocation moves after the cancellation of the drain")
		}
	})
}

// beforeLock is a lock that calls a function before it is held.
type beforeLock func()

func (f beforeLock) Lock()   { f() }
func (f beforeLock) Unlock() {}

// The node's history tells that its plugins stop although it has volumes.
func TestDrainLoop_RecordsThatPluginsStopByForce(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addAlloc("plugin", "n1", &structs.Task{
			Name:            "t",
			CSIPluginConfig: &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode},
		})
		w.addClaim("v", "user", "n1")
		w.endAlloc("user", "n1")
		stop := w.runLoop("drain")
		defer stop()
		put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
			NodeID:       "n1",
			DrainSpec:    &structs.DrainSpec{Deadline: -1},
			WriteOptions: now(),
		})
		forced := func() (events []*structs.NodeEvent) {
			for _, e := range state.Node(w.Store.Read(), "n1").Events {
				if e.Details["volume"] != "" {
					events = append(events, e)
				}
			}
			return events
		}
		after(20 * time.Second)
		if state.Alloc(w.Store.Read(), "plugin").Migrate || len(forced()) > 0 {
			t.Fatal("the plugin stops before the node could unmount")
		}
		after(20 * time.Second)
		events := forced()
		if !state.Alloc(w.Store.Read(), "plugin").Migrate || len(events) != 1 {
			t.Fatalf("the plugin does not stop, or has events %+v", events)
		}
		if e := events[0]; e.Subsystem != state.DrainSubsystem ||
			!strings.Contains(e.Details["volume"], "volume v of namespace default is claimed") {
			t.Errorf("got %+v", e)
		}
	})
}

func TestDrainLoop_TriesAgainAfterAnError(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		put(w, fsm.NodeDrain, &structs.NodeDrainRequest{
			NodeID:       "n1",
			DrainSpec:    &structs.DrainSpec{},
			WriteOptions: now(),
		})
		w.log.Fail(unavailable())
		stop := w.runLoop("drain")
		defer stop()
		after(10 * time.Second)
		w.log.Fail(nil)
		after(time.Second)
		if last := state.Node(w.Store.Read(), "n1").LastDrain; last.Status != structs.DrainComplete {
			t.Errorf("the drain is %s", last.Status)
		}
	})
}
