package jobs

import (
	"context"

	"berth/api"
	"berth/jobspec"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/defaults"
)

var jobParse = api.NewEndpoint[*structs.Job](&table, api.Put, "/v1/jobs/parse",
	parseJob, api.HoldsJobs, api.Needs(access.NeedsParseJob))

// ParseRequest is the body that parses a job file. Variables is the content of a file of values for the
// variables of the job file, in HCL or JSON. HCLv1 must be false.
type ParseRequest struct {
	JobHCL       string
	Variables    string
	Canonicalize bool
	HCLv1        bool
}

// parseJob parses a job file in the agent, without a server. The file reads no files of the agent.
func parseJob(c *api.Call) (any, error) {
	var b ParseRequest
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

	end, err := c.BeginParsing()
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

// Parse parses a job file in the agent.
func Parse(ctx context.Context, c *api.Client, req *ParseRequest) (*structs.Job, error) {
	return jobParse.Send(ctx, c, api.Request{Body: req})
}

var jobValidate = api.NewEndpoint[*Validation](&table, api.Put, "/v1/validate/job",
	validateJob, api.HoldsJobs)

// validateJob also warns of the fields of the job that have no effect.
func validateJob(c *api.Call) (any, error) {
	serve := api.ServeMethod(structs.JobValidate, bindJobValidate, jobValidation)
	answer, err := serve(c)
	if a, ok := answer.(*Validation); ok {
		c.Ignored.AddTo(&a.Warnings)
	}
	return answer, err
}

// Validation has the shape of the dialect, in which an invalid job is an answer and not an error. See
// structs.JobValidateResponse.
type Validation struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
}

func bindJobValidate(c *api.Call, req *structs.JobValidateRequest) error {
	b, err := readJobBody(c)
	if err == nil {
		req.Job = b.Job
	}
	return err
}

func jobValidation(a *structs.JobValidateResponse) *Validation {
	return &Validation{
		DriverConfigValidated: a.DriverConfigValidated,
		ValidationErrors:      a.ValidationErrors,
		Error:                 a.Error,
		Warnings:              a.Warnings,
	}
}

// Validate checks a job against the drivers of the nodes, and does not register it.
func Validate(ctx context.Context, c *api.Client, job *structs.Job) (*Validation, error) {
	body := struct{ Job *structs.Job }{job}
	return jobValidate.Send(ctx, c, api.Request{Body: body})
}
