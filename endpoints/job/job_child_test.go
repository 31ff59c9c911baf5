package job_test

import (
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
)

// addJob registers a job of one group, changed by some functions.
func addJob(s *endpointstest.Server, id string, change ...func(*structs.Job)) *structs.Job {
	s.T.Helper()
	job := &structs.Job{
		ID: id,
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*structs.Task{{Name: "t", Driver: "exec", Config: map[string]any{"command": "true"}}},
		}},
	}
	for _, f := range change {
		f(job)
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	return jobRow(s, id)
}

func jobRow(s *endpointstest.Server, id string) *structs.Job {
	s.T.Helper()
	return endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: id}).Job
}

func evalRow(s *endpointstest.Server, id string) *structs.Evaluation {
	s.T.Helper()
	return endpointstest.Must(s, structs.EvalGet, &structs.EvalGetRequest{EvalID: id}).Eval
}

// rejectJobs makes the servers reject new jobs and new versions, as an operator does.
func rejectJobs(s *endpointstest.Server) {
	s.T.Helper()
	config := cluster.DefaultSchedulerConfiguration()
	config.RejectJobRegistration = true
	endpointstest.Must(s, cluster.SchedulerConfigSet, &cluster.SchedulerConfigRequest{Config: config})
}

// parameterized makes a job start children by dispatch.
func parameterized(j *structs.Job) {
	j.Type = structs.JobBatch
	j.ParameterizedJob = &structs.ParameterizedJobConfig{
		MetaRequired: []string{"who"},
		MetaOptional: []string{"why"},
	}
}

// periodic makes a job start children by a schedule.
func periodic(j *structs.Job) {
	j.Type = structs.JobBatch
	j.Periodic = &structs.PeriodicConfig{
		Enabled:         true,
		Spec:            "0 0 1 1 *",
		SpecType:        "cron",
		ProhibitOverlap: true,
	}
}

func stopped(s *endpointstest.Server, id string) {
	s.T.Helper()
	endpointstest.Must(s, structs.JobDeregister, &structs.JobDeregisterRequest{JobID: id})
}

func TestJobDispatch_StartsAChild(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "enc", parameterized)
	got := endpointstest.Must(s, structs.JobDispatch, &structs.JobDispatchRequest{
		JobID:            "enc",
		Payload:          []byte("data"),
		Meta:             map[string]string{"who": "me"},
		IDPrefixTemplate: "night",
		Priority:         70,
	})
	child := jobRow(s, got.DispatchedJobID)
	if !strings.HasPrefix(child.ID, "enc/dispatch-night-") || child.ParentID != "enc" || !child.Dispatched ||
		string(child.Payload) != "data" || child.Meta["who"] != "me" || child.Priority != 70 {
		t.Errorf("the child is %+v", child)
	}
	e := evalRow(s, got.EvalID)
	if e.JobID != child.ID || e.Priority != 70 || e.TriggeredBy != structs.TriggerJobRegister ||
		got.EvalCreateIndex != e.CreateIndex || got.JobCreateIndex != child.CreateIndex {
		t.Errorf("evaluation %+v for the answer %+v", e, got)
	}
}

func TestJobDispatch_StartsOneChildForAToken(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "enc", parameterized)
	req := &structs.JobDispatchRequest{
		JobID:            "enc",
		Meta:             map[string]string{"who": "me"},
		IdempotencyToken: "once",
	}
	first := endpointstest.Must(s, structs.JobDispatch, req)
	again := endpointstest.Must(s, structs.JobDispatch, req)
	if again.DispatchedJobID != first.DispatchedJobID || again.EvalID != "" ||
		again.JobCreateIndex != first.JobCreateIndex {
		t.Errorf("got %+v, and before %+v", again, first)
	}
	req.IdempotencyToken = "twice"
	other := endpointstest.Must(s, structs.JobDispatch, req)
	if other.DispatchedJobID == first.DispatchedJobID || other.EvalID == "" {
		t.Errorf("another token: got %+v", other)
	}
}

func TestJobDispatch_Rejects(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "plain")
	addJob(s, "enc", parameterized)
	addJob(s, "ended", parameterized)
	stopped(s, "ended")
	addJob(s, "full", parameterized, func(j *structs.Job) {
		j.ParameterizedJob.Payload = structs.PayloadRequired
	})
	addJob(s, "empty", parameterized, func(j *structs.Job) {
		j.ParameterizedJob.Payload = structs.PayloadForbidden
	})
	who := map[string]string{"who": "me"}
	before := s.Raft.Len()
	for name, c := range map[string]struct {
		kind structs.Kind
		req  structs.JobDispatchRequest
	}{
		"an unknown job":         {structs.KindNotFound, structs.JobDispatchRequest{JobID: "none"}},
		"an unparameterized job": {structs.KindPrecondition, structs.JobDispatchRequest{JobID: "plain"}},
		"a stopped job":          {structs.KindPrecondition, structs.JobDispatchRequest{JobID: "ended", Meta: who}},
		"no required value":      {structs.KindInvalid, structs.JobDispatchRequest{JobID: "enc"}},
		"an unknown parameter": {structs.KindInvalid, structs.JobDispatchRequest{
			JobID: "enc",
			Meta:  map[string]string{"who": "me", "where": "here"},
		}},
		"no required payload": {structs.KindInvalid, structs.JobDispatchRequest{JobID: "full", Meta: who}},
		"a forbidden payload": {structs.KindInvalid, structs.JobDispatchRequest{
			JobID:   "empty",
			Meta:    who,
			Payload: []byte("data"),
		}},
		"too large a payload": {structs.KindInvalid, structs.JobDispatchRequest{
			JobID:   "enc",
			Meta:    who,
			Payload: make([]byte, structs.MaxPayload+1),
		}},
		"too long a token": {structs.KindInvalid, structs.JobDispatchRequest{
			JobID:            "enc",
			Meta:             who,
			IdempotencyToken: strings.Repeat("x", structs.MaxName+1),
		}},
		"too long an ID": {structs.KindInvalid, structs.JobDispatchRequest{
			JobID:            "enc",
			Meta:             who,
			IDPrefixTemplate: strings.Repeat("x", structs.MaxName+1),
		}},
		"too high a priority": {structs.KindInvalid, structs.JobDispatchRequest{
			JobID:    "enc",
			Meta:     who,
			Priority: structs.JobMaxPriority + 1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			endpointstest.Rejected(s.In(t), c.kind, structs.JobDispatch, &c.req)
		})
	}
	if n := s.Raft.Len(); n != before {
		t.Errorf("rejected dispatches made %d log entries", n-before)
	}
}

