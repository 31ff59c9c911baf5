package api

import (
	"context"
	"strings"

	"berth/jobspec"
	"berth/structs"
)

var jobParse = route[*structs.Job](put, "/v1/jobs/parse",
	parseJob, holdsJobs)

// jobParseBody is the body that parses a job file.
type jobParseBody struct {
	JobHCL       string
	Canonicalize bool
}

// parseJob parses a job file in the agent, without a server.
func parseJob(c *call) (any, error) {
	var b jobParseBody
	err := c.decodeBody(&b)
	if err != nil {
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

// JobParse parses a job file in the agent.
func (c *Client) JobParse(ctx context.Context, hcl string, canonicalize bool) (
	*structs.Job, error,
) {
	body := jobParseBody{hcl, canonicalize}
	return jobParse.send(ctx, c, request{body: body})
}

var _ = handle(put, "/v1/validate/job", validateJob, holdsJobs)

// jobValidation has the shape of the dialect, in which an invalid job is an answer and not an error.
type jobValidation struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

func validateJob(c *call) (any, error) {
	b, err := c.readJobBody()
	if err != nil {
		return nil, err
	}
	b.Job.Canonicalize()
	answer := jobValidation{}
	err = b.Job.Validate()
	if err != nil {
		answer.Error = err.Error()
		answer.ValidationErrors = strings.Split(answer.Error, "\n")
	}
	return answer, nil
}
