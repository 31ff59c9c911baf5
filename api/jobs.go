package api

import (
	"encoding/json"

	"berth/structs"
)

var (
	jobList = list(structs.JobList, nil, func(a *structs.JobListResponse) []*structs.JobListStub { return a.Jobs })
	jobGet  = read(structs.JobGet, bindJob, func(a *structs.JobGetResponse) any { return a.Job })

	jobAllocations = list(structs.JobAllocations, bindJob, func(a *structs.AllocListResponse) []*structs.AllocListStub { return a.Allocations })
	jobEvaluations = list(structs.JobEvaluations, bindJob, func(a *structs.EvalListResponse) []*structs.Evaluation { return a.Evaluations })
	jobSummary     = read(structs.JobSummaryGet, bindJob, func(a *structs.JobSummaryResponse) any { return a.JobSummary })
	jobVersions    = read(structs.JobVersions, bindJob, func(a *structs.JobVersionsResponse) any { return jobVersionsAnswer{Versions: a.Versions} })

	jobRegister   = write(structs.JobRegister, bindJobRegister, same[structs.JobRegisterResponse])
	jobEvaluate   = write(structs.JobEvaluate, bindJobEvaluate, same[structs.JobRegisterResponse])
	jobDeregister = write(structs.JobDeregister, bindJobDeregister, same[structs.JobDeregisterResponse])
)

// same renders an answer as it is.
func same[Resp any](a *Resp) any { return a }

// jobVersionsAnswer has the dialect's shape; berth computes no differences.
type jobVersionsAnswer struct {
	Versions []*structs.Job
	Diffs    []struct{}
}

func bindJob(c *call, q *structs.JobGetRequest) (err error) {
	q.JobID = c.id()
	q.All, err = c.flag("all")
	return err
}

// jobBody is what registers a job. Submission, the text it was parsed from, is not kept.
type jobBody struct {
	Job            *structs.Job
	EnforceIndex   bool
	JobModifyIndex uint64
	Submission     json.RawMessage
	dialectOptions
}

// dialectOptions are what the public client repeats in the body of what its parameters say already.
type dialectOptions struct {
	Region    string
	Namespace string
	SecretID  json.RawMessage
}

func bindJobRegister(c *call, req *structs.JobRegisterRequest) error {
	var b jobBody
	if err := c.body(&b); err != nil {
		return err
	}
	if b.Job == nil {
		return structs.Errorf(structs.KindInvalid, "Job: expected a job, found none")
	}
	if c.id() != "" {
		if err := c.sameID("job", b.Job.ID); err != nil {
			return err
		}
	}
	req.Namespace = firstOf(b.Job.Namespace, req.Namespace, b.Namespace)
	req.Region = firstOf(req.Region, b.Region)
	b.Job.Namespace = structs.NamespaceOr(req.Namespace)
	req.Job, req.EnforceIndex, req.JobModifyIndex = b.Job, b.EnforceIndex, b.JobModifyIndex
	return nil
}

func firstOf(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}

func bindJobDeregister(c *call, req *structs.JobDeregisterRequest) (err error) {
	req.JobID = c.id()
	req.Purge, err = c.flag("purge")
	return err
}

func bindJobEvaluate(c *call, req *structs.JobEvaluateRequest) error {
	var b struct {
		JobID       string
		EvalOptions struct{ ForceReschedule bool }
		dialectOptions
	}
	if err := c.optionalBody(&b); err != nil {
		return err
	}
	req.JobID = c.id()
	return c.sameID("job", b.JobID)
}
