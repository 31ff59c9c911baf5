package state_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/structs"
)

func (w *fixture) wantJob(id, status string, version uint64) *structs.Job {
	w.T.Helper()
	j := state.Job(w.Store.Read(), structs.DefaultNamespace, id)
	if j == nil || j.Status != status || j.Version != version {
		w.T.Errorf("at index %d: job %s is %+v, want %s at version %d", w.Index, id, j, status, version)
	}
	return j
}

func (w *fixture) versions(id string) (out []uint64) {
	for j := range state.JobVersions(w.Store.Read(), structs.DefaultNamespace, id) {
		out = append(out, j.Version)
	}
	return out
}

func jobWithSalt(id string, salt int) *structs.Job {
	j := aJob(id, structs.JobService)
	j.Meta = map[string]string{"salt": fmt.Sprint(salt)}
	return j
}

func TestJobRegister_OneVersionPerSpecification(t *testing.T) {
	w := newFixture(t)
	e := &structs.Evaluation{ID: "e", TriggeredBy: structs.TriggerJobRegister}
	do(w, state.JobRegister, &structs.JobRegisterRequest{
		Job:          jobWithSalt("j", 1),
		Eval:         e,
		WriteOptions: w.Now(),
	})
	j := w.wantJob("j", structs.JobPending, 0)
	if got := state.Eval(w.Store.Read(), "e"); got.JobModifyIndex != w.Index ||
		got.JobID != "j" ||
		got.Type != structs.JobService || got.Priority != 50 || got.Status != structs.EvalPending {
		t.Errorf("the evaluation is %+v", got)
	}
	w.Job(jobWithSalt("j", 1))
	if state.Job(w.Store.Read(), "default", "j") != j {
		t.Error("an equal specification was put again")
	}
	again := w.Job(jobWithSalt("j", 2))
	w.wantJob("j", structs.JobPending, 1)
	if again.JobModifyIndex != w.Index || again.CreateIndex != j.CreateIndex {
		t.Errorf("the new version is %+v", again)
	}
	old := state.JobVersion(w.Store.Read(), "default", "j", 0)
	if old.Meta["salt"] != "1" {
		t.Errorf("the old version is %+v", old)
	}
	fetched := again.Copy() // a job that a user reads, edits and writes back keeps the values of the servers
	fetched.Status, fetched.SubmitTime = structs.JobRunning, 7
	if w.Job(fetched) != again {
		t.Error("an unchanged job made a new version")
	}
}

func TestJobRegister_EnforcesTheIndex(t *testing.T) {
	w := newFixture(t)
	enforce := func(index uint64, salt int) error {
		return try(w, state.JobRegister, &structs.JobRegisterRequest{
			Job:            jobWithSalt("j", salt),
			EnforceIndex:   true,
			JobModifyIndex: index,
			WriteOptions:   w.Now(),
		})
	}
	wantKind(t, enforce(5, 1), structs.KindConflict)
	wantKind(t, enforce(0, 1), "")
	wantKind(t, enforce(0, 2), structs.KindConflict)
	at := state.Job(w.Store.Read(), "default", "j").JobModifyIndex
	wantKind(t, enforce(at, 2), "")
	wantKind(t, enforce(at, 3), structs.KindConflict)
	w.wantJob("j", structs.JobPending, 1)
	for name, j := range map[string]*structs.Job{
		"none":  nil,
		"no ID": {},
		"a group that is nil": {
			ID:         "x",
			TaskGroups: []*structs.TaskGroup{nil},
		},
		"a task that is nil": {
			ID:         "x",
			TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{nil}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantKind(t, try(w, state.JobRegister, &structs.JobRegisterRequest{Job: j}), structs.KindInvalid)
		})
	}
}

func TestJobVersions_StayWhileUsed(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Job(jobWithSalt("j", 0))
	w.Alloc("a", "j", "n1") // of version 0
	for n := range 10 {
		w.Job(jobWithSalt("j", n+1))
	}
	if got := fmt.Sprint(w.versions("j")); got != "[0 4 5 6 7 8 9 10]" {
		t.Errorf("got versions %s, want the used and the newest", got)
	}
	a := state.AllocWithJob(w.Store.Read(), state.Alloc(w.Store.Read(), "a"))
	if a.Job == nil || a.Job.Meta["salt"] != "0" {
		t.Errorf("the job of the allocation is %+v", a.Job)
	}
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		Purge:        true,
		WriteOptions: w.Now(),
	})
	if got := fmt.Sprint(w.versions("j")); got != "[0]" {
		t.Errorf("got versions %s, want [0]", got)
	}
	w.Job(jobWithSalt("j", 99)) // the number of its version is not that of the allocation's version
	w.wantJob("j", structs.JobRunning, 1)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		Purge:        true,
		WriteOptions: w.Now(),
	})
	w.Client("n1", "a", structs.AllocComplete)
	do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"a"}, WriteOptions: w.Now()})
	if got := w.versions("j"); got != nil {
		t.Errorf("got versions %v of a deleted job", got)
	}
}

