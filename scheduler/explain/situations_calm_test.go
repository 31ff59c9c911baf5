package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
	"berth/structs/defaults"
)

// calmSituations are those of jobs without running allocations.
var calmSituations = []situation{
	{name: "a batch job that is complete", nodes: 1, calm: true, make: after(batch, (*schedtest.Fleet).Schedule,
		complete)},
	{name: "a batch job with the count 0", nodes: 1, calm: true, make: func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobBatch, 0))
		f.Schedule()
	}},
	{name: "a service that no evaluation places", nodes: 1, make: func(f *schedtest.Fleet) {
		f.Register(schedtest.Job("web", structs.JobService, 2))
		endEvaluation(f)
	}},
	{name: "a periodic job", nodes: 1, calm: true, make: periodic(&structs.PeriodicConfig{Enabled: true})},
	{name: "a periodic job with a child that runs", nodes: 1, calm: true,
		make: after(periodic(&structs.PeriodicConfig{Enabled: true}), launch)},
	{name: "a periodic job that is disabled", nodes: 1, calm: true, make: periodic(&structs.PeriodicConfig{})},
	{name: "a periodic job without another launch", nodes: 1, calm: true, make: periodic(&structs.PeriodicConfig{
		Enabled: true,
		Spec:    "0 0 1 1 * 2020",
	})},
	{name: "a periodic job whose last child still runs", nodes: 1, make: after(periodic(&structs.PeriodicConfig{
		Enabled:         true,
		ProhibitOverlap: true,
	}), launch)},
	{name: "a periodic job whose last child has ended", nodes: 1, calm: true,
		make: after(periodic(&structs.PeriodicConfig{Enabled: true, ProhibitOverlap: true}), launch, endChild)},
	{name: "a parameterized job", nodes: 1, calm: true, make: parameterized(&structs.ParameterizedJobConfig{
		Payload: structs.PayloadOptional,
	})},
	{name: "a parameterized job that requires values", nodes: 1, calm: true,
		make: parameterized(&structs.ParameterizedJobConfig{
			Payload:      structs.PayloadRequired,
			MetaRequired: []string{"who"},
		})},
}

func batch(f *schedtest.Fleet) {
	f.Register(schedtest.Job("web", structs.JobBatch, 1))
}

func complete(f *schedtest.Fleet) {
	f.Report(f.Allocs("web")[0], &structs.AllocClientUpdate{
		ClientStatus: structs.AllocComplete,
		TaskStates:   map[string]*structs.TaskState{"t": {State: structs.TaskDead}},
	})
	f.Schedule()
}

// endEvaluation ends the evaluation of the job web without a plan.
func endEvaluation(f *schedtest.Fleet) {
	e := state.Eval(f.Store.Read(), "eval-web").Copy()
	e.Status = structs.EvalComplete
	schedtest.Do(f, state.EvalUpdate, &structs.EvalUpdateRequest{
		Evals:        []*structs.Evaluation{e},
		WriteOptions: f.Now(),
	})
}

// parent registers the job web, which starts others and has no evaluation.
func parent(edit func(*structs.Job)) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		j := schedtest.Job("web", structs.JobBatch, 1)
		edit(j)
		schedtest.Do(f, state.JobRegister, &structs.JobRegisterRequest{Job: j, WriteOptions: f.Now()})
	}
}

// periodic registers a periodic job with a launch at each full hour, if the schedule does not say otherwise.
func periodic(p *structs.PeriodicConfig) func(*schedtest.Fleet) {
	return parent(func(j *structs.Job) {
		j.Periodic = p
		defaults.Canonicalize(j)
		if p.Spec == "" {
			p.Spec = "0 * * * *"
		}
	})
}

func parameterized(p *structs.ParameterizedJobConfig) func(*schedtest.Fleet) {
	return parent(func(j *structs.Job) { j.ParameterizedJob = p })
}

// launch starts the child of the next full hour, which runs.
func launch(f *schedtest.Fleet) {
	parent := state.Job(f.Store.Read(), structs.DefaultNamespace, "web")
	at := f.Clock.Truncate(time.Hour).Add(time.Hour)
	f.Clock = at
	child := parent.ChildAt(at)
	schedtest.Do(f, state.JobPeriodicLaunch, &structs.PeriodicLaunchRequest{
		ParentID:       parent.ID,
		JobModifyIndex: parent.JobModifyIndex,
		Launch:         at.UnixNano(),
		Child:          child,
		Eval: &structs.Evaluation{
			ID:          "eval-child",
			JobID:       child.ID,
			Type:        child.Type,
			TriggeredBy: structs.TriggerPeriodicJob,
			Status:      structs.EvalPending,
		},
		WriteOptions: f.Now(),
	})
	f.Tick()
}

func endChild(f *schedtest.Fleet) {
	for child := range state.ChildJobs(f.Store.Read(), structs.DefaultNamespace, "web") {
		f.Report(f.Allocs(child.ID)[0], &structs.AllocClientUpdate{ClientStatus: structs.AllocComplete})
	}
	f.Schedule()
}
