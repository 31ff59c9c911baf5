package jobs

import (
	"cmp"
	"context"
	"time"

	"berth/api"
	"berth/structs"
)

var jobPlan = api.NewEndpoint[*Planned](&table, api.Put, "/v1/job/{id}/plan", planJob, api.HoldsJobs)

// planJob also warns of the fields of the job that have no effect.
func planJob(c *api.Call) (any, error) {
	serve := api.ServeMethod(structs.JobPlan, bindJobPlan, jobPlanned)
	answer, err := serve(c)
	if a, ok := answer.(*Planned); ok {
		c.Ignored.AddTo(&a.Warnings)
	}
	return answer, err
}

// Planned tells what the registration of a job would change. See structs.JobPlanResponse. Index is the
// JobModifyIndex, as in the dialect. NextPeriodicLaunch is nil if there is none.
type Planned struct {
	Index              uint64
	JobModifyIndex     uint64
	CreatedEvals       []*structs.Evaluation
	Diff               *structs.JobDiff
	Annotations        *structs.PlanAnnotations
	FailedTGAllocs     map[string]*structs.AllocMetric
	NextPeriodicLaunch *time.Time
	Warnings           string
}

func bindJobPlan(c *api.Call, req *structs.JobPlanRequest) error {
	var b struct {
		Job            *structs.Job
		Diff           bool
		PolicyOverride bool // of a policy language that berth does not have
		api.DialectOptions
	}
	err := c.DecodeJobBody(&b, &b.Job)
	if err != nil {
		return err
	}
	req.Namespace = cmp.Or(b.Job.Namespace, req.Namespace, b.Namespace)
	req.Region = cmp.Or(req.Region, b.Region)
	req.Job = b.Job
	req.Diff = b.Diff
	return c.SameID("job", b.Job.ID)
}

func jobPlanned(a *structs.JobPlanResponse) *Planned {
	planned := &Planned{
		Index:          a.JobModifyIndex,
		JobModifyIndex: a.JobModifyIndex,
		CreatedEvals:   a.CreatedEvals,
		Diff:           a.Diff,
		Annotations:    a.Annotations,
		FailedTGAllocs: a.FailedTGAllocs,
		Warnings:       a.Warnings,
	}
	if !a.NextPeriodicLaunch.IsZero() {
		planned.NextPeriodicLaunch = &a.NextPeriodicLaunch
	}
	return planned
}

// Plan tells what the registration of a job would change, with the difference to the stored version if
// diff is set.
func Plan(ctx context.Context, c *api.Client, job *structs.Job, diff bool) (*Planned, error) {
	body := struct {
		Job  *structs.Job
		Diff bool
	}{job, diff}
	id := cmp.Or(job, &structs.Job{}).ID
	return jobPlan.Send(ctx, c, api.Request{ID: id, Body: body})
}
