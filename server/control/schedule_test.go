package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
)

// The wait of a lost allocation and of a replacement is by the cluster time, whatever the wall clock says.
func TestNextEvals_WaitsInTheClusterTime(t *testing.T) {
	w := newTestEnv(t)
	now := time.Unix(1_000_000, 0)
	w.addEval(&structs.Evaluation{ID: "later", WaitUntil: now.Add(time.Hour).UnixNano()})
	for _, wall := range []time.Time{now.Add(30 * time.Hour), now.Add(-30 * time.Hour)} {
		queue, next := nextEvals(w.Store.Read(), backoffs{}, instant{wall, now}, 9)
		if len(queue) != 0 || !next.Equal(wall.Add(time.Hour)) {
			t.Errorf("before its time: %v, and at %s, want %s", queue, next, wall.Add(time.Hour))
		}
		queue, _ = nextEvals(w.Store.Read(), backoffs{}, instant{wall, now.Add(time.Hour)}, 9)
		if len(queue) != 1 {
			t.Errorf("at its time: %v", queue)
		}
	}
}

func TestNextEvals_OrdersByPriorityThenAge(t *testing.T) {
	w := newTestEnv(t)
	now := time.Unix(1000, 0)
	e := func(id string, priority int, wait time.Duration) {
		until := int64(0)
		if wait != 0 {
			until = now.Add(wait).UnixNano()
		}
		w.addEval(&structs.Evaluation{
			ID:        id,
			Priority:  priority,
			WaitUntil: until,
		})
	}
	next := func(past backoffs, most int, want ...string) time.Time {
		t.Helper()
		queue, due := nextEvals(w.Store.Read(), past, instant{now, now}, most)
		if !slices.Equal(queue, want) {
			t.Errorf("got %v, want %v", queue, want)
		}
		return due
	}
	if due := next(backoffs{}, 9); !due.IsZero() {
		t.Errorf("got %s without evaluations", due)
	}
	e("resting", 99, 0)
	e("later", 99, time.Hour)
	e("latest", 99, 2*time.Hour)
	e("old", 50, 0)
	e("new", 50, 0)
	e("urgent", 90, 0)
	e("was later", 50, -time.Hour)
	past := backoffs{"resting": {until: now.Add(time.Minute)}}
	if due := next(past, 9, "urgent", "old", "new", "was later"); !due.Equal(now.Add(time.Minute)) {
		t.Errorf("next is %s", due)
	}
	if due := next(backoffs{}, 9, "resting", "urgent", "old", "new",
		"was later"); !due.Equal(now.Add(time.Hour)) {
		t.Errorf("next is %s", due)
	}
	next(past, 2, "urgent", "old")
	past.delayRejected("resting", w.eval("resting").ModifyIndex, now, w.Config.Retry)
	past.delayRejected("resting", w.eval("resting").ModifyIndex, now, w.Config.Retry)
	next(past, 1, "urgent")
	e("resting", 99, 0) // its inputs have changed
	next(past, 1, "resting")
}

// planner replaces the scheduler.
type planner func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error)

func (w *testEnv) schedule(p planner) (stop func()) {
	return start(scheduleLoop{w.Deps, p}.run)
}

func completes(_ *state.ReadTx, e *structs.Evaluation, _ time.Time) (*structs.Plan, error) {
	e = e.Copy()
	e.Status = structs.EvalComplete
	return &structs.Plan{Eval: e, JobModifyIndex: e.JobModifyIndex}, nil
}

func (w *testEnv) addEval(e *structs.Evaluation) {
	w.t.Helper()
	e.JobID = "j"
	put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}})
}

func (w *testEnv) eval(id string) *structs.Evaluation {
	return state.Eval(w.Store.Read(), id)
}

func TestSchedule_ProcessesEvaluations(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		stop := w.schedule(completes)
		defer stop()
		w.addEval(&structs.Evaluation{ID: "e1"})
		w.addEval(&structs.Evaluation{
			ID:        "blocked",
			Status:    structs.EvalBlocked,
			BlockedOn: []string{"x"},
		})
		w.addEval(&structs.Evaluation{ID: "delayed", WaitUntil: time.Now().Add(time.Hour).UnixNano()})
		synctest.Wait()
		if w.eval("e1").Status != structs.EvalComplete ||
			w.eval("delayed").Status != structs.EvalPending {
			t.Errorf("e1 is %s, delayed is %s", w.eval("e1").Status, w.eval("delayed").Status)
		}
		after(time.Hour + time.Second)
		if w.eval("delayed").Status != structs.EvalComplete {
			t.Error("a delayed evaluation was not processed when it came due")
		}
	})
}

func TestSchedule_GivesUpAFailingEvaluationWithItsReason(t *testing.T) {
	for name, p := range map[string]planner{
		"error": func(*state.ReadTx, *structs.Evaluation, time.Time) (*structs.Plan, error) {
			return nil, errors.New("a bug")
		},
		"no plan": func(*state.ReadTx, *structs.Evaluation, time.Time) (*structs.Plan, error) { return nil, nil },
		"panic":   func(*state.ReadTx, *structs.Evaluation, time.Time) (*structs.Plan, error) { panic("a bug") },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				tried := 0
				w.addEval(&structs.Evaluation{ID: "e1"})
				w.addEval(&structs.Evaluation{ID: "e2", Priority: 1})
				stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
					if e.ID == "e2" {
						return completes(tx, e, now)
					}
					tried++
					return p(tx, e, now)
				})
				defer stop()
				synctest.Wait()
				if w.eval("e2").Status != structs.EvalComplete {
					t.Error("a failing evaluation delays another")
				}
				after(time.Hour)
				if e := w.eval("e1"); e.Status != structs.EvalFailed ||
					!strings.Contains(e.StatusDescription, "the last: ") || tried != evalAttempts {
					t.Errorf("state after %d attempts is %s: %q", tried, e.Status, e.StatusDescription)
				}
			})
		})
	}
}

