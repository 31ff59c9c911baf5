package api

import (
	"context"

	"berth/jobspec"
	"berth/structs"
)

var (
	jobParse = route[*structs.Job](put, "/v1/jobs/parse", parseJob, holdsJobs)
	_        = handle(put, "/v1/validate/job", validateJob, holdsJobs)
)

// parseJob turns a job file into a job, without any server.
func parseJob(c *call) (any, error) {
	var b struct {
		JobHCL       string
		Canonicalize bool
	}
	if err := c.body(&b); err != nil {
		return nil, err
	}
	job, err := jobspec.ParseJob("job.hcl", []byte(b.JobHCL))
	if err != nil {
		return nil, err
	}
	if b.Canonicalize {
		job.Canonicalize()
	}
	return job, nil
}

// jobValidation has the dialect's shape: a job that is not valid is an answer here, not an error.
type jobValidation struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

func validateJob(c *call) (any, error) {
	var b jobBody
	if err := c.body(&b); err != nil {
		return nil, err
	}
	if b.Job == nil {
		return nil, structs.Errorf(structs.KindInvalid, "Job: expected a job, found none")
	}
	b.Job.Canonicalize()
	answer := jobValidation{}
	if err := b.Job.Validate(); err != nil {
		answer.Error = err.Error()
		answer.ValidationErrors = lines(answer.Error)
	}
	return answer, nil
}

// JobParse has the agent turn a job file into a job.
func (c *Client) JobParse(ctx context.Context, hcl string, canonicalize bool) (*structs.Job, error) {
	body := struct {
		JobHCL       string
		Canonicalize bool
	}{hcl, canonicalize}
	return jobParse.send(ctx, c, request{body: body})
}
