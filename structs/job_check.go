package structs

// JobValidate checks a job without its registration: its content, and its tasks against the drivers of the
// nodes that are up.
var JobValidate = Read[JobValidateRequest, JobValidateResponse]("Job.Validate")

// JobValidateRequest has the job.
type JobValidateRequest struct {
	Job *Job
	QueryOptions
}

// JobValidateResponse has the faults of a job, which are no error of the request. DriverConfigValidated
// reports that nodes have checked the configs of all tasks. Error has the lines of ValidationErrors, and
// Warnings a line for each part that was not checked.
type JobValidateResponse struct {
	DriverConfigValidated bool
	ValidationErrors      []string
	Error                 string
	Warnings              string
	QueryMeta
}
