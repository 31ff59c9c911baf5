package structs

// JobRevert makes an earlier version of a job the newest one.
var JobRevert = Write[JobRevertRequest, JobRegisterResponse]("Job.Revert")

// JobRevertRequest names the version. With EnforcePriorVersion the current version must be that one.
type JobRevertRequest struct {
	JobID               string
	JobVersion          uint64
	EnforcePriorVersion *uint64
	Eval                *Evaluation // set by the server
	ConsulToken         Secret      `json:",omitempty" codec:",omitempty"` // see JobRegisterRequest
	WriteOptions
}

// WithoutToken returns a copy for the log.
func (r *JobRevertRequest) WithoutToken() *JobRevertRequest {
	c := *r
	c.ConsulToken = ""
	return &c
}

// JobVersionTag is the name that a user gave a version of a job, at TaggedTime (UnixNano). The version stays.
type JobVersionTag struct {
	Name, Description string
	TaggedTime        int64
}

// JobScale changes the count of a group.
var JobScale = Write[JobScaleRequest, JobRegisterResponse]("Job.Scale")

// JobScaleRequest has the new count of a group. A JobModifyIndex that is not 0 must be the job's. Without a
// Count the servers only store the event.
type JobScaleRequest struct {
	JobID          string
	Group          string
	Count          *int64
	JobModifyIndex uint64
	Message        string         `json:",omitempty" codec:",omitempty"` // of the event
	Error          bool           `json:",omitempty" codec:",omitempty"` // likewise
	Meta           map[string]any `json:",omitempty" codec:",omitempty"` // likewise
	WriteOptions
}

// JobScaleStatus reads the counts of the groups of a job.
var JobScaleStatus = Read[JobGetRequest, JobScaleStatusResponse]("Job.ScaleStatus")

// JobScaleStatusResponse has the counts of the groups of a job.
type JobScaleStatusResponse struct {
	JobScaleStatus *JobScaleCounts
	QueryMeta
}

// JobScaleCounts has the counts of the groups of a job.
type JobScaleCounts struct {
	JobID          string
	Namespace      string
	JobCreateIndex uint64
	JobModifyIndex uint64
	JobStopped     bool
	TaskGroups     map[string]*TaskGroupScaleStatus
}

// TaskGroupScaleStatus counts the allocations of a group.
type TaskGroupScaleStatus struct {
	Desired   int
	Placed    int
	Running   int
	Healthy   int
	Unhealthy int
	Events    []*ScalingEvent // the newest first
}
