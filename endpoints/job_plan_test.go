package endpoints

import (
	"testing"

	"berth/structs"
)

func TestJobPlan_ShowsTheEffectsAndChangesNothing(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "")
	job := testJob("j")
	job.TaskGroups[0].Volumes = nil
	index := s.store.Index()
	planned := must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job, Diff: true})
	if planned.JobModifyIndex != 0 || planned.Diff.Type != structs.DiffAdded {
		t.Errorf("a new job is planned at index %d, with a difference of type %s",
			planned.JobModifyIndex, planned.Diff.Type)
	}
	if u := planned.Annotations.DesiredTGUpdates["g"]; u == nil || u.Place != 1 {
		t.Errorf("the annotations are %+v", planned.Annotations)
	}
	if s.store.Index() != index {
		t.Error("the plan was written")
	}
	registered := must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	same := must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job, Diff: true})
	if same.JobModifyIndex != registered.JobModifyIndex || same.Diff.Type != structs.DiffNone {
		t.Errorf("the same job is planned at index %d, with the type %s", same.JobModifyIndex, same.Diff.Type)
	}
	job.TaskGroups[0].Count = 7
	job.TaskGroups[0].Tasks[0].Driver = "none"
	edited := must(s, structs.JobPlan, &structs.JobPlanRequest{Job: job})
	if edited.Diff != nil || len(edited.FailedTGAllocs) != 1 || len(edited.CreatedEvals) != 1 {
		t.Errorf("a job without a place is planned as %+v", edited)
	}
	job.Priority = 1000
	refused(s, structs.KindInvalid, structs.JobPlan, &structs.JobPlanRequest{Job: job})
	refused(s, structs.KindInvalid, structs.JobPlan, &structs.JobPlanRequest{})
}

func TestJobVersions_HaveDifferences(t *testing.T) {
	s := newServer(t)
	for count := range 3 {
		job := testJob("j")
		job.TaskGroups[0].Count = count
		must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	}
	if got := must(s, structs.JobVersions, &structs.JobGetRequest{JobID: "j"}); got.Diffs != nil {
		t.Error("there are differences that nobody has asked for")
	}
	got := must(s, structs.JobVersions, &structs.JobGetRequest{JobID: "j", Diffs: true})
	if len(got.Versions) != 3 || len(got.Diffs) != 2 {
		t.Fatalf("%d versions have %d differences", len(got.Versions), len(got.Diffs))
	}
	for _, f := range got.Diffs[0].TaskGroups[0].Fields {
		if f.Name == "Count" && (f.Old != "1" || f.New != "2") {
			t.Errorf("the newest difference is %+v", f)
		}
	}
}
