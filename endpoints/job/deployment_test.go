package job_test

import (
	"testing"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// addDeployment registers a job whose newest version has a deployment that awaits the promotion of a canary.
func (s *server) addDeployment(job, id string) {
	s.T.Helper()
	must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: testJob(job)})
	j := state.Job(s.Store.Read(), structs.DefaultNamespace, job)
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           &structs.Evaluation{ID: "eval-" + id, JobID: job, Status: structs.EvalComplete},
		JobModifyIndex: j.JobModifyIndex,
		Deployment: &structs.Deployment{
			ID:             id,
			Namespace:      structs.DefaultNamespace,
			JobID:          job,
			JobVersion:     j.Version,
			JobCreateIndex: j.CreateIndex,
			Status:         structs.DeploymentRunning,
			TaskGroups:     map[string]*structs.DeploymentState{"g": {DesiredTotal: 1, DesiredCanaries: 1}},
		},
	})
}

func (s *server) wantDeployment(id, status string) {
	s.T.Helper()
	if d := state.Deployment(s.Store.Read(), id); d.Status != status {
		s.T.Fatalf("deployment %s is %s, want %s", id, d.Status, status)
	}
}

func TestDeployment_Writes(t *testing.T) {
	s := newServer(t)
	s.addDeployment("j", "d")
	pause := &structs.DeploymentPauseRequest{DeploymentID: "d", Pause: true}
	got := must(s, structs.DeploymentPause, pause)
	s.wantDeployment("d", structs.DeploymentPaused)
	e := state.Eval(s.Store.Read(), got.EvalID)
	if e == nil || e.JobID != "j" || e.TriggeredBy != structs.TriggerDeployment || got.EvalCreateIndex == 0 ||
		got.DeploymentModifyIndex != state.Deployment(s.Store.Read(), "d").ModifyIndex {
		t.Errorf("the answer %+v, its evaluation %+v", got, e)
	}
	must(s, structs.DeploymentPause, &structs.DeploymentPauseRequest{DeploymentID: "d"})
	s.wantDeployment("d", structs.DeploymentRunning)
	must(s, structs.DeploymentFail, &structs.DeploymentFailRequest{DeploymentID: "d"})
	s.wantDeployment("d", structs.DeploymentFailed)
	if d := state.Deployment(s.Store.Read(), "d"); d.StatusDescription != structs.DeploymentFailedByUser {
		t.Errorf("it failed: %s", d.StatusDescription)
	}
}

// Requests for a deployment in another state, and those that name what it does not have, are rejected.
func TestDeployment_RejectsWrites(t *testing.T) {
	promote := &structs.DeploymentPromoteRequest{DeploymentID: "d", All: true}
	unhealthy := &structs.DeploymentHealthRequest{DeploymentID: "d", UnhealthyAllocationIDs: []string{"a"}}
	s := newServer(t)
	s.addDeployment("j", "d")
	wantText(t, rejected(s, structs.KindPrecondition, structs.DeploymentPromote, promote),
		`group "g" has 0 of 1 healthy canaries`)
	wantText(t, rejected(s, structs.KindInvalid, structs.DeploymentPromote,
		&structs.DeploymentPromoteRequest{DeploymentID: "d", Groups: []string{"x"}}), `no group "x"`)
	wantText(t, rejected(s, structs.KindInvalid, structs.DeploymentPromote,
		&structs.DeploymentPromoteRequest{DeploymentID: "d", Groups: make([]string, structs.MaxGroups+1)}), "at most")
	wantText(t, rejected(s, structs.KindInvalid, structs.DeploymentSetHealth, unhealthy), `no allocation "a"`)
	wantText(t, rejected(s, structs.KindInvalid, structs.DeploymentSetHealth,
		&structs.DeploymentHealthRequest{DeploymentID: "d"}), "names 0 allocations")
	unblock := &structs.DeploymentFailRequest{DeploymentID: "d"}
	if got := must(s, structs.DeploymentUnblock, unblock); got.EvalID != "" || got.DeploymentModifyIndex == 0 {
		t.Errorf("unblocked: %+v", got)
	}

	fail := &structs.DeploymentFailRequest{DeploymentID: "d"}
	must(s, structs.DeploymentFail, fail)
	for _, err := range []error{
		rejected(s, structs.KindPrecondition, structs.DeploymentFail, fail),
		rejected(s, structs.KindPrecondition, structs.DeploymentPromote, promote),
		rejected(s, structs.KindPrecondition, structs.DeploymentUnblock, unblock),
		rejected(s, structs.KindPrecondition, structs.DeploymentSetHealth, unhealthy),
		rejected(s, structs.KindPrecondition, structs.DeploymentPause,
			&structs.DeploymentPauseRequest{DeploymentID: "d", Pause: true}),
	} {
		wantText(t, err, `deployment "d" has ended: it is failed`)
	}
	for _, err := range []error{
		rejected(s, structs.KindNotFound, structs.DeploymentFail,
			&structs.DeploymentFailRequest{DeploymentID: "x"}),
		rejected(s, structs.KindNotFound, structs.DeploymentUnblock,
			&structs.DeploymentFailRequest{DeploymentID: "x"}),
		rejected(s, structs.KindNotFound, structs.DeploymentPause,
			&structs.DeploymentPauseRequest{DeploymentID: "x"}),
		rejected(s, structs.KindNotFound, structs.DeploymentPromote,
			&structs.DeploymentPromoteRequest{DeploymentID: "x", All: true}),
	} {
		wantText(t, err, `there is no deployment "x"`)
	}
}

