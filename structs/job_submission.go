package structs

// The formats of the source of a job.
const (
	FormatHCL1 = "hcl1" // of older clients; berth does not parse it
	FormatHCL2 = "hcl2"
	FormatJSON = "json"
)

// JobSubmission is the row of the source of a version of a job, as a user wrote it. The servers store it for
// readers and never parse it. Key: (Namespace, JobID, Version).
type JobSubmission struct {
	Source        string
	Format        string            // hcl1, hcl2 or json
	VariableFlags map[string]string // variables by name, as the command line gave them
	Variables     string            // the content of files of variables

	// The servers fill in the rest.
	Namespace      string
	JobID          string
	Version        uint64
	JobModifyIndex uint64 // of the version
	Indexes
}

// Size returns the bytes of the texts that a user wrote.
func (s *JobSubmission) Size() int {
	return len(s.Source) + len(s.Format) + len(s.Variables) + PairBytes(s.VariableFlags)
}

// JobSubmissionGet reads the source of a version of a job. The error is not-found if none is stored.
var JobSubmissionGet = Read[JobSubmissionRequest, JobSubmissionResponse]("Job.GetJobSubmission")

// JobSubmissionRequest names the version of the job.
type JobSubmissionRequest struct {
	JobID   string
	Version uint64
	QueryOptions
}

// JobSubmissionResponse has the source.
type JobSubmissionResponse struct {
	Submission *JobSubmission
	QueryMeta
}
