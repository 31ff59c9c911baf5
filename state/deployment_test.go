package state_test

import (
	"fmt"
	"testing"
	"time"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// deployment begins a deployment of the current version of a job.
func (w *fixture) deployment(id, job string, groups ...*structs.DeploymentState) *structs.Deployment {
	w.T.Helper()
	if len(groups) == 0 {
		groups = []*structs.DeploymentState{{DesiredTotal: 1, ProgressDeadline: time.Minute}}
	}
	j := state.Job(w.Store.Read(), "default", job)
	e := &structs.Evaluation{ID: "eval-" + id, JobID: job, Status: structs.EvalComplete}
	do(w, state.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: j.JobModifyIndex,
		Deployment: &structs.Deployment{
			ID:             id,
			JobID:          job,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			Status:         structs.DeploymentRunning,
			TaskGroups:     map[string]*structs.DeploymentState{"g": groups[0]},
		},
		WriteOptions: w.Now(),
	})
	return state.Deployment(w.Store.Read(), id)
}

// deployed places an allocation of a job in a deployment.
func (w *fixture) deployed(id, job, deployment string, canary bool) {
	w.T.Helper()
	j := state.Job(w.Store.Read(), "default", job)
	a := &structs.Allocation{
		ID:           id,
		Name:         structs.AllocName(job, "g", 0),
		NodeID:       "n1",
		JobID:        job,
		JobVersion:   j.Version,
		TaskGroup:    "g",
		DeploymentID: deployment,
	}
	if canary {
		a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
	}
	do(w, state.PlanApply, &structs.Plan{
		Eval:           &structs.Evaluation{ID: "eval-" + id, JobID: job, Status: structs.EvalComplete},
		JobModifyIndex: j.JobModifyIndex,
		Place:          []*structs.Allocation{a},
		WriteOptions:   w.Now(),
	})
}

func (w *fixture) reportHealth(id, deployment string, healthy bool) {
	w.T.Helper()
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		Allocs: []*structs.AllocClientUpdate{{
			ID:               id,
			ClientStatus:     structs.AllocRunning,
			DeploymentID:     deployment,
			DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: &healthy},
		}},
		WriteOptions: w.Now(),
	})
}

// onANode returns a fixture with a node and a job.
func onANode(t *testing.T) *fixture {
	w := newFixture(t)
	w.Node("n1")
	w.Job(jobWithSalt("j", 0))
	return w
}

func TestDeployment_CountsItsAllocations(t *testing.T) {
	w := onANode(t)
	w.deployment("d", "j")
	w.deployed("a", "j", "d", false)
	group := func() *structs.DeploymentState { return state.Deployment(w.Store.Read(), "d").TaskGroups["g"] }
	begun := group().RequireProgressBy
	if s := group(); s.PlacedAllocs != 1 || s.HealthyAllocs != 0 || begun.IsZero() {
		t.Errorf("after the placement: %+v", s)
	}
	w.reportHealth("a", "another", true) // of a former deployment
	if s := group(); s.HealthyAllocs != 0 {
		t.Errorf("after the report for another deployment: %+v", s)
	}
	w.reportHealth("a", "d", true)
	if s := group(); s.HealthyAllocs != 1 || !s.RequireProgressBy.After(begun) {
		t.Errorf("after the report: %+v", s)
	}
	if e := schema.EvalsByJob.First(w.Store.Read(), "default", "j", schema.OpenEval); e == nil ||
		e.TriggeredBy != structs.TriggerDeployment {
		t.Errorf("the evaluation is %+v", e)
	}
	w.reportHealth("a", "d", false)
	if s := group(); s.HealthyAllocs != 1 || s.UnhealthyAllocs != 0 {
		t.Errorf("a known health has changed: %+v", s)
	}
}

