package structs

import (
	"maps"
	"slices"
	"time"
)

// The states of a deployment. Pending, blocked and unblocking need several regions: berth has none.
const (
	DeploymentRunning    = "running"
	DeploymentPaused     = "paused"
	DeploymentFailed     = "failed"
	DeploymentSuccessful = "successful"
	DeploymentCancelled  = "cancelled"
	DeploymentPending    = "pending"
	DeploymentBlocked    = "blocked"
	DeploymentUnblocking = "unblocking"
)

// The descriptions of deployments, as the dialect has them.
const (
	DeploymentIsRunning          = "Deployment is running"
	DeploymentNeedsPromotion     = "Deployment is running but requires manual promotion"
	DeploymentAutoPromotes       = "Deployment is running pending automatic promotion"
	DeploymentIsPaused           = "Deployment is paused"
	DeploymentIsComplete         = "Deployment completed successfully"
	DeploymentOfStoppedJob       = "Cancelled because job is stopped"
	DeploymentOfOldVersion       = "Cancelled due to newer version of job"
	DeploymentFailedByUser       = "Deployment marked as failed"
	DeploymentFailedByAlloc      = "Failed due to unhealthy allocations"
	DeploymentFailedByDeadline   = "Failed due to progress deadline"
	DeploymentRollsBack          = " - rolling back to job version "
	DeploymentHasNoStable        = " - no stable job version to auto revert to"
	DeploymentStableIsOther      = " - not rolling back: only one of the versions is periodic, or parameterized"
	DeploymentStableIsRejected   = " - not rolling back: the namespace does not allow the stable version"
	DeploymentStableHasNoVolumes = " - not rolling back: the stable version cannot have its volumes: "
	DeploymentStableIsIdentical  = " - not rolling back: the stable version has the current specification"
)

// Deployment is the row of the rollout of one version of a job. Key: ID. While it is active, its counts
// follow its allocations; later they stay as they were.
type Deployment struct {
	ID                 string
	Namespace          string
	JobID              string
	JobVersion         uint64
	JobModifyIndex     uint64
	JobSpecModifyIndex uint64 // the JobModifyIndex of the job
	JobCreateIndex     uint64
	IsMultiregion      bool // always false
	TaskGroups         map[string]*DeploymentState
	Status             string
	StatusDescription  string
	RevertedVersion    *uint64 `json:",omitempty" codec:",omitempty"` // to which its failure led back
	EvalPriority       int
	CreateTime         int64
	ModifyTime         int64
	Indexes
}

// DeploymentState is the rollout of one group.
type DeploymentState struct {
	AutoRevert        bool
	AutoPromote       bool
	ProgressDeadline  time.Duration
	RequireProgressBy time.Time // zero: nothing is placed yet, or the deployment is paused
	Promoted          bool
	PlacedCanaries    []string // IDs of allocations
	DesiredCanaries   int
	DesiredTotal      int
	PlacedAllocs      int // with ended ones
	HealthyAllocs     int // without ended ones, canaries or not
	UnhealthyAllocs   int // with ended ones
}

// Copy returns a copy. The caller may change its groups.
func (d *Deployment) Copy() *Deployment {
	c := *d
	c.TaskGroups = maps.Clone(d.TaskGroups)
	for name, s := range c.TaskGroups {
		own := *s
		own.PlacedCanaries = slices.Clone(s.PlacedCanaries)
		c.TaskGroups[name] = &own
	}
	return &c
}

// Active reports whether the deployment has not ended.
func (d *Deployment) Active() bool {
	return d.Status == DeploymentRunning || d.Status == DeploymentPaused
}

// Waits reports whether the group has reached its aim, or can do nothing before an operator promotes its
// canaries. HealthyAllocs does not tell how many canaries are healthy: the group may have other allocations
// of the version, for example after updates in place.
func (s *DeploymentState) Waits(healthyCanaries int) bool {
	if s.AwaitsPromotion() {
		return healthyCanaries >= s.DesiredCanaries
	}
	return s.HealthyAllocs >= s.DesiredTotal
}

// Group returns the rollout of a group, nil if the deployment does not concern it.
func (d *Deployment) Group(name string) *DeploymentState {
	if d == nil {
		return nil
	}
	return d.TaskGroups[name]
}

// Reverts reports whether the deployment goes back to the newest stable version when it fails.
func (d *Deployment) Reverts() bool {
	for _, s := range d.TaskGroups {
		if s.AutoRevert {
			return true
		}
	}
	return false
}

// AwaitsPromotion reports whether the group has canaries that are not promoted.
func (s *DeploymentState) AwaitsPromotion() bool {
	return s != nil && s.DesiredCanaries > 0 && !s.Promoted
}

// AwaitsPromotion reports whether a group has canaries that are not promoted.
func (d *Deployment) AwaitsPromotion() bool {
	for _, s := range d.TaskGroups {
		if s.AwaitsPromotion() {
			return true
		}
	}
	return false
}

// AutoPromotes reports whether all canaries are promoted without an operator once they are healthy.
func (d *Deployment) AutoPromotes() bool {
	for _, s := range d.TaskGroups {
		if s.AwaitsPromotion() && !s.AutoPromote {
			return false
		}
	}
	return d.AwaitsPromotion()
}

// DefaultDescription describes a deployment by its state, "" for one that has failed.
func (d *Deployment) DefaultDescription() string {
	switch {
	case d.Status == DeploymentPaused:
		return DeploymentIsPaused
	case d.Status == DeploymentSuccessful:
		return DeploymentIsComplete
	case d.Status != DeploymentRunning:
		return ""
	case d.AutoPromotes():
		return DeploymentAutoPromotes
	case d.AwaitsPromotion():
		return DeploymentNeedsPromotion
	}
	return DeploymentIsRunning
}