func TestPeriodicForce_LaunchesAChildNow(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "per", periodic)
	s.Clock = s.Clock.Add(time.Second)
	force := &structs.PeriodicForceRequest{JobID: "per"}
	first := endpointstest.Must(s, structs.PeriodicForce, force)
	e := evalRow(s, first.EvalID)
	child := jobRow(s, e.JobID)
	if child.ParentID != "per" || e.TriggeredBy != structs.TriggerPeriodicJob ||
		first.EvalCreateIndex != e.CreateIndex {
		t.Errorf("evaluation %+v of the child %+v for the answer %+v", e, child, first)
	}
	endpointstest.Rejected(s, structs.KindConflict, structs.PeriodicForce, force) // the same second
	s.Clock = s.Clock.Add(time.Second)
	second := evalRow(s, endpointstest.Must(s, structs.PeriodicForce,
		force).EvalID) // although the first still runs
	if second.JobID == child.ID {
		t.Error("two launches have one child")
	}
}

func TestPeriodicForce_Rejects(t *testing.T) {
	s := endpointstest.New(t)
	addJob(s, "plain")
	addJob(s, "ended", periodic)
	stopped(s, "ended")
	addJob(s, "off", periodic, func(j *structs.Job) { j.Periodic.Enabled = false })
	for id, kind := range map[string]structs.Kind{
		"none":  structs.KindNotFound,
		"plain": structs.KindPrecondition,
		"ended": structs.KindPrecondition,
		"off":   structs.KindPrecondition,
	} {
		endpointstest.Rejected(s, kind, structs.PeriodicForce, &structs.PeriodicForceRequest{JobID: id})
	}
}

// twoVersions registers a job with a priority of 50, and then of 60.
func twoVersions(s *endpointstest.Server, id string) {
	s.T.Helper()
	for _, priority := range []int{50, 60} {
		addJob(s, id, func(j *structs.Job) { j.Priority = priority })
	}
}

func TestJobRevert_MakesAnEarlierVersionTheNewest(t *testing.T) {
	s := endpointstest.New(t)
	twoVersions(s, "web")
	got := endpointstest.Must(s, structs.JobRevert, &structs.JobRevertRequest{
		JobID:               "web",
		EnforcePriorVersion: new(uint64(1)),
	})
	job := jobRow(s, "web")
	if job.Version != 2 || job.Priority != 50 || got.JobModifyIndex != job.JobModifyIndex {
		t.Errorf("version %d with priority %d, for the answer %+v", job.Version, job.Priority, got)
	}
	e := evalRow(s, got.EvalID)
	if e.JobID != "web" || e.TriggeredBy != structs.TriggerJobRegister || e.Priority != 50 {
		t.Errorf("evaluation %+v", e)
	}
	stopped(s, "web")
	endpointstest.Must(s, structs.JobRevert, &structs.JobRevertRequest{JobID: "web", JobVersion: 1})
	if job := jobRow(s, "web"); job.Stop || job.Priority != 60 {
		t.Errorf("a stopped job after the revert: %+v", job)
	}
}

func TestJobRevert_Rejects(t *testing.T) {
	s := endpointstest.New(t)
	twoVersions(s, "web")
	for name, c := range map[string]struct {
		kind structs.Kind
		req  structs.JobRevertRequest
	}{
		"an unknown job":      {structs.KindNotFound, structs.JobRevertRequest{JobID: "none"}},
		"an unknown version":  {structs.KindNotFound, structs.JobRevertRequest{JobID: "web", JobVersion: 9}},
		"the current version": {structs.KindInvalid, structs.JobRevertRequest{JobID: "web", JobVersion: 1}},
		"another prior version": {structs.KindConflict, structs.JobRevertRequest{
			JobID:               "web",
			EnforcePriorVersion: new(uint64(0)),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			endpointstest.Rejected(s.In(t), c.kind, structs.JobRevert, &c.req)
		})
	}
	rejectJobs(s)
	endpointstest.Rejected(s, structs.KindDenied, structs.JobRevert, &structs.JobRevertRequest{JobID: "web"})
	if job := jobRow(s, "web"); job.Version != 1 {
		t.Errorf("a rejected revert made version %d", job.Version)
	}
}
