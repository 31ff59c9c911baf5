package job_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/structs"
)

func TestJobScale_ChangesTheCount(t *testing.T) {
	s := endpointstest.New(t)
	job := addJob(s, "web", func(j *structs.Job) {
		j.TaskGroups = append(j.TaskGroups, &structs.TaskGroup{
			Name:  "other",
			Count: 2,
			Tasks: j.TaskGroups[0].Tasks,
		})
	})
	got := endpointstest.Must(s, structs.JobScale, &structs.JobScaleRequest{
		JobID:          "web",
		Group:          "g",
		Count:          new(int64(3)),
		JobModifyIndex: job.JobModifyIndex,
	})
	scaled := jobRow(s, "web")
	if scaled.Version != 1 || scaled.Group("g").Count != 3 || scaled.Group("other").Count != 2 ||
		got.JobModifyIndex != scaled.JobModifyIndex {
		t.Errorf("job %+v for the answer %+v", scaled, got)
	}
	if e := evalRow(s, got.EvalID); e.JobID != "web" || e.TriggeredBy != structs.TriggerScaling {
		t.Errorf("evaluation %+v", e)
	}
	endpointstest.Must(s, structs.JobScale,
		&structs.JobScaleRequest{JobID: "web", Group: "g", Count: new(int64(0))})
	if count := jobRow(s, "web").Group("g").Count; count != 0 {
		t.Errorf("got the count %d, want 0", count)
	}
}

// Another count leaves the source of the job as it is, so the new version has it, too.
func TestJobScale_KeepsTheSource(t *testing.T) {
	s := endpointstest.New(t)
	source := &structs.JobSubmission{Source: "job \"web\" {}", Format: structs.FormatHCL2}
	endpointstest.Must(s, structs.JobRegister,
		&structs.JobRegisterRequest{Job: endpointstest.Job("web"), Submission: source})
	endpointstest.Must(s, structs.JobScale,
		&structs.JobScaleRequest{JobID: "web", Group: "g", Count: new(int64(3))})
	got := endpointstest.Must(s, structs.JobSubmissionGet,
		&structs.JobSubmissionRequest{JobID: "web", Version: 1}).Submission
	if got.Source != source.Source || got.Version != 1 {
		t.Errorf("the source of the scaled job is %+v", got)
	}
}

// A version that is registered between the read of the job and the log entry of its scaling stays.
func TestJobScale_LosesNoVersionThatCameMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := endpointstest.New(t)
		next := addJob(s, "web").Copy()
		next.Meta = map[string]string{"owner": "me"}
		release := make(chan struct{})
		s.Raft.Do(func() { s.Raft.Hold = release })
		ended := make(chan error, 1)
		go func() {
			req := &structs.JobScaleRequest{JobID: "web", Group: "g", Count: new(int64(3))}
			_, err := rpc.Call(t.Context(), s.RPC, structs.JobScale, req)
			ended <- err
		}()
		synctest.Wait()
		s.Raft.Do(func() { s.Raft.Hold = nil })
		endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: next})
		close(release)
		err := <-ended
		if !structs.IsKind(err, structs.KindConflict) || jobRow(s, "web").Meta["owner"] != "me" {
			t.Errorf("got %v and the job %+v", err, jobRow(s, "web"))
		}
	})
}

