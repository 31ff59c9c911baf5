package api

import (
	"context"

	"berth/jobspec"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/defaults"
)

var jobParse = NewEndpoint[*structs.Job](Put, "/v1/jobs/parse",
	parseJob, HoldsJobs, Needs(access.NeedsParseJob))

// JobParseRequest is the body that parses a job file. Variables is the content of a file of values for the
// variables of the job file, in HCL or JSON. HCLv1 must be false.
type JobParseRequest struct {
	JobHCL       string
	Variables    string
	Canonicalize bool
	HCLv1        bool
}

// parsing bounds the job files that one process parses at a time, because each may take MaxEvaluation.
var parsing = make(chan struct{}, 2)

// beginParsing waits for one of the places of parsing, which end releases.
func (c *Call) beginParsing() (end func(), err error) {
	select {
	case parsing <- struct{}{}:
		return func() { <-parsing }, nil
	case <-c.Ctx().Done():
		return nil, c.Ctx().Err()
	}
}

// parseJob parses a job file in the agent, without a server. The file reads no files of the agent.
func parseJob(c *Call) (any, error) {
	var b JobParseRequest
	err := c.DecodeBody(&b)
	if err != nil {
		return nil, err
	}

	if b.HCLv1 {
		return nil, structs.Invalidf("HCLv1: expected false; berth reads job files in HCL2 only")
	}

	in := &jobspec.Inputs{}
	if b.Variables != "" {
		in.Files = []jobspec.VarFile{{
			Name:   "variables.hcl",
			Source: []byte(b.Variables),
		}}
	}

	end, err := c.beginParsing()
	if err != nil {
		return nil, err
	}
	defer end()

	f, err := jobspec.ReadJob("job.hcl", []byte(b.JobHCL), in)
	if err != nil {
		return nil, err
	}

	if b.Canonicalize {
		defaults.Canonicalize(f.Job)
	}

	return f.Job, nil
}

// JobParse parses a job file in the agent.
func (c *Client) JobParse(ctx context.Context, req *JobParseRequest) (*structs.Job, error) {
	return jobParse.Send(ctx, c, Request{Body: req})
}

var jobValidate = NewEndpoint[*JobValidation](Put, "/v1/validate/job",
	validateJob, HoldsJobs)

// validateJob also warns of the fields of the job that have no effect.
func validateJob(c *Call) (any, error) {
	serve := ServeMethod(structs.JobValidate, bindJobValidate, jobValidation)
	answer, err := serve(c)
	if a, ok := answer.(*JobValidation); ok {
		c.ignored.addTo(&a.Warnings)
	}
	return answer, err
}

// JobValidation has the shape of the dialect, in which an invalid job is an answer and not an error. See
// structs.JobValidateResponse.
type JobValidation struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

func bindJobValidate(c *Call, req *structs.JobValidateRequest) error {
	b, err := c.readJobBody()
	if err == nil {
		req.Job = b.Job
	}
	return err
}

func jobValidation(a *structs.JobValidateResponse) *JobValidation {
	return &JobValidation{
		DriverConfigValidated: a.DriverConfigValidated,
		ValidationErrors:      a.ValidationErrors,
		Error:                 a.Error,
		Warnings:              a.Warnings,
	}
}

// JobValidate checks a job against the drivers of the nodes, and does not register it.
func (c *Client) JobValidate(ctx context.Context, job *structs.Job) (*JobValidation, error) {
	body := struct{ Job *structs.Job }{job}
	return jobValidate.Send(ctx, c, Request{Body: body})
}
