package interop

import (
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/structs"
)

// TestClient_ReadsPlans reads every part of a plan: the annotations, the difference and the displaced
// allocations.
func TestClient_ReadsPlans(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	apitest.Answer(caller, structs.JobPlan, structs.JobPlanResponse{
		JobModifyIndex: 7,
		Annotations: &structs.PlanAnnotations{
			DesiredTGUpdates: map[string]*structs.DesiredUpdates{"g": {
				Ignore: 1, Place: 2, Migrate: 3, Stop: 4, InPlaceUpdate: 5, DestructiveUpdate: 6, Canary: 7,
				Preemptions: 8,
			}},
			PreemptedAllocs: []*structs.AllocListStub{{
				ID: "a1", JobID: "low", Namespace: "default", JobType: "batch", TaskGroup: "app",
			}},
		},
		Diff: &structs.JobDiff{
			Type: structs.DiffEdited,
			ID:   "web",
			TaskGroups: []*structs.TaskGroupDiff{{
				Type:    structs.DiffEdited,
				Name:    "g",
				Updates: map[string]uint64{structs.UpdateCanary: 7, structs.UpdatePreemptions: 8},
			}},
		},
		FailedTGAllocs: map[string]*structs.AllocMetric{"g": {NodesEvaluated: 3, NodesExhausted: 2}},
		CreatedEvals: []*structs.Evaluation{{ID: "e1", Status: structs.EvalBlocked}, {
			ID: "e2", TriggeredBy: structs.TriggerRollingUpdate, CreateTime: 1e9, WaitUntil: 31e9,
		}},
		Warnings: "careful",
	})
	plan, _, err := c.Jobs().Plan(fullJob(), true, nil)
	if !checkNoError(t, "plan", err) {
		return
	}
	u := plan.Annotations.DesiredTGUpdates["g"]
	if *u != (public.DesiredUpdates{Ignore: 1, Place: 2, Migrate: 3, Stop: 4, InPlaceUpdate: 5,
		DestructiveUpdate: 6, Canary: 7, Preemptions: 8}) {
		t.Errorf("the annotations arrive as %+v", u)
	}
	if len(plan.Annotations.PreemptedAllocs) != 1 {
		t.Fatalf("the displaced allocations arrive as %+v", plan.Annotations.PreemptedAllocs)
	}
	a := plan.Annotations.PreemptedAllocs[0]
	if a.ID != "a1" || a.JobID != "low" || a.Namespace != "default" || a.JobType != "batch" ||
		a.TaskGroup != "app" {
		t.Errorf("the displaced allocation arrives as %+v", a)
	}
	g := plan.Diff.TaskGroups[0]
	if plan.Diff.ID != "web" || g.Name != "g" || g.Updates["canary"] != 7 || g.Updates["preemptions"] != 8 {
		t.Errorf("the difference arrives as %+v with %+v", plan.Diff, g)
	}
	if !plan.NextPeriodicLaunch.IsZero() {
		t.Errorf("a next launch arrives at %s", plan.NextPeriodicLaunch)
	}
	if plan.JobModifyIndex != 7 || plan.FailedTGAllocs["g"].NodesExhausted != 2 || plan.Warnings != "careful" ||
		len(plan.CreatedEvals) != 2 || plan.CreatedEvals[0].Status != "blocked" {
		t.Fatalf("the plan arrives as %+v", plan)
	}
	if batch := plan.CreatedEvals[1]; batch.TriggeredBy != "rolling-update" || batch.Wait != 30*time.Second ||
		plan.CreatedEvals[0].Wait != 0 {
		t.Errorf("the next batch arrives as %+v", batch)
	}
}
