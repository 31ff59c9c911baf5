package garbage

import (
	"slices"
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// hour returns the options of a request that is made so many hours after the beginning of a test.
func hour(n float64) structs.WriteOptions {
	return structs.WriteOptions{Now: int64(n * float64(time.Hour))}
}

// listAt lists the garbage of an hour, with the default thresholds.
func (w *testEnv) listAt(n float64, rows int) (r structs.ReapRequest) {
	c := Collection{
		Keep: Thresholds{Eval: time.Hour, Job: 4 * time.Hour, Node: 24 * time.Hour, Rows: rows},
		Now:  time.Unix(0, hour(n).Now),
	}
	for _, e := range c.listGarbage(w.Store.Read()) {
		r.Evals, r.Allocs = append(r.Evals, e.Evals...), append(r.Allocs, e.Allocs...)
		r.Jobs = append(r.Jobs, e.Jobs...)
	}
	return r
}

// submit registers a job with one group, at an hour.
func (w *testEnv) submit(id, kind string, at float64) {
	w.t.Helper()
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{
		WriteOptions: hour(at),
		Job: &structs.Job{
			ID:   id,
			Type: kind,
			TaskGroups: []*structs.TaskGroup{{
				Name:             "g",
				Count:            1,
				ReschedulePolicy: &structs.ReschedulePolicy{Unlimited: true},
			}},
		},
	})
}

// start places the allocation of a job, at an hour.
func (w *testEnv) start(job string, at float64) {
	w.t.Helper()
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   hour(at),
		JobModifyIndex: state.Job(w.Store.Read(), "default", job).JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e-" + job, JobID: job, Status: structs.EvalComplete},
		Place: []*structs.Allocation{{
			ID:        "a-" + job,
			JobID:     job,
			TaskGroup: "g",
			NodeID:    "n1",
		}},
	})
}

// finish reports the end of the allocation of a job, and completes the evaluations that follow, at an hour.
func (w *testEnv) finish(job, status string, at float64) {
	w.t.Helper()
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       "n1",
		WriteOptions: hour(at),
		Allocs:       []*structs.AllocClientUpdate{{ID: "a-" + job, ClientStatus: status}},
	})
	w.conclude(job, at)
}

// conclude completes the open evaluations of a job, at an hour.
func (w *testEnv) conclude(job string, at float64) {
	w.t.Helper()
	for e := range state.EvalsByJob(w.Store.Read(), "default", job) {
		if !e.Terminal() {
			done := e.Copy()
			done.Status = structs.EvalComplete
			put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: hour(at),
				Evals:        []*structs.Evaluation{done},
			})
		}
	}
}

func jobNames(r structs.ReapRequest) (names []string) {
	for _, k := range r.Jobs {
		names = append(names, k.ID)
	}
	slices.Sort(names)
	return names
}