// AllocDeploymentStatus is the health of an allocation in its deployment, or by itself: as in the dialect, an
// allocation of a service in no deployment has it for the drains of nodes. Healthy is nil while it is not
// known. An allocation that is a Canary is not promoted yet.
type AllocDeploymentStatus struct {
	Healthy     *bool
	Timestamp   time.Time
	Canary      bool
	ModifyIndex uint64
}

// IsHealthy reports whether the allocation is known to be healthy.
func (s *AllocDeploymentStatus) IsHealthy() bool {
	return s != nil && s.Healthy != nil && *s.Healthy
}

// IsUnhealthy reports whether the allocation is known to be unhealthy.
func (s *AllocDeploymentStatus) IsUnhealthy() bool {
	return s != nil && s.Healthy != nil && !*s.Healthy
}

// IsKnown reports whether the health of the allocation is known.
func (s *AllocDeploymentStatus) IsKnown() bool {
	return s != nil && s.Healthy != nil
}

// IsCanary reports whether the allocation is a canary that is not promoted.
func (s *AllocDeploymentStatus) IsCanary() bool {
	return s != nil && s.Canary
}

// TakesHealth reports whether a report changes the health of the allocation. A known health stays; only an
// unhealthy allocation in no deployment may become healthy.
func (a *Allocation) TakesHealth(h *AllocDeploymentStatus) bool {
	old := a.DeploymentStatus
	return h.IsKnown() && !old.IsKnown() || h.IsHealthy() && old.IsUnhealthy() && a.DeploymentID == ""
}

// DeploymentStatusUpdate changes the state of a deployment. With a RowIndex it has an effect only while the
// row was not changed since that index.
type DeploymentStatusUpdate struct {
	DeploymentID      string
	Status            string
	StatusDescription string
	RowIndex          uint64 `json:",omitempty" codec:",omitempty"`
}

// DeploymentList lists deployments.
var DeploymentList = Read[QueryRequest, DeploymentListResponse]("Deployment.List")

// The methods that read the deployments of one job: all, or the newest.
var (
	JobDeployments      = Read[JobGetRequest, DeploymentListResponse]("Job.Deployments")
	JobLatestDeployment = Read[JobGetRequest, DeploymentGetResponse]("Job.LatestDeployment")
)

// DeploymentListResponse has the deployments that match.
type DeploymentListResponse struct {
	Deployments []*Deployment
	QueryMeta
}

// The methods that read one deployment or its allocations.
var (
	DeploymentGet         = Read[DeploymentGetRequest, DeploymentGetResponse]("Deployment.GetDeployment")
	DeploymentAllocations = Read[DeploymentGetRequest, AllocListResponse]("Deployment.Allocations")
)

// DeploymentGetRequest is the request for one deployment.
type DeploymentGetRequest struct {
	DeploymentID string
	QueryOptions
}

// DeploymentGetResponse has the deployment.
type DeploymentGetResponse struct {
	Deployment *Deployment
	QueryMeta
}

// The methods that change a deployment.
var (
	DeploymentFail      = Write[DeploymentFailRequest, DeploymentUpdateResponse]("Deployment.Fail")
	DeploymentPause     = Write[DeploymentPauseRequest, DeploymentUpdateResponse]("Deployment.Pause")
	DeploymentPromote   = Write[DeploymentPromoteRequest, DeploymentUpdateResponse]("Deployment.Promote")
	DeploymentUnblock   = Write[DeploymentFailRequest, DeploymentUpdateResponse]("Deployment.Unblock")
	DeploymentSetHealth = Write[DeploymentHealthRequest, DeploymentUpdateResponse](
		"Deployment.SetAllocHealth")
)

// DeploymentFailRequest names the deployment.
type DeploymentFailRequest struct {
	DeploymentID string
	WriteOptions
}

// DeploymentPauseRequest pauses a deployment, or lets it go on.
type DeploymentPauseRequest struct {
	DeploymentID string
	Pause        bool
	WriteOptions
}

// DeploymentPromoteRequest promotes the canaries of all groups or of some.
type DeploymentPromoteRequest struct {
	DeploymentID string
	All          bool
	Groups       []string
	Eval         *Evaluation // set by the server
	WriteOptions
}

// DeploymentHealthRequest decides the health of allocations of a deployment.
type DeploymentHealthRequest struct {
	DeploymentID           string
	HealthyAllocationIDs   []string
	UnhealthyAllocationIDs []string
	Eval                   *Evaluation // set by the server
	WriteOptions
}

// DeploymentStatusRequest is the log entry that changes the state of a deployment.
type DeploymentStatusRequest struct {
	DeploymentStatusUpdate
	Eval *Evaluation // of its job, to put with it, or nil
	WriteOptions
}

// DeploymentUpdateResponse names the evaluation that follows, and the version that the job went back to.
type DeploymentUpdateResponse struct {
	EvalID                string
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64
	WriteMeta
}

// JobStable sets whether a version of a job is stable.
var JobStable = Write[JobStableRequest, JobStableResponse]("Job.Stable")

// JobStableRequest names the version.
type JobStableRequest struct {
	JobID      string
	JobVersion uint64
	Stable     bool
	WriteOptions
}

// JobStableResponse has the index of the job.
type JobStableResponse struct {
	JobModifyIndex uint64
	WriteMeta
}
