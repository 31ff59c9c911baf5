package structs

import (
	"time"
)

// JobPlan tells what the registration of a job would change. It changes nothing.
var JobPlan = Read[JobPlanRequest, JobPlanResponse]("Job.Plan")

// JobPlanRequest has the job. With Diff the response has the difference to the stored version.
type JobPlanRequest struct {
	Job  *Job
	Diff bool
	QueryOptions
}

// JobPlanResponse has the effects of a registration. JobModifyIndex is the stored job's, 0 if there is none:
// a registration that enforces it finds the same job.
type JobPlanResponse struct {
	JobModifyIndex uint64
	// CreatedEvals continue the plan: one that waits for capacity, and later ones.
	CreatedEvals       []*Evaluation
	Diff               *JobDiff
	Annotations        *PlanAnnotations
	FailedTGAllocs     map[string]*AllocMetric // groups of which not all allocations can be placed
	NextPeriodicLaunch time.Time               // zero if the job is not periodic
	Warnings           string
	QueryMeta
}

// PlanAnnotations has the decisions on the allocations of a job.
type PlanAnnotations struct {
	DesiredTGUpdates map[string]*DesiredUpdates // by group, also by a group that the job has no longer
	PreemptedAllocs  []*AllocListStub
	// Volumes are the volumes that the job asks for and the plan changes, by ID.
	Volumes []*VolumeChange `json:",omitempty" codec:",omitempty"`
}

// The changes of a volume that a job asks for.
const (
	VolumeCreate = "create"
	VolumeAdopt  = "adopt" // an earlier job with the same ID has left it
	VolumeGrow   = "grow"
	VolumeDelete = "delete" // with its allocation
	VolumeKeep   = "keep"   // no allocation uses it any more, and it stays
)

// VolumeChange is the effect of a plan on one volume.
type VolumeChange struct {
	ID     string
	Class  string
	Bytes  int64  // the capacity that the job asks for
	Change string // VolumeCreate and so on
}

// DesiredUpdates counts the allocations of a group by the decision on them. Those that find no place count
// nevertheless.
type DesiredUpdates struct {
	Ignore            uint64 // continue unchanged
	Place             uint64 // are new, or replace one that has ended
	Migrate           uint64 // are stopped, and placed again elsewhere
	Stop              uint64 // are stopped and not replaced
	InPlaceUpdate     uint64 // continue with the new version
	DestructiveUpdate uint64 // are replaced by the new version
	Canary            uint64 // are placed beside the old version until somebody promotes them
	Preemptions       uint64 // of other jobs, which the group displaces
}

// Changes reports whether an allocation is created or ends.
func (u *DesiredUpdates) Changes() bool {
	return u.Place+u.Migrate+u.Stop+u.DestructiveUpdate+u.Canary+u.Preemptions > 0
}

// The names of the effects on allocations in a difference, as the dialect has them.
const (
	UpdateIgnore      = "ignore"
	UpdateCreate      = "create"
	UpdateDestroy     = "destroy"
	UpdateMigrate     = "migrate"
	UpdateCanary      = "canary"
	UpdateInPlace     = "in-place update"
	UpdateDestructive = "create/destroy update"
	UpdatePreemptions = "preemptions"
)