func TestJobDeregister_StopsAndPurges(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a", "j", "n1")
	w.Blocked("j", structs.WakeCapacity)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		WriteOptions: w.Now(),
		Eval:         &structs.Evaluation{ID: "stop", TriggeredBy: structs.TriggerJobDeregister},
	})
	j := w.wantJob("j", structs.JobRunning, 1)
	if !j.Stop {
		t.Error("the job is not stopped")
	}
	w.WantEval("blocked-j", structs.EvalCancelled)
	w.WantEval("stop", structs.EvalPending)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", WriteOptions: w.Now()})
	w.wantJob("j", structs.JobRunning, 1)
	w.Stop("a", "")
	w.wantJob("j", structs.JobPending, 1)
	do(w, state.EvalUpdate,
		&structs.EvalUpdateRequest{
			Evals: []*structs.Evaluation{{
				ID:     "stop",
				JobID:  "j",
				Status: structs.EvalComplete,
			}},
			WriteOptions: w.Now(),
		})
	w.wantJob("j", structs.JobDead, 1)
	wantKind(t, try(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "x"}), structs.KindNotFound)
}

func TestJobStatus_FollowsAllocationsAndEvals(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	eval := func(id, job, status string) {
		t.Helper()
		do(w, state.EvalUpdate,
			&structs.EvalUpdateRequest{
				Evals: []*structs.Evaluation{{
					ID:     id,
					JobID:  job,
					Status: status,
				}},
				WriteOptions: w.Now(),
			})
	}
	w.Job(aJob("batch", structs.JobBatch))
	w.wantJob("batch", structs.JobPending, 0)
	eval("1", "batch", structs.EvalPending)
	w.wantJob("batch", structs.JobPending, 0)
	w.Alloc("b", "batch", "n1")
	w.wantJob("batch", structs.JobRunning, 0)
	eval("1", "batch", structs.EvalComplete)
	w.Client("n1", "b", structs.AllocComplete)
	w.wantJob("batch", structs.JobPending, 0) // its evaluation is open
	for e := range state.EvalsByStatus(w.Store.Read(), structs.EvalPending) {
		eval(e.ID, "batch", structs.EvalComplete)
	}
	w.wantJob("batch", structs.JobDead, 0)
	w.Job(aJob("system", structs.JobSystem))
	eval("2", "system", structs.EvalComplete)
	w.wantJob("system", structs.JobRunning, 0) // though there may be no node for it
	eval("1", "system", structs.EvalPending)   // an evaluation does not change its job; if it does, both follow
	w.wantJob("batch", structs.JobDead, 0)
}

func TestJobSummary_CountsAllocations(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	for n, status := range []string{
		"", structs.AllocRunning, structs.AllocRunning, structs.AllocComplete,
		structs.AllocFailed,
	} {
		id := fmt.Sprint("a", n)
		w.Alloc(id, "j", "n1")
		if status != "" {
			w.Client("n1", id, status)
		}
	}
	w.Alloc("lost", "j", "n1")
	w.Stop("lost", structs.AllocLost)
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.Now(),
		Evals: []*structs.Evaluation{
			{
				ID:                "e",
				JobID:             "j",
				Status:            structs.EvalComplete,
				QueuedAllocations: map[string]int{"g": 3},
				FailedTGAllocs:    map[string]*structs.AllocMetric{"g": {}},
			},
			{
				ID:                "f",
				JobID:             "j",
				Status:            structs.EvalCancelled,
				QueuedAllocations: map[string]int{"g": 7},
			}},
	})
	tx := w.Store.Read()
	got := state.JobSummary(tx, state.Job(tx, "default", "j")).Summary["g"]
	if want := (structs.TaskGroupSummary{
		Queued:   3,
		Complete: 1,
		Failed:   1,
		Running:  2,
		Starting: 1,
		Lost:     1,
	}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A job that is registered again after a purge does not count the allocations of the purged job of its name.
func TestJobSummary_OmitsTheFormerJobOfTheID(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("old", "j", "n1")
	w.Client("n1", "old", structs.AllocFailed)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		Purge:        true,
		WriteOptions: w.Now(),
	})
	w.Job(aJob("j", structs.JobService))
	w.Alloc("new", "j", "n1")
	w.Client("n1", "new", structs.AllocRunning)
	tx := w.Store.Read()
	got := state.JobSummary(tx, state.Job(tx, "default", "j")).Summary["g"]
	if want := (structs.TaskGroupSummary{Running: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