// A job that has run for a day is deleted as long after its end as one that has run for a second.
func TestCollection_CountsTheAgeOfAJobFromItsEnd(t *testing.T) {
	runs := map[string]func(w *testEnv){
		"a batch job that is complete": func(w *testEnv) {
			w.submit("j", structs.JobBatch, 0)
			w.start("j", 0)
			w.finish("j", structs.AllocComplete, 24)
		},
		"a batch job that has failed": func(w *testEnv) {
			w.submit("j", structs.JobBatch, 0)
			w.start("j", 0)
			w.finish("j", structs.AllocFailed, 24)
		},
		"a sysbatch job": func(w *testEnv) {
			w.submit("j", structs.JobSysBatch, 0)
			w.start("j", 0)
			w.finish("j", structs.AllocComplete, 24)
		},
		"a dispatched child": func(w *testEnv) {
			put(w, fsm.JobRegister, &structs.JobRegisterRequest{WriteOptions: hour(0), Job: &structs.Job{
				ID:               "parent",
				Type:             structs.JobBatch,
				TaskGroups:       []*structs.TaskGroup{{Name: "g", Count: 1}},
				ParameterizedJob: &structs.ParameterizedJobConfig{},
			}})
			child := *state.Job(w.Store.Read(), "default", "parent")
			child.ID, child.Dispatched = "j", true
			put(w, fsm.JobDispatch, &structs.JobDispatchRequest{
				WriteOptions:   hour(0),
				JobID:          "parent",
				JobModifyIndex: child.JobModifyIndex,
				Child:          &child,
			})
			w.start("j", 0)
			w.finish("j", structs.AllocComplete, 24)
		},
		"a child of a periodic job": func(w *testEnv) {
			put(w, fsm.JobRegister, &structs.JobRegisterRequest{WriteOptions: hour(0), Job: &structs.Job{
				ID:         "parent",
				Type:       structs.JobBatch,
				TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1}},
				Periodic:   &structs.PeriodicConfig{Enabled: true, Specs: []string{"@yearly"}},
			}})
			parent := state.Job(w.Store.Read(), "default", "parent")
			child := parent.ChildAt(time.Unix(0, hour(0).Now+1))
			child.ID = "j"
			put(w, fsm.PeriodicLaunch, &structs.PeriodicLaunchRequest{
				WriteOptions:   hour(0),
				ParentID:       "parent",
				JobModifyIndex: parent.JobModifyIndex,
				Launch:         hour(0).Now + 1, // later than the registration
				Child:          child,
			})
			w.start("j", 0)
			w.finish("j", structs.AllocComplete, 24)
		},
		"a service that was stopped before its task ended": func(w *testEnv) {
			w.submit("j", structs.JobService, 0)
			w.start("j", 0)
			put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", WriteOptions: hour(1)})
			put(w, fsm.PlanApply, &structs.Plan{
				WriteOptions:   hour(1),
				JobModifyIndex: state.Job(w.Store.Read(), "default", "j").JobModifyIndex,
				Eval:           &structs.Evaluation{ID: "stop", JobID: "j", Status: structs.EvalComplete},
				Stop:           []*structs.PlanStop{{AllocID: "a-j"}},
			})
			w.finish("j", structs.AllocComplete, 24)
		},
		"a batch job that waited for capacity and was stopped": func(w *testEnv) {
			w.submit("j", structs.JobBatch, 0)
			put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: hour(0),
				Evals:        []*structs.Evaluation{{ID: "e-j", JobID: "j", Status: structs.EvalBlocked}},
			})
			put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", WriteOptions: hour(24)})
		},
		"a batch job whose last evaluation ended later": func(w *testEnv) {
			w.submit("j", structs.JobBatch, 0)
			w.start("j", 0)
			w.finish("j", structs.AllocComplete, 1)
			put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{
				WriteOptions: hour(24),
				Evals:        []*structs.Evaluation{{ID: "late", JobID: "j", Status: structs.EvalComplete}},
			})
		},
	}
	for name, run := range runs {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.addNode("n1")
			run(w)
			if r := w.listAt(24.5, 0); len(r.Jobs)+len(r.Allocs) > 0 {
				t.Errorf("half an hour after the end: %+v", r)
			}
			if r := w.listAt(27.9, 0); len(jobNames(r)) > 0 {
				t.Errorf("before the threshold: %+v", r)
			}
			if r := w.listAt(28.1, 0); !slices.Equal(jobNames(r), []string{"j"}) {
				t.Errorf("after the threshold: %+v", r)
			}
			w.check()
		})
	}
}

// Surplus rows go by their ends: the job that has run longest may be the one that has ended last.
func TestCollection_DeletesTheJobsOfASurplusByTheirEnds(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	for i, id := range []string{"long", "short", "shorter"} {
		w.submit(id, structs.JobBatch, float64(i))
		w.start(id, float64(i))
	}
	w.finish("shorter", structs.AllocComplete, 3)
	w.finish("short", structs.AllocComplete, 3.1)
	w.finish("long", structs.AllocComplete, 3.2)
	if r := w.listAt(3.3, 1); !slices.Equal(jobNames(r), []string{"short", "shorter"}) {
		t.Errorf("%v go, want those that ended first", jobNames(r))
	}
}

// A cancelled evaluation has ended with that, however long it has waited.
func TestCollection_CountsTheAgeOfACancelledEvaluationFromThat(t *testing.T) {
	w := newTestEnv(t)
	w.submit("j", structs.JobService, 0)
	for i, at := range []float64{0, 24} {
		put(w, fsm.EvalUpdate, &structs.EvalUpdateRequest{WriteOptions: hour(at), Evals: []*structs.Evaluation{{
			ID:     []string{"first", "second"}[i],
			JobID:  "j",
			Status: structs.EvalBlocked,
		}}})
	}
	if e := state.Eval(w.Store.Read(), "first"); e.Status != structs.EvalCancelled {
		t.Fatalf("the first evaluation is %s", e.Status)
	}
	if r := w.listAt(24.5, 0); len(r.Evals) > 0 {
		t.Errorf("half an hour after it was cancelled: %v", r.Evals)
	}
	if r := w.listAt(25.1, 0); !slices.Equal(r.Evals, []string{"first"}) {
		t.Errorf("after the threshold: %v", r.Evals)
	}
}

// reap applies a request that was made for the present state, after what comes between.
func (w *testEnv) reap(r structs.ReapRequest, between func()) {
	w.t.Helper()
	r.Index = w.Store.Index()
	between()
	put(w, fsm.Reap, &r)
	w.check()
}