// An allocation that ends by itself renews no deadline.
func TestDeployment_RenewsItsDeadlineAfterALoss(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		w := onANode(t)
		w.deployment("d", "j")
		w.deployed("a", "j", "d", false)
		w.reportHealth("a", "d", true)
		before := state.Deployment(w.Store.Read(), "d").TaskGroups["g"].RequireProgressBy
		if stopped {
			w.Stop("a", structs.AllocLost)
		} else {
			w.Client("n1", "a", structs.AllocFailed)
		}
		s := state.Deployment(w.Store.Read(), "d").TaskGroups["g"]
		if renewed := s.RequireProgressBy.After(before); s.HealthyAllocs != 0 || renewed != stopped {
			t.Errorf("stopped %v: the deadline was %s, and the group is %+v", stopped, before, s)
		}
	}
}

// The health of an allocation in no deployment is for the drains of nodes. Once it is healthy, it stays so.
func TestAllocsClientUpdate_RecordsTheHealthWithoutADeployment(t *testing.T) {
	w := onANode(t)
	w.Alloc("a", "j", "n1")
	w.Alloc("b", "j", "n1")
	healthy := func(id string) bool { return state.Alloc(w.Store.Read(), id).DeploymentStatus.IsHealthy() }
	w.reportHealth("a", "d", true)
	if state.Alloc(w.Store.Read(), "a").DeploymentStatus.IsKnown() {
		t.Error("the health in another deployment counts")
	}
	w.reportHealth("a", "", true)
	w.reportHealth("a", "", false)
	w.reportHealth("b", "", false)
	if !healthy("a") || healthy("b") || !state.Alloc(w.Store.Read(), "b").DeploymentStatus.IsKnown() {
		t.Errorf("a is healthy: %v, b: %v", healthy("a"), healthy("b"))
	}
}

// Without a deployment, an unhealthy allocation becomes healthy when its node says so. In a deployment it is
// the fault of the new version, and stays.
func TestAllocsClientUpdate_RecordsARecoveryWithoutADeployment(t *testing.T) {
	for _, deployment := range []string{"", "d"} {
		w := onANode(t)
		w.deployment("d", "j")
		w.deployed("a", "j", deployment, false)
		w.reportHealth("a", deployment, false)
		w.reportHealth("a", "another", true)
		if !state.Alloc(w.Store.Read(), "a").DeploymentStatus.IsUnhealthy() {
			t.Errorf("in deployment %q: the health in another deployment counts", deployment)
		}
		w.reportHealth("a", deployment, true)
		if got := state.Alloc(w.Store.Read(), "a").DeploymentStatus.IsHealthy(); got != (deployment == "") {
			t.Errorf("in deployment %q: the allocation is healthy: %v", deployment, got)
		}
	}
}

func TestDeployment_KeepsItsAllocationsWhileActive(t *testing.T) {
	w := onANode(t)
	w.deployment("d", "j")
	w.deployed("a", "j", "d", false)
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		Allocs:       []*structs.AllocClientUpdate{{ID: "a", ClientStatus: structs.AllocFailed}},
		WriteOptions: w.Now(),
	})
	reap := &structs.ReapRequest{Allocs: []string{"a"}}
	do(w, state.Reap, reap)
	if state.Alloc(w.Store.Read(), "a") == nil {
		t.Error("an allocation that an active deployment counts is deleted")
	}
	w.Job(jobWithSalt("j", 1))
	if d := state.Deployment(w.Store.Read(), "d"); d.Status != structs.DeploymentCancelled {
		t.Errorf("after a newer version the deployment is %s", d.Status)
	}
	do(w, state.Reap, reap)
	if state.Alloc(w.Store.Read(), "a") != nil {
		t.Error("the allocation of an ended deployment stays")
	}
}

func TestDeploymentStatus_IgnoresAFormerRow(t *testing.T) {
	w := onANode(t)
	d := w.deployment("d", "j")
	w.deployed("a", "j", "d", false)
	p := &structs.DeploymentStatusRequest{WriteOptions: w.Now()}
	p.DeploymentID = "d"
	p.Status = structs.DeploymentFailed
	p.RowIndex = d.ModifyIndex
	do(w, state.DeploymentStatus, p)
	if d := state.Deployment(w.Store.Read(), "d"); d.Status != structs.DeploymentRunning {
		t.Errorf("a deadline that was extended has failed the deployment: %s", d.Status)
	}
	p.RowIndex = state.Deployment(w.Store.Read(), "d").ModifyIndex
	do(w, state.DeploymentStatus, p)
	if d := state.Deployment(w.Store.Read(), "d"); d.Status != structs.DeploymentFailed {
		t.Errorf("the deployment is %s", d.Status)
	}
	p.RowIndex = 0
	wantKind(t, try(w, state.DeploymentStatus, p), structs.KindPrecondition)
}

