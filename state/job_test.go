package state_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/structs"
)

func (w *fixture) wantJob(id, status string, version uint64) *structs.Job {
	w.t.Helper()
	j := state.Job(w.s.Read(), structs.DefaultNamespace, id)
	if j == nil || j.Status != status || j.Version != version {
		w.t.Errorf("at index %d: job %s is %+v, want %s at version %d", w.index, id, j, status, version)
	}
	return j
}

func (w *fixture) versions(id string) (out []uint64) {
	for j := range state.JobVersions(w.s.Read(), structs.DefaultNamespace, id) {
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
		WriteOptions: w.now(),
	})
	j := w.wantJob("j", structs.JobPending, 0)
	if got := state.Eval(w.s.Read(), "e"); got.JobModifyIndex != w.index ||
		got.JobID != "j" ||
		got.Type != structs.JobService || got.Priority != 50 || got.Status != structs.EvalPending {
		t.Errorf("the evaluation is %+v", got)
	}
	w.job(jobWithSalt("j", 1))
	if state.Job(w.s.Read(), "default", "j") != j {
		t.Error("an equal specification was put again")
	}
	again := w.job(jobWithSalt("j", 2))
	w.wantJob("j", structs.JobPending, 1)
	if again.JobModifyIndex != w.index || again.CreateIndex != j.CreateIndex {
		t.Errorf("the new version is %+v", again)
	}
	old := state.JobVersion(w.s.Read(), "default", "j", 0)
	if old.Meta["salt"] != "1" {
		t.Errorf("the old version is %+v", old)
	}
	fetched := again.Copy() // a job that a user reads, edits and writes back keeps the values of the servers
	fetched.Status, fetched.SubmitTime = structs.JobRunning, 7
	if w.job(fetched) != again {
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
			WriteOptions:   w.now(),
		})
	}
	wantKind(t, enforce(5, 1), structs.KindConflict)
	wantKind(t, enforce(0, 1), "")
	wantKind(t, enforce(0, 2), structs.KindConflict)
	at := state.Job(w.s.Read(), "default", "j").JobModifyIndex
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
	w.node("n1")
	w.job(jobWithSalt("j", 0))
	w.alloc("a", "j", "n1") // of version 0
	for n := range 10 {
		w.job(jobWithSalt("j", n+1))
	}
	if got := fmt.Sprint(w.versions("j")); got != "[0 4 5 6 7 8 9 10]" {
		t.Errorf("got versions %s, want the used and the newest", got)
	}
	a := state.AllocWithJob(w.s.Read(), state.Alloc(w.s.Read(), "a"))
	if a.Job == nil || a.Job.Meta["salt"] != "0" {
		t.Errorf("the job of the allocation is %+v", a.Job)
	}
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		Purge:        true,
		WriteOptions: w.now(),
	})
	if got := fmt.Sprint(w.versions("j")); got != "[0]" {
		t.Errorf("got versions %s, want [0]", got)
	}
	w.job(jobWithSalt("j", 99)) // the number of its version is not that of the allocation's version
	w.wantJob("j", structs.JobRunning, 1)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		Purge:        true,
		WriteOptions: w.now(),
	})
	w.client("n1", "a", structs.AllocComplete)
	do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"a"}, WriteOptions: w.now()})
	if got := w.versions("j"); got != nil {
		t.Errorf("got versions %v of a deleted job", got)
	}
}

func TestJobDeregister_StopsAndPurges(t *testing.T) {
	w := newFixture(t)
	w.node("n1")
	w.alloc("a", "j", "n1")
	w.blocked("j", structs.WakeCapacity)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		WriteOptions: w.now(),
		Eval:         &structs.Evaluation{ID: "stop", TriggeredBy: structs.TriggerJobDeregister},
	})
	j := w.wantJob("j", structs.JobRunning, 1)
	if !j.Stop {
		t.Error("the job is not stopped")
	}
	w.wantEval("blocked-j", structs.EvalCancelled)
	w.wantEval("stop", structs.EvalPending)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", WriteOptions: w.now()})
	w.wantJob("j", structs.JobRunning, 1)
	w.stop("a", "")
	w.wantJob("j", structs.JobPending, 1)
	do(w, state.EvalUpdate,
		&structs.EvalUpdateRequest{
			Evals: []*structs.Evaluation{{
				ID:     "stop",
				JobID:  "j",
				Status: structs.EvalComplete,
			}},
			WriteOptions: w.now(),
		})
	w.wantJob("j", structs.JobDead, 1)
	wantKind(t, try(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "x"}), structs.KindNotFound)
}

func TestJobStatus_FollowsAllocationsAndEvals(t *testing.T) {
	w := newFixture(t)
	w.node("n1")
	eval := func(id, job, status string) {
		t.Helper()
		do(w, state.EvalUpdate,
			&structs.EvalUpdateRequest{
				Evals: []*structs.Evaluation{{
					ID:     id,
					JobID:  job,
					Status: status,
				}},
				WriteOptions: w.now(),
			})
	}
	w.job(aJob("batch", structs.JobBatch))
	w.wantJob("batch", structs.JobPending, 0)
	eval("1", "batch", structs.EvalPending)
	w.wantJob("batch", structs.JobPending, 0)
	w.alloc("b", "batch", "n1")
	w.wantJob("batch", structs.JobRunning, 0)
	eval("1", "batch", structs.EvalComplete)
	w.client("n1", "b", structs.AllocComplete)
	w.wantJob("batch", structs.JobPending, 0) // its evaluation is open
	for e := range state.EvalsByStatus(w.s.Read(), structs.EvalPending) {
		eval(e.ID, "batch", structs.EvalComplete)
	}
	w.wantJob("batch", structs.JobDead, 0)
	w.job(aJob("system", structs.JobSystem))
	eval("2", "system", structs.EvalComplete)
	w.wantJob("system", structs.JobRunning, 0) // though there may be no node for it
	eval("1", "system", structs.EvalPending)   // an evaluation does not change its job; if it does, both follow
	w.wantJob("batch", structs.JobDead, 0)
}

func TestJobSummary_CountsAllocations(t *testing.T) {
	w := newFixture(t)
	w.node("n1")
	for n, status := range []string{
		"", structs.AllocRunning, structs.AllocRunning, structs.AllocComplete,
		structs.AllocFailed,
	} {
		id := fmt.Sprint("a", n)
		w.alloc(id, "j", "n1")
		if status != "" {
			w.client("n1", id, status)
		}
	}
	w.alloc("lost", "j", "n1")
	w.stop("lost", structs.AllocLost)
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
		WriteOptions: w.now(),
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
	tx := w.s.Read()
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
	w.node("n1")
	w.alloc("old", "j", "n1")
	w.client("n1", "old", structs.AllocFailed)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		Purge:        true,
		WriteOptions: w.now(),
	})
	w.job(aJob("j", structs.JobService))
	w.alloc("new", "j", "n1")
	w.client("n1", "new", structs.AllocRunning)
	tx := w.s.Read()
	got := state.JobSummary(tx, state.Job(tx, "default", "j")).Summary["g"]
	if want := (structs.TaskGroupSummary{Running: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