func TestJobScale_Rejects(t *testing.T) {
	s := endpointstest.New(t)
	job := addJob(s, "web")
	addJob(s, "log", func(j *structs.Job) { j.Type = structs.JobSystem })
	addJob(s, "ended")
	stopped(s, "ended")
	request := func(job, group string, count int64) structs.JobScaleRequest {
		return structs.JobScaleRequest{JobID: job, Group: group, Count: &count}
	}
	for name, c := range map[string]struct {
		kind structs.Kind
		req  structs.JobScaleRequest
	}{
		"an unknown job":               {structs.KindNotFound, request("none", "g", 1)},
		"an unknown group":             {structs.KindNotFound, request("web", "x", 1)},
		"no group":                     {structs.KindInvalid, request("web", "", 1)},
		"an event of an unknown group": {structs.KindNotFound, structs.JobScaleRequest{JobID: "web", Group: "x"}},
		"an error with a count": {structs.KindInvalid, structs.JobScaleRequest{
			JobID: "web",
			Group: "g",
			Count: new(int64(1)),
			Error: true,
		}},
		"too long a message": {structs.KindInvalid, structs.JobScaleRequest{
			JobID:   "web",
			Group:   "g",
			Message: strings.Repeat("x", structs.MaxScalingMessage+1),
		}},
		"too much metadata": {structs.KindInvalid, structs.JobScaleRequest{
			JobID: "web",
			Group: "g",
			Meta:  map[string]any{"k": strings.Repeat("x", structs.MaxScalingMeta)},
		}},
		"a negative count": {structs.KindInvalid, request("web", "g", -1)},
		"too high a count": {structs.KindInvalid, request("web", "g", structs.MaxGroupCount+1)},
		"another index": {structs.KindConflict, structs.JobScaleRequest{
			JobID:          "web",
			Group:          "g",
			Count:          new(int64(1)),
			JobModifyIndex: job.JobModifyIndex + 1,
		}},
		"a system job":  {structs.KindPrecondition, request("log", "g", 1)},
		"a stopped job": {structs.KindPrecondition, request("ended", "g", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			endpointstest.Rejected(s.In(t), c.kind, structs.JobScale, &c.req)
		})
	}
	rejectJobs(s)
	endpointstest.Rejected(s, structs.KindDenied, structs.JobScale, new(request("web", "g", 1)))
	endpointstest.Rejected(s, structs.KindDenied, structs.JobScale,
		&structs.JobScaleRequest{JobID: "web", Group: "g"})
	if job := jobRow(s, "web"); job.Version != 0 {
		t.Errorf("a rejected scaling made version %d", job.Version)
	}
}

// A scaling registers another version, which would end the deployment and lose its canaries.
func TestJobScale_WaitsForTheEndOfADeployment(t *testing.T) {
	s := endpointstest.New(t)
	addDeployment(s, "web", "d")
	request := &structs.JobScaleRequest{JobID: "web", Group: "g", Count: new(int64(3))}
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.JobScale, request)
	if !strings.Contains(err.Error(), "job scaling blocked due to active deployment d ") {
		t.Errorf("an autoscaler does not know this error: %v", err)
	}
	endpointstest.Must(s, structs.JobScale,
		&structs.JobScaleRequest{JobID: "web", Group: "g", Message: "an event"})
	endpointstest.Must(s, structs.DeploymentFail, &structs.DeploymentFailRequest{DeploymentID: "d"})
	endpointstest.Must(s, structs.JobScale, request)
	if count := jobRow(s, "web").Group("g").Count; count != 3 {
		t.Errorf("got the count %d, want 3", count)
	}
}

// TestJobScaleStatus_HasTheEvents scales a group, and stores an event of an autoscaler.
func TestJobScaleStatus_HasTheEvents(t *testing.T) {
	s := endpointstest.New(t)
	before := int64(addJob(s, "web").Group("g").Count)
	events := func() []*structs.ScalingEvent {
		status := endpointstest.Must(s, structs.JobScaleStatus, &structs.JobGetRequest{JobID: "web"}).JobScaleStatus
		return status.TaskGroups["g"].Events
	}
	if all := events(); len(all) != 0 {
		t.Errorf("a job that was not scaled has the events %v", all)
	}
	answer := endpointstest.Must(s, structs.JobScale, &structs.JobScaleRequest{
		JobID:   "web",
		Group:   "g",
		Count:   new(int64(5)),
		Message: "more load",
		Meta:    map[string]any{"load": []any{0.5, "high"}},
	})
	first := events()[0]
	if first.Count == nil || *first.Count != 5 || first.PreviousCount != before ||
		first.Message != "more load" || first.EvalID == nil || *first.EvalID != answer.EvalID || first.Time == 0 || first.CreateIndex == 0 ||
		!reflect.DeepEqual(first.Meta, map[string]any{"load": []any{0.5, "high"}}) {
		t.Errorf("got the event %+v for the answer %+v", first, answer)
	}
	version := jobRow(s, "web").Version
	answer = endpointstest.Must(s, structs.JobScale, &structs.JobScaleRequest{
		JobID:   "web",
		Group:   "g",
		Error:   true,
		Message: "no metrics",
	})
	all := events()
	if len(all) != 2 || !all[0].Error || all[0].Count != nil || all[0].PreviousCount != 5 ||
		all[0].EvalID != nil || jobRow(s, "web").Version != version || answer.EvalID != "" || answer.JobModifyIndex != jobRow(s, "web").JobModifyIndex {
		t.Errorf("got the events %+v for the answer %+v", all[0], answer)
	}
}

