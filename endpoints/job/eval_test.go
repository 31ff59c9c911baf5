package job_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

func TestJobRegister_PreservesCounts(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "web")
	endpointstest.Must(s, structs.JobScale,
		&structs.JobScaleRequest{JobID: "web", Group: "g", Count: new(int64(5))})
	job := jobRow(s, "web").Copy()
	change := *job.TaskGroups[0]
	change.Count = 2
	added := change
	added.Name = "new"
	job.TaskGroups = []*structs.TaskGroup{&change, &added}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job, PreserveCounts: true})
	got := jobRow(s, "web")
	if got.Group("g").Count != 5 || got.Group("new").Count != 2 {
		t.Errorf("got the counts %d and %d, want 5 and 2", got.Group("g").Count, got.Group("new").Count)
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	if count := jobRow(s, "web").Group("g").Count; count != 2 {
		t.Errorf("without the option: got the count %d, want 2", count)
	}
}

func TestJob_EvaluatesWithAnotherPriority(t *testing.T) {
	s := endpointstest.New(t)
	job := addJob(s, "web")
	registered := endpointstest.Must(s, structs.JobRegister,
		&structs.JobRegisterRequest{Job: job, EvalPriority: 80})
	ended := endpointstest.Must(s, structs.JobDeregister,
		&structs.JobDeregisterRequest{JobID: "web", EvalPriority: 90})
	if evalRow(s, registered.EvalID).Priority != 80 || evalRow(s, ended.EvalID).Priority != 90 {
		t.Errorf("got %+v and %+v", evalRow(s, registered.EvalID), evalRow(s, ended.EvalID))
	}
	if priority := jobRow(s, "web").Priority; priority != 50 {
		t.Errorf("the job has the priority %d", priority)
	}
	for _, priority := range []int{-1, 101} {
		endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister,
			&structs.JobRegisterRequest{Job: job, EvalPriority: priority})
		endpointstest.Rejected(s, structs.KindInvalid, structs.JobDeregister,
			&structs.JobDeregisterRequest{JobID: "web", EvalPriority: priority})
	}
}

func TestJobEvaluate_ReplacesFailedAllocations(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("failed", "n1")
	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Allocs:   []*structs.AllocClientUpdate{{ID: "failed", ClientStatus: structs.AllocFailed}},
	})
	migrates := func() bool { return state.Alloc(s.Store.Read(), "failed").Migrate }
	endpointstest.Must(s, structs.JobEvaluate, &structs.JobEvaluateRequest{JobID: "job-failed"})
	if migrates() {
		t.Error("an evaluation without the option replaces an allocation")
	}
	got := endpointstest.Must(s, structs.JobEvaluate,
		&structs.JobEvaluateRequest{JobID: "job-failed", ForceReschedule: true})
	e := evalRow(s, got.EvalID)
	if !migrates() || e.JobID != "job-failed" || e.TriggeredBy != structs.TriggerManual {
		t.Errorf("to be replaced: %t; evaluation %+v", migrates(), e)
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobEvaluate,
		&structs.JobEvaluateRequest{JobID: "none", ForceReschedule: true})
}

func TestEvalList_SelectsAJobAndAStatus(t *testing.T) {
	s := endpointstest.New(t)
	for range 3 {
		twoVersions(s, "web")
	}
	addJob(s, "db")
	all := endpointstest.Must(s, structs.EvalList, &structs.EvalListRequest{}).Evaluations
	done := all[0].Copy()
	for _, e := range all {
		if e.JobID == "web" {
			done = e.Copy()
		}
	}
	done.Status = structs.EvalComplete
	endpointstest.MustPropose(s, fsm.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{done}})
	for _, ns := range []string{"", structs.AllNamespaces} {
		count := func(job, status string) int {
			t.Helper()
			return len(endpointstest.Must(s, structs.EvalList, &structs.EvalListRequest{
				JobID:        job,
				Status:       status,
				QueryOptions: structs.QueryOptions{Namespace: ns},
			}).Evaluations)
		}
		ofWeb := 0
		for _, e := range all {
			if e.JobID == "web" {
				ofWeb++
			}
		}
		if count("web", "") != ofWeb || count("db", "") != 1 || count("none", "") != 0 {
			t.Errorf("of the jobs: %d, %d and %d, want %d, 1 and 0",
				count("web", ""), count("db", ""), count("none", ""), ofWeb)
		}
		if count("web", structs.EvalComplete) != 1 || count("", structs.EvalComplete) != 1 ||
			count("db", structs.EvalComplete) != 0 {
			t.Errorf("complete: %d of web, %d of all, %d of db",
				count("web", structs.EvalComplete), count("", structs.EvalComplete), count("db", structs.EvalComplete))
		}
	}
}
