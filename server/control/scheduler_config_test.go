package control

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

func (w *testEnv) schedulerConfig() *structs.SchedulerConfiguration {
	return state.SchedulerConfig(w.Store.Read())
}

func (w *testEnv) pause(pause bool) {
	w.t.Helper()
	config := structs.DefaultSchedulerConfiguration()
	config.PauseEvalBroker = pause
	put(w, fsm.SchedulerConfigSet, &structs.SchedulerConfigRequest{Config: config})
}

func TestSchedule_ProcessesNothingWhilePaused(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.pause(true)
		stop := w.schedule(completes)
		defer stop()
		w.addEval(&structs.Evaluation{ID: "e1"})
		w.addEval(&structs.Evaluation{ID: "due", WaitUntil: time.Now().UnixNano()})
		after(time.Hour)
		if a, b := w.eval("e1").Status, w.eval("due").Status; a != structs.EvalPending || b != structs.EvalPending {
			t.Errorf("while paused: got %s and %s, want both pending", a, b)
		}
		w.pause(false)
		synctest.Wait()
		if a, b := w.eval("e1").Status, w.eval("due").Status; a != structs.EvalComplete || b != structs.EvalComplete {
			t.Errorf("after the pause: got %s and %s, want both complete", a, b)
		}
	})
}

// A pause takes effect between two evaluations of one batch.
func TestSchedule_PausesWithinABatch(t *testing.T) {
	w := newTestEnv(t)
	s := &scheduling{scheduleLoop: scheduleLoop{w.Deps, completes}}
	w.addEval(&structs.Evaluation{ID: "e1"})
	w.pause(true)
	if s.startPlan(t.Context(), "e1") {
		t.Error("an evaluation began after the pause")
	}
}

func TestMakePlan_ReturnsPlugins(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1", true)
	w.addVolume(aVolume("v", structs.VolumeReady))
	w.addClaim("v", "a", "n1")
	n := state.Node(w.Store.Read(), "n1").Copy()
	n.Drivers = map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}}
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: n}) // and its plugin is gone
	job := &structs.Job{
		ID:   "csi",
		Type: structs.JobSystem,
		TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1, Tasks: []*structs.Task{{
			Name:            "t",
			Driver:          "exec",
			CSIPluginConfig: &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode},
		}}}},
	}
	job.Canonicalize()
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	put(w, fsm.NodeDrain, &structs.NodeDrainRequest{NodeID: "n1", DrainSpec: &structs.DrainSpec{}})
	eval := &structs.Evaluation{ID: "e", JobID: "csi", Status: structs.EvalPending}
	p, err := w.makePlan(w.Store.Read(), eval, time.Now())
	if err != nil || !p.ReturnsPlugins || len(p.Place) != 1 {
		t.Errorf("the plan of %d allocations returns plugins: %v, %v", len(p.Place), p.ReturnsPlugins, err)
	}
}

func TestSchedulerConfigLoop_StoresTheConfigurationOfTheFirstLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		var commands atomic.Int64
		commands.Store(fsm.PlacementSince - 1)
		w.Commands = func() int { return int(commands.Load()) }
		w.Config.Scheduler.SchedulerAlgorithm = structs.AlgorithmSpread
		stop := start(schedulerConfigLoop{w.Deps}.run)
		defer stop()
		after(time.Minute)
		if got := w.schedulerConfig(); got.ModifyIndex != 0 {
			t.Errorf("%+v was stored for a server of an older version", got)
		}
		w.logDown(structs.Unavailablef("no quorum"))
		commands.Store(fsm.PlacementSince)
		after(time.Minute)
		w.logDown(nil)
		after(time.Minute)
		if got := w.schedulerConfig(); got.SchedulerAlgorithm != structs.AlgorithmSpread || got.ModifyIndex == 0 {
			t.Errorf("got %+v after the log is back", got)
		}
		w.pause(true) // an operator changes it
		stop2 := start(schedulerConfigLoop{w.Deps}.run)
		defer stop2()
		after(time.Minute)
		if got := w.schedulerConfig(); got.SchedulerAlgorithm != structs.AlgorithmBinpack || !got.PauseEvalBroker {
			t.Errorf("the next leader replaced the stored configuration: %+v", got)
		}
	})
}