// narrowLog rejects plans, like a server whose plan needs too large an entry.
type narrowLog struct{ *testEnv }

func (l narrowLog) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	if entry[0] == fsm.PlanApply.ID {
		return 0, nil, structs.Invalidf("%s is too large", fsm.CommandOf(entry).Name)
	}
	return l.log.Propose(ctx, entry)
}

func TestSchedule_FailsAnEvaluationWhosePlanIsTooLarge(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.Proposer = narrowLog{w}
		w.addEval(&structs.Evaluation{ID: "e1"})
		var tried atomic.Int32
		stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
			tried.Add(1)
			return completes(tx, e, now)
		})
		defer stop()
		after(time.Hour)
		e := w.eval("e1")
		if e.Status != structs.EvalFailed || !strings.Contains(e.StatusDescription, "PlanApply is too large") {
			t.Errorf("evaluation is %s: %q", e.Status, e.StatusDescription)
		}
		if n := int(tried.Load()); n != evalAttempts {
			t.Errorf("tried %d times", n)
		}
	})
}

func TestSchedule_RepeatsARejectedPlanWithBackoff(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: &structs.Job{ID: "j"}})
		w.addEval(&structs.Evaluation{ID: "e1"})
		var tried atomic.Int32
		stop := w.schedule(func(tx *state.ReadTx, e *structs.Evaluation, now time.Time) (*structs.Plan, error) {
			tried.Add(1)
			plan, err := completes(tx, e, now)
			plan.JobModifyIndex = 1 // of a job that has changed since
			return plan, err
		})
		defer stop()
		synctest.Wait()
		if n := tried.Load(); n != 2 {
			t.Errorf("tried %d times at once, want 2", n)
		}
		after(10 * time.Minute)
		if e := w.eval("e1"); tried.Load() > 40 || e.Status != structs.EvalPending {
			t.Errorf("tried %d times in ten minutes; it is %s", tried.Load(), e.Status)
		}
	})
}

func TestSchedule_DoesNotBlameAnEvaluationForTheLog(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addEval(&structs.Evaluation{ID: "e1"})
		w.log.Fail(unavailable())
		stop := w.schedule(completes)
		defer stop()
		after(10 * time.Minute)
		w.log.Fail(nil)
		after(time.Minute)
		if e := w.eval("e1"); e.Status != structs.EvalComplete {
			t.Errorf("evaluation is %s: %s", e.Status, e.StatusDescription)
		}
	})
}

// The update of a system job goes on at its pace when the leader changes between two batches, and at once
// after a longer time without a leader.
func TestSchedule_ContinuesAnUpdateAfterAChangeOfTheLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		for i := range 6 {
			w.addSizedNode(fmt.Sprintf("n%d", i), 10, nil)
		}
		inWaves := func(j *structs.Job) {
			j.Type = structs.JobSystem
			j.Update = &structs.UpdateStrategy{MaxParallel: 2, Stagger: time.Minute}
		}
		lead := func() (stop func()) {
			stop = w.runLoop("schedule")
			synctest.Wait()
			return stop
		}
		w.addJob("log", 1, 100, inWaves)
		stop := lead()
		updated := func(want int) {
			t.Helper()
			n := 0
			for _, a := range w.runningAllocs() {
				if a.Resources.CPU == 101 {
					n++
				}
			}
			if n != want {
				t.Fatalf("%d allocations are updated, want %d", n, want)
			}
		}
		time.Sleep(time.Hour)
		w.addJob("log", 1, 101, inWaves)
		synctest.Wait()
		updated(2)
		stop()
		time.Sleep(59 * time.Second)
		stop = lead()
		updated(2)
		after(time.Second)
		updated(4)
		stop()
		time.Sleep(time.Hour)
		stop = lead()
		defer stop()
		updated(6)
		after(time.Hour)
		if n := w.log.Len(); n != 6+2+1+1+1+1 {
			t.Errorf("%d entries: two jobs on six nodes need one plan, then one for each batch", n)
		}
		w.check()
	})
}

func TestSchedule_PlacesAJobWithTheRealScheduler(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		job := &structs.Job{
			ID: "j",
			TaskGroups: []*structs.TaskGroup{{
				Name:  "g",
				Count: 2,
				Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
			}},
		}
		defaults.Canonicalize(job)
		node := state.Node(w.Store.Read(), "n1").Copy()
		node.Drivers = map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}}
		put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{Node: node})
		put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job, Eval: &structs.Evaluation{ID: "e1"}})
		stop := w.runLoop("schedule")
		defer stop()
		synctest.Wait()
		placed := 0
		for range state.AllocsByNode(w.Store.Read(), "n1") {
			placed++
		}
		if e := w.eval("e1"); placed != 2 || e.Status != structs.EvalComplete {
			t.Errorf("placed %d; the evaluation is %s: %s %+v", placed, e.Status, e.StatusDescription,
				e.FailedTGAllocs)
		}
		w.check()
	})
}