func TestJobVersions_KeepTheNewestStable(t *testing.T) {
	w := onANode(t)
	do(w, state.JobStable, &structs.JobStableRequest{JobID: "j", JobVersion: 0, Stable: true})
	for n := range 10 {
		w.Job(jobWithSalt("j", n+1))
	}
	j := state.Job(w.Store.Read(), "default", "j")
	if v := state.NewestStable(w.Store.Read(), j); v == nil || v.Version != 0 || j.Stable {
		t.Errorf("the stable version is %+v", v)
	}
	wantKind(t, try(w, state.JobStable, &structs.JobStableRequest{JobID: "j", JobVersion: 99}), structs.KindNotFound)
}

// A paused deployment promotes nothing by itself. Canaries that became healthy meanwhile are promoted when it
// goes on.
func TestDeployment_PromotesNoneWhilePaused(t *testing.T) {
	for _, paused := range []bool{false, true} {
		w := onANode(t)
		w.deployment("d", "j", &structs.DeploymentState{DesiredTotal: 2, DesiredCanaries: 1, AutoPromote: true})
		w.deployed("a", "j", "d", true)
		p := &structs.DeploymentStatusRequest{WriteOptions: w.Now()}
		p.DeploymentID = "d"
		p.Status = structs.DeploymentPaused
		if paused {
			do(w, state.DeploymentStatus, p)
		}
		w.reportHealth("a", "d", true)
		if promoted := state.Deployment(w.Store.Read(), "d").Group("g").Promoted; promoted == paused {
			t.Errorf("paused %v: promoted %v", paused, promoted)
		}
		p.Status = structs.DeploymentRunning
		do(w, state.DeploymentStatus, p)
		if !state.Deployment(w.Store.Read(), "d").Group("g").Promoted {
			t.Errorf("paused %v: nothing is promoted when it goes on", paused)
		}
	}
}

// A deployment that fails does not go back to a version from which the job may only be changed while it is
// stopped: nothing would stop the allocations of a service that becomes periodic.
func TestDeployment_RevertsToNoPeriodicVersion(t *testing.T) {
	w := onANode(t)
	w.Job(periodicJob("p", "@daily"))
	do(w, state.JobStable, &structs.JobStableRequest{JobID: "p", JobVersion: 0, Stable: true})
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "p", WriteOptions: w.Now()})
	w.Job(aJob("p", structs.JobService))
	version := state.Job(w.Store.Read(), "default", "p").Version
	w.deployment("d", "p", &structs.DeploymentState{DesiredTotal: 1, AutoRevert: true})
	w.deployed("a", "p", "d", false)
	w.reportHealth("a", "d", false)
	d := state.Deployment(w.Store.Read(), "d")
	why := structs.DeploymentFailedByAlloc + structs.DeploymentStableIsOther
	if d.Status != structs.DeploymentFailed || d.StatusDescription != why || d.RevertedVersion != nil {
		t.Errorf("the deployment is %s: %s", d.Status, d.StatusDescription)
	}
	if j := state.Job(w.Store.Read(), "default", "p"); j.Version != version || j.IsPeriodic() {
		t.Errorf("the job is at version %d, periodic: %t", j.Version, j.IsPeriodic())
	}
}

