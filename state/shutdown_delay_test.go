package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// delays returns for each of some allocations whether its node is to wait for the shutdown_delay.
func (w *fixture) delays(ids ...string) (delays []bool) {
	for _, id := range ids {
		delays = append(delays, !state.Alloc(w.Store.Read(), id).NoShutdownDelay)
	}
	return delays
}

func TestAllocStop_SkipsTheShutdownDelay(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	stop := func(skip bool) error {
		return try(w, state.AllocStop, &structs.AllocStopRequest{
			AllocID:         "a",
			NoShutdownDelay: skip,
			Eval:            &structs.Evaluation{ID: "e", TriggeredBy: structs.TriggerAllocStop},
			WriteOptions:    w.Now(),
		})
	}
	wantKind(t, stop(false), "")
	if !w.delays("a")[0] {
		t.Error("a stop without the parameter skips the delay")
	}
	wantKind(t, stop(true), "")
	a := state.Alloc(w.Store.Read(), "a")
	if !a.NoShutdownDelay || !a.Migrate {
		t.Errorf("the allocation is %+v", a)
	}
	w.Stop("a", "")
	if stopped := state.Alloc(w.Store.Read(), "a"); !stopped.NoShutdownDelay {
		t.Error("the plan that stops it forgets the request")
	}
	wantKind(t, stop(true), "") // of a user who does not know that it has been said
	w.Client("n1", "a", structs.AllocComplete)
	wantKind(t, stop(true), structs.KindPrecondition)
}

// The node waits for changes that the servers make: it has to learn that a delay, which has begun, is to end.
func TestAllocStop_EndsADelayThatHasBegun(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	w.Stop("a", "")
	before := state.Alloc(w.Store.Read(), "a")
	stop := &structs.AllocStopRequest{
		AllocID:      "a",
		Eval:         &structs.Evaluation{ID: "e", TriggeredBy: structs.TriggerAllocStop},
		WriteOptions: w.Now(),
	}
	wantKind(t, try(w, state.AllocStop, stop), structs.KindPrecondition)
	stop.NoShutdownDelay = true
	do(w, state.AllocStop, stop)
	a := state.Alloc(w.Store.Read(), "a")
	if !a.NoShutdownDelay || a.AllocModifyIndex <= before.AllocModifyIndex {
		t.Errorf("the allocation is %+v", a)
	}
	if a.Migrate {
		t.Error("an allocation that is being stopped is to be replaced, too")
	}
	w.WantEval("e", structs.EvalPending)
}

func TestJobDeregister_SkipsTheShutdownDelays(t *testing.T) {
	for name, purge := range map[string]bool{"stop": false, "purge": true} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1")
			for _, id := range []string{"ended", "stopping", "live"} {
				w.Alloc(id, "j", "n1")
			}
			w.Alloc("other", "k", "n1")
			w.Client("n1", "ended", structs.AllocComplete)
			w.Stop("stopping", "")
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", WriteOptions: w.Now()})
			ids := []string{"ended", "stopping", "live", "other"}
			for i, delayed := range w.delays(ids...) {
				if !delayed {
					t.Errorf("a stop without the parameter skips the delay of %s", ids[i])
				}
			}
			before := state.Alloc(w.Store.Read(), "stopping").AllocModifyIndex
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{
				JobID:           "j",
				Purge:           purge,
				NoShutdownDelay: true,
				WriteOptions:    w.Now(),
			})
			for i, delayed := range w.delays(ids...) {
				if want := ids[i] == "ended" || ids[i] == "other"; delayed != want {
					t.Errorf("%s waits for the delay: %v", ids[i], delayed)
				}
			}
			if got := state.Alloc(w.Store.Read(), "stopping").AllocModifyIndex; got <= before {
				t.Error("the node does not learn that the delay ends")
			}
		})
	}
}

// A registration that follows at once takes the stop back. The next stop is another one.
func TestPlanApply_ForgetsTheRequestOfAStopThatWasTakenBack(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:           "j",
		NoShutdownDelay: true,
		WriteOptions:    w.Now(),
	})
	j := w.Job(aJob("j", structs.JobService))
	p := w.Plan(j)
	p.Update = []*structs.PlanUpdate{{AllocID: "a", FollowupEvalID: "later"}}
	do(w, state.PlanApply, p)
	if w.delays("a")[0] {
		t.Error("an update without a new version of the job takes the stop back")
	}
	p = w.Plan(j)
	p.Update = []*structs.PlanUpdate{{AllocID: "a", SetJobVersion: true, JobVersion: j.Version}}
	do(w, state.PlanApply, p)
	if !w.delays("a")[0] {
		t.Error("the allocation goes on, and would end without its delay")
	}
}
