package structs

// MaxJobStatuses is the most jobs that one request names.
const MaxJobStatuses = 1000

// JobStatuses reads the states of jobs together with their allocations, in the shape of the dialect, the last
// changed job first.
var JobStatuses = Read[JobStatusesRequest, JobStatusesResponse]("Job.Statuses")

// JobStatusesRequest selects jobs of the namespaces of the request. The filter is an expression over
// Job. The answer does not sort by another key.
type JobStatusesRequest struct {
	// Jobs names the jobs. None stands for all. Those that do not exist are left out.
	Jobs            []JobName `json:",omitempty" codec:",omitempty"`
	IncludeChildren bool      `json:",omitempty" codec:",omitempty"`
	QueryOptions
}

// JobName names a job. An empty namespace is the request's.
type JobName struct {
	ID        string
	Namespace string `json:",omitempty" codec:",omitempty"`
}

// JobStatusesResponse has the states.
type JobStatusesResponse struct {
	Jobs []*JobStatus
	QueryMeta
}

// JobStatus is the state of a job.
type JobStatus struct {
	ID            string
	Namespace     string
	Name          string
	Type          string
	NodePool      string
	Datacenters   []string
	Priority      int
	Version       uint64
	SubmitTime    int64
	ModifyIndex   uint64
	Status        string
	Stop          bool
	IsPack        bool // its meta says that a pack made it
	ParentID      string
	GroupCountSum int
	Allocs        []*AllocStatus // without an earlier job's of the same ID
	ChildStatuses []string       // null for a job that starts no others
	// LatestDeployment is nil for a job without one.
	LatestDeployment *DeploymentSummary
}

// AllocStatus is the state of an allocation.
type AllocStatus struct {
	ID               string
	Group            string
	ClientStatus     string
	NodeID           string
	DeploymentStatus AllocHealth
	JobVersion       uint64
	FollowupEvalID   string
}

// AllocHealth is the part of an allocation in a deployment.
type AllocHealth struct {
	Canary  bool
	Healthy *bool // nil: not known yet
}

// DeploymentSummary is the state of a deployment.
type DeploymentSummary struct {
	ID                string
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool // all groups with canaries are promoted without an operator
	RequiresPromotion bool
}
