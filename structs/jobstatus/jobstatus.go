// Package jobstatus has the method that reads the states of jobs together with their allocations, in the
// shape of the dialect, for pages that show many jobs.
package jobstatus

import "berth/structs"

// MaxJobs is the most jobs that one request names.
const MaxJobs = 1000

// Statuses reads the states of jobs, the last changed job first.
var Statuses = structs.Read[JobStatusesRequest, JobStatusesResponse]("Job.Statuses")

// JobStatusesRequest selects jobs of the namespaces of the request. The filter is an expression over
// structs.Job. The answer does not sort by another key.
type JobStatusesRequest struct {
	// Jobs names the jobs. None stands for all. Those that do not exist are left out.
	Jobs                 []JobName `json:",omitempty" codec:",omitempty" level:"2"`
	IncludeChildren      bool      `json:",omitempty" codec:",omitempty" level:"2"`
	structs.QueryOptions `level:"2"`
}

// JobName names a job. An empty namespace is that of the request.
type JobName struct {
	ID        string `level:"2"`
	Namespace string `json:",omitempty" codec:",omitempty" level:"2"`
}

// JobStatusesResponse has the states.
type JobStatusesResponse struct {
	Jobs              []*JobStatus `level:"2"`
	structs.QueryMeta `level:"2"`
}

// JobStatus is the state of a job.
type JobStatus struct {
	ID            string         `level:"2"`
	Namespace     string         `level:"2"`
	Name          string         `level:"2"`
	Type          string         `level:"2"`
	NodePool      string         `level:"2"`
	Datacenters   []string       `level:"2"`
	Priority      int            `level:"2"`
	Version       uint64         `level:"2"`
	SubmitTime    int64          `level:"2"`
	ModifyIndex   uint64         `level:"2"`
	Status        string         `level:"2"`
	Stop          bool           `level:"2"`
	IsPack        bool           `level:"2"` // its meta says that a pack made it
	ParentID      string         `level:"2"`
	GroupCountSum int            `level:"2"`
	Allocs        []*AllocStatus `level:"2"` // without those of an earlier job of the same ID
	ChildStatuses []string       `level:"2"` // null for a job that starts no others
	// LatestDeployment is nil for a job without one.
	LatestDeployment *DeploymentSummary `level:"2"`
}

// AllocStatus is the state of an allocation.
type AllocStatus struct {
	ID               string      `level:"2"`
	Group            string      `level:"2"`
	ClientStatus     string      `level:"2"`
	NodeID           string      `level:"2"`
	DeploymentStatus AllocHealth `level:"2"`
	JobVersion       uint64      `level:"2"`
	FollowupEvalID   string      `level:"2"`
}

// AllocHealth is the part of an allocation in a deployment.
type AllocHealth struct {
	Canary  bool  `level:"2"`
	Healthy *bool `level:"2"` // nil: not known yet
}

// DeploymentSummary is the state of a deployment.
type DeploymentSummary struct {
	ID                string `level:"2"`
	IsActive          bool   `level:"2"`
	JobVersion        uint64 `level:"2"`
	Status            string `level:"2"`
	StatusDescription string `level:"2"`
	AllAutoPromote    bool   `level:"2"` // all groups with canaries are promoted without an operator
	RequiresPromotion bool   `level:"2"`
}
