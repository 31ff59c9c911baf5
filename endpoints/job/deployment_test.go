package job_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// addDeployment registers a job whose newest version has a deployment that awaits the promotion of a canary.
func addDeployment(s *endpointstest.Server, job, id string) {
	s.T.Helper()
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job(job)})
	j := state.Job(s.Store.Read(), structs.DefaultNamespace, job)
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
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

func wantDeployment(s *endpointstest.Server, id, status string) {
	s.T.Helper()
	if d := state.Deployment(s.Store.Read(), id); d.Status != status {
		s.T.Fatalf("deployment %s is %s, want %s", id, d.Status, status)
	}
}

func TestDeployment_Writes(t *testing.T) {
	s := endpointstest.New(t)
	addDeployment(s, "j", "d")
	pause := &structs.DeploymentPauseRequest{DeploymentID: "d", Pause: true}
	got := endpointstest.Must(s, structs.DeploymentPause, pause)
	wantDeployment(s, "d", structs.DeploymentPaused)
	e := state.Eval(s.Store.Read(), got.EvalID)
	if e == nil || e.JobID != "j" || e.TriggeredBy != structs.TriggerDeployment || got.EvalCreateIndex == 0 ||
		got.DeploymentModifyIndex != state.Deployment(s.Store.Read(), "d").ModifyIndex {
		t.Errorf("the answer %+v, its evaluation %+v", got, e)
	}
	endpointstest.Must(s, structs.DeploymentPause, &structs.DeploymentPauseRequest{DeploymentID: "d"})
	wantDeployment(s, "d", structs.DeploymentRunning)
	endpointstest.Must(s, structs.DeploymentFail, &structs.DeploymentFailRequest{DeploymentID: "d"})
	wantDeployment(s, "d", structs.DeploymentFailed)
	if d := state.Deployment(s.Store.Read(), "d"); d.StatusDescription != structs.DeploymentFailedByUser {
		t.Errorf("it failed: %s", d.StatusDescription)
	}
}

// Requests for a deployment in another state, and those that name what it does not have, are rejected.
func TestDeployment_RejectsWrites(t *testing.T) {
	promote := &structs.DeploymentPromoteRequest{DeploymentID: "d", All: true}
	unhealthy := &structs.DeploymentHealthRequest{DeploymentID: "d", UnhealthyAllocationIDs: []string{"a"}}
	s := endpointstest.New(t)
	addDeployment(s, "j", "d")
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.DeploymentPromote,
		promote),
		`group "g" has 0 of 1 healthy canaries`)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.DeploymentPromote,
		&structs.DeploymentPromoteRequest{DeploymentID: "d", Groups: []string{"x"}}), `no group "x"`)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.DeploymentPromote,
		&structs.DeploymentPromoteRequest{DeploymentID: "d", Groups: make([]string, structs.MaxGroups+1)}), "at most")
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.DeploymentSetHealth,
		unhealthy), `no allocation "a"`)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.DeploymentSetHealth,
		&structs.DeploymentHealthRequest{DeploymentID: "d"}), "names 0 allocations")
	unblock := &structs.DeploymentFailRequest{DeploymentID: "d"}
	if got := endpointstest.Must(s, structs.DeploymentUnblock,
		unblock); got.EvalID != "" || got.DeploymentModifyIndex == 0 {
		t.Errorf("unblocked: %+v", got)
	}

	fail := &structs.DeploymentFailRequest{DeploymentID: "d"}
	endpointstest.Must(s, structs.DeploymentFail, fail)
	for _, err := range []error{
		endpointstest.Rejected(s, structs.KindPrecondition, structs.DeploymentFail, fail),
		endpointstest.Rejected(s, structs.KindPrecondition, structs.DeploymentPromote, promote),
		endpointstest.Rejected(s, structs.KindPrecondition, structs.DeploymentUnblock, unblock),
		endpointstest.Rejected(s, structs.KindPrecondition, structs.DeploymentSetHealth, unhealthy),
		endpointstest.Rejected(s, structs.KindPrecondition, structs.DeploymentPause,
			&structs.DeploymentPauseRequest{DeploymentID: "d", Pause: true}),
	} {
		endpointstest.WantText(t, err, `deployment "d" has ended: it is failed`)
	}
	for _, err := range []error{
		endpointstest.Rejected(s, structs.KindNotFound, structs.DeploymentFail,
			&structs.DeploymentFailRequest{DeploymentID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.DeploymentUnblock,
			&structs.DeploymentFailRequest{DeploymentID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.DeploymentPause,
			&structs.DeploymentPauseRequest{DeploymentID: "x"}),
		endpointstest.Rejected(s, structs.KindNotFound, structs.DeploymentPromote,
			&structs.DeploymentPromoteRequest{DeploymentID: "x", All: true}),
	} {
		endpointstest.WantText(t, err, `there is no deployment "x"`)
	}
}

// A promotion without canaries that wait for it evaluates the job, and nothing else.
func TestDeployment_PromotionWithoutCanaries(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: endpointstest.Job("j")})
	j := state.Job(s.Store.Read(), structs.DefaultNamespace, "j")
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
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
		got := endpointstest.Must(s, structs.DeploymentPromote, req)
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
	s := endpointstest.New(t)
	req := &structs.JobGetRequest{JobID: "x"}
	if got := endpointstest.Must(s, structs.JobDeployments,
		req); got.Deployments == nil || len(got.Deployments) > 0 {
		t.Errorf("deployments %#v, want an empty list", got.Deployments)
	}
	if got := endpointstest.Must(s, structs.JobLatestDeployment, req); got.Deployment != nil {
		t.Errorf("deployment %+v", got.Deployment)
	}
	index := s.Store.Index()
	if got := endpointstest.Must(s, structs.JobDeregister,
		&structs.JobDeregisterRequest{JobID: "x"}); got.EvalID != "" {
		t.Errorf("stopped: %+v", got)
	}
	if s.Store.Index() != index {
		t.Error("the stop of no job has changed the state")
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.JobDeregister, &structs.JobDeregisterRequest{})
	s.Raft.Verify = structs.Unavailablef("another server leads") // and may know the job
	endpointstest.Rejected(s, structs.KindUnavailable, structs.JobDeregister,
		&structs.JobDeregisterRequest{JobID: "x"})
}