func TestJobScaleStatus_CountsLiveAllocations(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	job := addJob(s, "web", func(j *structs.Job) { j.TaskGroups[0].Count = 4 })
	e := endpointstest.EvalOf(job, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	d := &structs.Deployment{
		ID:                 structs.NewID(),
		Namespace:          job.Namespace,
		JobID:              job.ID,
		JobVersion:         job.Version,
		JobSpecModifyIndex: job.JobModifyIndex,
		JobCreateIndex:     job.CreateIndex,
		Status:             structs.DeploymentRunning,
		TaskGroups:         map[string]*structs.DeploymentState{"g": {DesiredTotal: 4, DesiredCanaries: 1}},
	}
	plan := &structs.Plan{Eval: e, JobModifyIndex: job.JobModifyIndex, Deployment: d}
	for i, id := range []string{"running", "healthy", "unhealthy", "pending", "failed", "canary"} {
		a := &structs.Allocation{
			ID:           id,
			Namespace:    "default",
			JobID:        "web",
			TaskGroup:    "g",
			Name:         structs.AllocName("web", "g", i),
			NodeID:       "n1",
			DeploymentID: d.ID,
		}
		if id == "canary" {
			a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
		}
		plan.Place = append(plan.Place, a)
	}
	endpointstest.MustPropose(s, fsm.PlanApply, plan)
	report := func(id, status string, healthy *bool) {
		t.Helper()
		u := &structs.AllocClientUpdate{ID: id, ClientStatus: status, DeploymentID: d.ID}
		if healthy != nil {
			u.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: healthy}
		}
		endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Allocs:   []*structs.AllocClientUpdate{u},
		})
	}
	report("running", structs.AllocRunning, nil)
	report("healthy", structs.AllocRunning, new(true))
	report("unhealthy", structs.AllocRunning, new(false))
	report("failed", structs.AllocFailed, nil)
	report("canary", structs.AllocRunning, new(true))
	got := endpointstest.Must(s, structs.JobScaleStatus, &structs.JobGetRequest{JobID: "web"}).JobScaleStatus
	want := structs.TaskGroupScaleStatus{Desired: 4, Placed: 4, Running: 3, Healthy: 1, Unhealthy: 1}
	if g := got.TaskGroups["g"]; g == nil || !reflect.DeepEqual(*g, want) {
		t.Errorf("got %+v, want %+v", g, want)
	}
	if got.JobID != "web" || got.Namespace != "default" || got.JobStopped ||
		got.JobCreateIndex != job.CreateIndex || got.JobModifyIndex != job.JobModifyIndex {
		t.Errorf("got %+v", got)
	}
	stopped(s, "web")
	if !endpointstest.Must(s, structs.JobScaleStatus,
		&structs.JobGetRequest{JobID: "web"}).JobScaleStatus.JobStopped {
		t.Error("a stopped job is not shown as stopped")
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobScaleStatus,
		&structs.JobGetRequest{JobID: "none"})
}
