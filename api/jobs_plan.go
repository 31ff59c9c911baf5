package api

import (
	"cmp"
	"context"
	"time"

	"berth/structs"
)

var jobPlan = NewEndpoint[*JobPlanned](Put, "/v1/job/{id}/plan", planJob, HoldsJobs)

// planJob also warns of the fields of the job that have no effect.
func planJob(c *Call) (any, error) {
	serve := ServeMethod(structs.JobPlan, bindJobPlan, jobPlanned)
	answer, err := serve(c)
	if a, ok := answer.(*JobPlanned); ok {
		c.ignored.addTo(&a.Warnings)
	}
	return answer, err
}

// JobPlanned tells what the registration of a job would change. See structs.JobPlanResponse. Index is the
// JobModifyIndex, as in the dialect. NextPeriodicLaunch is nil if there is none.
type JobPlanned struct {
	Index              uint64
	JobModifyIndex     uint64
	CreatedEvals       []*structs.Evaluation
	Diff               *structs.JobDiff
	Annotations        *structs.PlanAnnotations
	FailedTGAllocs     map[string]*structs.AllocMetric
	NextPeriodicLaunch *time.Time
	Warnings           string
}

func bindJobPlan(c *Call, req *structs.JobPlanRequest) error {
	var b struct {
		Job            *structs.Job
		Diff           bool
		PolicyOverride bool // of a policy language that berth does not have
		DialectOptions
	}
	err := c.decodeJobBody(&b, &b.Job)
	if err != nil {
		return err
	}
	req.Namespace = cmp.Or(b.Job.Namespace, req.Namespace, b.Namespace)
	req.Region = cmp.Or(req.Region, b.Region)
	req.Job = b.Job
	req.Diff = b.Diff
	return c.SameID("job", b.Job.ID)
}

func jobPlanned(a *structs.JobPlanResponse) *JobPlanned {
	planned := &JobPlanned{
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

// JobPlan tells what the registration of a job would change, with the difference to the stored version if
// diff is set.
func (c *Client) JobPlan(ctx context.Context, job *structs.Job, diff bool) (*JobPlanned, error) {
	body := struct {
		Job  *structs.Job
		Diff bool
	}{job, diff}
	id := cmp.Or(job, &structs.Job{}).ID
	return jobPlan.Send(ctx, c, Request{ID: id, Body: body})
}
