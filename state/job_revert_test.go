package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// revert makes a version of a job the newest one.
func (w *fixture) revert(id string, version uint64) *structs.Job {
	w.T.Helper()
	do(w, func(tx *state.WriteTx, _ *structs.WriteRequest) error {
		j := state.Job(tx, structs.DefaultNamespace, id)
		state.RevertJob(tx, j, state.JobVersion(tx, j.Namespace, id, version), 5)
		return nil
	}, &structs.WriteRequest{})
	return state.Job(w.Store.Read(), structs.DefaultNamespace, id)
}

func TestRevertJob_MakesAnEarlierVersionTheNewest(t *testing.T) {
	w := newFixture(t)
	source := &structs.JobSubmission{Source: "job j", Format: "hcl2"}
	do(w, state.JobRegister, &structs.JobRegisterRequest{Job: jobWithSalt("j", 0), Submission: source})
	first := state.Job(w.Store.Read(), "default", "j")
	w.Job(jobWithSalt("j", 1))
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j"})
	j := w.revert("j", 0)
	if j.Version != 3 || j.Meta["salt"] != "0" || j.Stop || j.JobModifyIndex != w.Index || j.SubmitTime != 5 ||
		j.CreateIndex != first.CreateIndex {
		t.Errorf("the job is %+v", j)
	}
	s := state.JobSubmission(w.Store.Read(), "default", "j", 3)
	if s == nil || s.Source != source.Source || s.JobModifyIndex != w.Index {
		t.Errorf("its source is %+v", s)
	}
	if state.NewestStable(w.Store.Read(), j) != nil {
		t.Error("a version is stable that nobody has called so")
	}
}

// A deployment of a job that is registered again after a purge goes back to no version of the purged job,
// although its allocations keep them.
func TestJobDeregister_LeavesNoVersionOfAPurgedJobStable(t *testing.T) {
	w := onANode(t)
	w.Alloc("old", "j", "n1")
	do(w, state.JobStable, &structs.JobStableRequest{JobID: "j", Stable: true})
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", Purge: true, WriteOptions: w.Now()})
	w.Job(jobWithSalt("j", 1))
	w.deployment("d", "j", &structs.DeploymentState{DesiredTotal: 1, AutoRevert: true})
	w.deployed("a", "j", "d", false)
	w.reportHealth("a", "d", false)
	d := state.Deployment(w.Store.Read(), "d")
	if d.StatusDescription != structs.DeploymentFailedByAlloc+structs.DeploymentHasNoStable {
		t.Errorf("the deployment is %s: %s", d.Status, d.StatusDescription)
	}
	if j := state.Job(w.Store.Read(), "default", "j"); j.Meta["salt"] != "1" {
		t.Errorf("the job is at version %d with %v", j.Version, j.Meta)
	}
}

// A stop keeps what is known of the versions: the job may be started again.
func TestJobDeregister_KeepsTheStableVersionOfAStoppedJob(t *testing.T) {
	w := onANode(t)
	w.Alloc("a", "j", "n1")
	do(w, state.JobStable, &structs.JobStableRequest{JobID: "j", Stable: true})
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", WriteOptions: w.Now()})
	if !state.JobVersion(w.Store.Read(), "default", "j", 0).Stable {
		t.Error("the version is not stable any more")
	}
}

func TestJobReschedule_MarksFailedAllocationsWithoutASuccessor(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Job(jobWithSalt("j", 0))
	w.Alloc("old", "j", "n1")
	w.Client("n1", "old", structs.AllocFailed)
	w.Job(jobWithSalt("j", 1))
	for _, id := range []string{"failed", "complete", "running", "stopped", "replaced"} {
		w.Alloc(id, "j", "n1")
	}
	w.Client("n1", "replaced", structs.AllocFailed)
	plan := w.Plan(state.Job(w.Store.Read(), "default", "j"))
	plan.Place = []*structs.Allocation{state.Alloc(w.Store.Read(), "running").Copy()}
	plan.Place[0].ID = "successor"
	plan.Place[0].PreviousAllocation = "replaced"
	do(w, state.PlanApply, plan)
	w.Client("n1", "failed", structs.AllocFailed)
	w.Client("n1", "complete", structs.AllocComplete)
	w.Client("n1", "running", structs.AllocRunning)
	w.Stop("stopped", structs.AllocFailed)
	j := state.Job(w.Store.Read(), "default", "j")
	e := structs.NewEval(j, structs.TriggerManual, 5)
	e.ID = structs.NewID()
	do(w, state.JobReschedule, &structs.JobEvaluateRequest{JobID: "j", Eval: e, WriteOptions: w.Now()})
	for _, id := range []string{"old", "failed", "complete", "running", "stopped", "replaced", "successor"} {
		if got := state.Alloc(w.Store.Read(), id).Migrate; got != (id == "failed") {
			t.Errorf("%s is to be replaced: %t", id, got)
		}
	}
	if stored := state.Eval(w.Store.Read(), e.ID); stored == nil || stored.Status != structs.EvalPending {
		t.Errorf("evaluation %+v", stored)
	}
	wantKind(t, try(w, state.JobReschedule, &structs.JobEvaluateRequest{JobID: "none"}), structs.KindNotFound)
}