// A promotion without canaries that wait for it evaluates the job, and nothing else.
func TestDeployment_PromotionWithoutCanaries(t *testing.T) {
	s := newServer(t)
	must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: testJob("j")})
	j := state.Job(s.Store.Read(), structs.DefaultNamespace, "j")
	mustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           &structs.Evaluation{ID: "eval", JobID: "j", Status: structs.EvalComplete},
		JobModifyIndex: j.JobModifyIndex,
		Deployment: &structs.Deployment{
			ID:             "d",
			Namespace:      structs.DefaultNamespace,
			JobID:          "j",
			JobCreateIndex: j.CreateIndex,
			Status:         structs.DeploymentRunning,
			TaskGroups:     map[string]*structs.DeploymentState{"g": {DesiredTotal: 1}},
		},
	})
	before := state.Deployment(s.Store.Read(), "d").ModifyIndex
	for _, req := range []*structs.DeploymentPromoteRequest{
		{DeploymentID: "d", All: true},
		{DeploymentID: "d", Groups: []string{"g"}},
	} {
		got := must(s, structs.DeploymentPromote, req)
		if e := state.Eval(s.Store.Read(), got.EvalID); e == nil || e.JobID != "j" || got.Index == 0 {
			t.Errorf("the answer %+v, its evaluation %+v", got, e)
		}
	}
	if d := state.Deployment(s.Store.Read(), "d"); d.ModifyIndex != before {
		t.Errorf("the deployment has changed: %+v", d)
	}
}

// A job that does not exist has no deployments, and is as good as stopped.
func TestDeployments_OfAJobThatDoesNotExist(t *testing.T) {
	s := newServer(t)
	req := &structs.JobGetRequest{JobID: "x"}
	if got := must(s, structs.JobDeployments, req); got.Deployments == nil || len(got.Deployments) > 0 {
		t.Errorf("deployments %#v, want an empty list", got.Deployments)
	}
	if got := must(s, structs.JobLatestDeployment, req); got.Deployment != nil {
		t.Errorf("deployment %+v", got.Deployment)
	}
	index := s.Store.Index()
	if got := must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "x"}); got.EvalID != "" {
		t.Errorf("stopped: %+v", got)
	}
	if s.Store.Index() != index {
		t.Error("the stop of no job has changed the state")
	}
	rejected(s, structs.KindInvalid, structs.JobDeregister, &structs.JobDeregisterRequest{})
	s.Raft.Verify = structs.Unavailablef("another server leads") // and may know the job
	rejected(s, structs.KindUnavailable, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: "x"})
}