// A deployment that fails goes back to the newest stable version, as a revert by a user: under the rule that
// its namespace has now.
func TestDeployment_RevertsUnderTheRuleOfTheNamespace(t *testing.T) {
	cases := []struct {
		name             string
		stable, disabled bool
		reverts          bool
		why              string
	}{
		{"allowed", true, false, true, structs.DeploymentRollsBack + "0"},
		{"rejected by the namespace", true, true, false, structs.DeploymentStableIsRejected},
		{"without a stable version", false, false, false, structs.DeploymentHasNoStable},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := onANode(t)
			do(w, state.JobStable, &structs.JobStableRequest{JobID: "j", JobVersion: 0, Stable: c.stable})
			next := jobWithSalt("j", 1)
			next.TaskGroups[0].Tasks[0].Driver = "other"
			w.Job(next)
			w.deployment("d", "j", &structs.DeploymentState{DesiredTotal: 1, AutoRevert: true})
			w.deployed("a", "j", "d", false)
			if c.disabled {
				w.disableDriver(state.JobVersion(w.Store.Read(), "default", "j", 0).TaskGroups[0].Tasks[0].Driver)
			}
			w.reportHealth("a", "d", false)

			d := state.Deployment(w.Store.Read(), "d")
			if d.Status != structs.DeploymentFailed || d.StatusDescription != structs.DeploymentFailedByAlloc+c.why {
				t.Errorf("the deployment is %s: %s", d.Status, d.StatusDescription)
			}
			if got := d.RevertedVersion != nil; got != c.reverts {
				t.Errorf("the deployment reverts: %t", got)
			}
			version := uint64(1)
			if c.reverts {
				version = 2
			}
			if j := state.Job(w.Store.Read(), "default", "j"); j.Version != version {
				t.Errorf("the job is at version %d, want %d", j.Version, version)
			}
		})
	}
}

// The leader asks after each change of a deployment.
func TestCannotSucceed_CostsTheSameWithManyAllocations(t *testing.T) {
	cost := func(n int) float64 {
		w := newFixture(t)
		w.Node("n1")
		j := aJob("web", structs.JobService)
		j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{Unlimited: true}
		w.Job(j)
		w.deployment("d", "web", &structs.DeploymentState{DesiredTotal: n, ProgressDeadline: time.Minute})
		for i := range n {
			w.deployed(fmt.Sprint("a", i), "web", "d", false)
		}
		w.Client("n1", "a0", structs.AllocFailed)
		tx := w.Store.Read()
		d := state.Deployment(tx, "d")
		if d.TaskGroups["g"].UnhealthyAllocs != 1 {
			t.Fatalf("%+v", d.TaskGroups["g"])
		}
		return testing.AllocsPerRun(10, func() {
			if state.CannotSucceed(tx, d) {
				t.Error("the unhealthy allocation is replaced")
			}
		})
	}
	if few, many := cost(2), cost(100); many > few+2 {
		t.Errorf("%v heap allocations with 2 allocations, %v with 100", few, many)
	}
}

// An unhealthy allocation that leaves or is replaced may have a healthy successor, and a paused deployment
// ends by an operator.
func TestCannotSucceed_OnlyWithAnAllocationThatStays(t *testing.T) {
	fails := func(w *fixture) { w.Client("n1", "a", structs.AllocFailed) }
	for name, c := range map[string]struct {
		steps func(w *fixture)
		want  bool
	}{
		"stays": {fails, true},
		"moves": {func(w *fixture) {
			do(w, state.AllocsMigrate, &structs.AllocsMigrateRequest{AllocIDs: []string{"a"}, WriteOptions: w.Now()})
			fails(w)
		}, false},
		"stopped":  {func(w *fixture) { fails(w); w.Stop("a", "") }, false},
		"lost":     {func(w *fixture) { w.Client("n1", "a", structs.AllocLost) }, false},
		"replaced": {func(w *fixture) { fails(w); w.replace("a", "b", "n1") }, false},
		"paused": {func(w *fixture) {
			fails(w)
			p := &structs.DeploymentStatusRequest{WriteOptions: w.Now()}
			p.DeploymentID = "d"
			p.Status = structs.DeploymentPaused
			do(w, state.DeploymentStatus, p)
		}, false},
	} {
		w := newFixture(t)
		w.Node("n1")
		j := aJob("web", structs.JobService)
		j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{}
		w.Job(j)
		w.deployment("d", "web")
		w.deployed("a", "web", "d", false)
		c.steps(w)
		tx := w.Store.Read()
		if got := state.CannotSucceed(tx, state.Deployment(tx, "d")); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
