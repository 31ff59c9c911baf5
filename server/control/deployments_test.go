package control

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// addDeployment begins the deployment of a job whose allocation a1 is not healthy, and which fails without
// progress.
func (w *testEnv) addDeployment(id string, deadline time.Duration, policy *structs.ReschedulePolicy) {
	w.t.Helper()
	group := &structs.TaskGroup{Name: "g", Count: 1, ReschedulePolicy: policy}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{
		Job:          &structs.Job{ID: "web", Type: structs.JobService, TaskGroups: []*structs.TaskGroup{group}},
		WriteOptions: now(),
	})
	job := state.Job(w.Store.Read(), "default", "web")
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: job.JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e-" + id, JobID: "web", Status: structs.EvalComplete},
		Deployment: &structs.Deployment{
			ID:     id,
			JobID:  "web",
			Status: structs.DeploymentRunning,
			TaskGroups: map[string]*structs.DeploymentState{
				"g": {DesiredTotal: 1, ProgressDeadline: deadline},
			},
		},
		Place: []*structs.Allocation{{
			ID:           "a1",
			JobID:        "web",
			TaskGroup:    "g",
			NodeID:       "n1",
			DeploymentID: id,
		}},
	})
}

// A deployment fails at its deadline, whether it began before the loop or while the loop runs.
func TestDeploymentLoop_FailsADeploymentAtItsDeadline(t *testing.T) {
	for name, begin := range map[string]func(w *testEnv) (stop func()){
		"that began before the leadership": func(w *testEnv) func() {
			w.addDeployment("d1", time.Minute, nil)
			return w.runLoop("deployments")
		},
		"that begins during the leadership": func(w *testEnv) func() {
			stop := w.runLoop("deployments")
			after(time.Second)
			w.addDeployment("d1", time.Minute, nil)
			return stop
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", false)
				defer begin(w)()
				after(59 * time.Second)
				d := state.Deployment(w.Store.Read(), "d1")
				if d.Status != structs.DeploymentRunning {
					t.Fatalf("the deployment is %s before its deadline", d.Status)
				}
				after(2 * time.Second)
				d = state.Deployment(w.Store.Read(), "d1")
				if d.Status != structs.DeploymentFailed || d.StatusDescription != structs.DeploymentFailedByDeadline {
					t.Errorf("the deployment is %s (%s) after its deadline", d.Status, d.StatusDescription)
				}
				w.check()
			})
		})
	}
}

// A deployment fails at once if nothing replaces its unhealthy allocation, because its group is not
// rescheduled. A group that is rescheduled, or loses the allocation with its node, has until its deadline.
func TestDeploymentLoop_FailsADeploymentThatCannotSucceed(t *testing.T) {
	unlimited := &structs.ReschedulePolicy{Unlimited: true, Delay: time.Hour}
	for name, c := range map[string]struct {
		policy *structs.ReschedulePolicy
		status string
		want   string
	}{
		"not rescheduled":       {&structs.ReschedulePolicy{}, structs.AllocFailed, structs.DeploymentFailed},
		"rescheduled":           {unlimited, structs.AllocFailed, structs.DeploymentRunning},
		"not rescheduled, runs": {&structs.ReschedulePolicy{}, structs.AllocRunning, structs.DeploymentRunning},
		"not rescheduled, lost": {&structs.ReschedulePolicy{}, structs.AllocLost, structs.DeploymentRunning},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", false)
				defer w.runLoop("deployments")()
				w.addDeployment("d1", time.Minute, c.policy)
				put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
					NodeID:       "n1",
					Allocs:       []*structs.AllocClientUpdate{{ID: "a1", ClientStatus: c.status}},
					WriteOptions: now(),
				})
				after(time.Second)
				d := state.Deployment(w.Store.Read(), "d1")
				if d.Status != c.want {
					t.Errorf("the deployment is %s (%s), want %s", d.Status, d.StatusDescription, c.want)
				}
				if c.want == structs.DeploymentFailed && d.StatusDescription != structs.DeploymentFailedByAlloc {
					t.Errorf("the deployment failed: %s", d.StatusDescription)
				}
				w.check()
			})
		})
	}
}

// Groups with auto_promote are promoted although others of the deployment wait for an operator, once the
// operator has promoted these.
func TestDeploymentLoop_PromotesWhatNoLongerWaitsForOthers(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", false)
		groups := map[string]*structs.DeploymentState{
			"auto":   {DesiredTotal: 1, DesiredCanaries: 1, AutoPromote: true},
			"manual": {DesiredTotal: 1, DesiredCanaries: 1},
		}
		w.addCanaries("d1", groups)
		defer w.runLoop("deployments")()
		after(time.Second)
		put(w, fsm.DeploymentPromote, &structs.DeploymentPromoteRequest{
			DeploymentID: "d1",
			Groups:       []string{"manual"},
			WriteOptions: now(),
		})
		after(time.Second)
		d := state.Deployment(w.Store.Read(), "d1")
		if d.AwaitsPromotion() {
			t.Errorf("the deployment waits for a promotion: %s", d.StatusDescription)
		}
		w.check()
	})
}

// addCanaries begins the deployment of a job whose groups have one healthy canary each.
func (w *testEnv) addCanaries(id string, groups map[string]*structs.DeploymentState) {
	w.t.Helper()
	job := &structs.Job{ID: "web", Type: structs.JobService}
	var canaries []*structs.Allocation
	for name := range groups {
		job.TaskGroups = append(job.TaskGroups, &structs.TaskGroup{Name: name, Count: 1})
		canaries = append(canaries, &structs.Allocation{
			ID:               "canary-" + name,
			JobID:            "web",
			TaskGroup:        name,
			NodeID:           "n1",
			DeploymentID:     id,
			DeploymentStatus: &structs.AllocDeploymentStatus{Canary: true},
		})
	}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{Job: job, WriteOptions: now()})
	put(w, fsm.PlanApply, &structs.Plan{
		WriteOptions:   now(),
		JobModifyIndex: state.Job(w.Store.Read(), "default", "web").JobModifyIndex,
		Eval:           &structs.Evaluation{ID: "e", JobID: "web", Status: structs.EvalComplete},
		Deployment:     &structs.Deployment{ID: id, JobID: "web", Status: structs.DeploymentRunning, TaskGroups: groups},
		Place:          canaries,
	})
	health := &structs.DeploymentHealthRequest{DeploymentID: id, WriteOptions: now()}
	for _, a := range canaries {
		health.HealthyAllocationIDs = append(health.HealthyAllocationIDs, a.ID)
	}
	put(w, fsm.DeploymentHealth, health)
}