// The entry that deletes rows comes after the choice of them.
func TestReap_KeepsWhatHasChangedSince(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	w.addNode("n2")
	w.submit("j", structs.JobBatch, 0)
	w.start("j", 0)
	put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
		WriteOptions: hour(0),
		NodeIDs:      []string{"n1", "n2"},
		Status:       structs.NodeDown,
	})
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   hour(0),
		JobModifyIndex: state.Job(w.Store.Read(), "default", "j").JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "lost", JobID: "j", Status: structs.EvalComplete},
		Stop: []*structs.PlanStop{{
			AllocID:      "a-j",
			Cause:        structs.StopNodeDown,
			ClientStatus: structs.AllocLost,
		}},
	})
	w.reap(structs.ReapRequest{Allocs: []string{"a-j"}, Evals: []string{"e-j"}}, func() {
		put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			WriteOptions: hour(9),
			Allocs:       []*structs.AllocClientUpdate{{ID: "a-j", ClientStatus: structs.AllocComplete}},
		})
	})
	if state.Alloc(w.Store.Read(), "a-j") == nil || state.Eval(w.Store.Read(), "e-j") == nil {
		t.Error("an allocation whose end was reported a moment ago is deleted, or its evaluation")
	}
	node := func(status string, ids ...string) {
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{WriteOptions: hour(9), NodeIDs: ids, Status: status})
	}
	w.reap(structs.ReapRequest{Nodes: []string{"n2"}}, func() {
		node(structs.NodeReady, "n2")
		node(structs.NodeDown, "n2")
	})
	if state.Node(w.Store.Read(), "n2") == nil {
		t.Error("a node that was back for a moment is deleted with the age of its former loss")
	}
	w.reap(structs.ReapRequest{Nodes: []string{"n2"}}, func() {})
	if state.Node(w.Store.Read(), "n2") != nil {
		t.Error("a node that has not changed stays")
	}

	w.submit("k", structs.JobBatch, 0)
	w.reap(structs.ReapRequest{Jobs: []structs.JobKey{{Namespace: "default", ID: "k"}}}, func() {
		put(w, fsm.JobDeregister, &structs.JobDeregisterRequest{JobID: "k", WriteOptions: hour(9)})
	})
	if state.Job(w.Store.Read(), "default", "k") == nil {
		t.Error("a job that was stopped a moment ago is deleted with the age of its submission")
	}
}

// crashLoop begins a deployment that does not end, whose only place has failed so many times.
func (w *testEnv) crashLoop(times int) *structs.Deployment {
	w.t.Helper()
	w.submit("j", structs.JobService, 0)
	job := state.Job(w.Store.Read(), "default", "j")
	d := &structs.Deployment{
		ID:         "d",
		Namespace:  job.Namespace,
		JobID:      job.ID,
		JobVersion: job.Version,
		Status:     structs.DeploymentRunning,
		TaskGroups: map[string]*structs.DeploymentState{"g": {DesiredTotal: 1, ProgressDeadline: 24 * time.Hour}},
	}
	previous := ""
	for i := range times {
		id := "a" + string(rune('0'+i))
		plan := &structs.Plan{
			WriteOptions:   hour(float64(i)),
			JobModifyIndex: job.JobModifyIndex,
			Eval:           &structs.Evaluation{ID: "e" + id, JobID: "j", Status: structs.EvalComplete},
			Place: []*structs.Allocation{{
				ID:                 id,
				JobID:              "j",
				TaskGroup:          "g",
				NodeID:             "n1",
				DeploymentID:       d.ID,
				PreviousAllocation: previous,
			}},
		}
		if i == 0 {
			plan.Deployment = d
		}
		put(w, fsm.PlanApply, plan)
		put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID:       "n1",
			WriteOptions: hour(float64(i)),
			Allocs:       []*structs.AllocClientUpdate{{ID: id, ClientStatus: structs.AllocFailed}},
		})
		w.conclude("j", float64(i))
		previous = id
	}
	return state.Deployment(w.Store.Read(), "d")
}

// A deployment may be active for as long as its job fails: it needs no row of an allocation that was
// replaced.
func TestCollection_DeletesTheCrashLoopOfAnActiveDeployment(t *testing.T) {
	w := newTestEnv(t)
	w.addNode("n1")
	d := w.crashLoop(5)
	if s := d.TaskGroups["g"]; s.PlacedAllocs != 5 || !d.Active() {
		t.Fatalf("%+v, %+v", d, s)
	}
	r := w.listAt(4.5, 0)
	if want := []string{"a0", "a1", "a2", "a3"}; !slices.Equal(r.Allocs, want) {
		t.Errorf("garbage %v, want %v: the last one is not replaced", r.Allocs, want)
	}
	w.reap(r, func() {})
	s := state.Deployment(w.Store.Read(), "d").TaskGroups["g"]
	if s.PlacedAllocs != 1 || state.Alloc(w.Store.Read(), "a0") != nil {
		t.Errorf("after the deletion: %+v", s)
	}
}
