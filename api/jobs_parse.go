package api

import (
	"berth/jobspec"
	"berth/structs"
)

// jobParse turns a job file into a job, without any server.
func jobParse(c *call) (any, error) {
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

func jobValidate(c *call) (any, error) {
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
