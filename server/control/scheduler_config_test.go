package control

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

func (w *testEnv) schedulerConfig() *cluster.SchedulerConfiguration {
	return state.SchedulerConfig(w.Store.Read())
}

func (w *testEnv) pause(pause bool) {
	w.t.Helper()
	config := cluster.DefaultSchedulerConfiguration()
	config.PauseEvalBroker = pause
	put(w, fsm.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
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

func TestSchedulerConfigLoop_StoresTheConfigurationOfTheFirstLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.Config.Scheduler.SchedulerAlgorithm = cluster.AlgorithmSpread
		w.log.Fail(structs.Unavailablef("no quorum"))
		stop := w.runLoop("scheduler_config")
		defer stop()
		after(time.Minute)
		w.log.Fail(nil)
		after(time.Minute)
		if got := w.schedulerConfig(); got.SchedulerAlgorithm != cluster.AlgorithmSpread || got.ModifyIndex == 0 {
			t.Errorf("got %+v after the log is back", got)
		}
		w.pause(true) // an operator changes it
		stop2 := w.runLoop("scheduler_config")
		defer stop2()
		after(time.Minute)
		if got := w.schedulerConfig(); got.SchedulerAlgorithm != cluster.AlgorithmBinpack || !got.PauseEvalBroker {
			t.Errorf("the next leader replaced the stored configuration: %+v", got)
		}
	})
}
