package structs

import (
	"maps"
	"strings"
	"time"
)

// The states of an evaluation.
const (
	EvalPending   = "pending"
	EvalBlocked   = "blocked" // waits until one of its BlockedOn keys is unblocked
	EvalComplete  = "complete"
	EvalFailed    = "failed"
	EvalCancelled = "canceled"
)

// Why an evaluation was made.
const (
	TriggerJobRegister   = "job-register"
	TriggerJobDeregister = "job-deregister"
	TriggerNodeUpdate    = "node-update"
	TriggerAllocFailure  = "alloc-failure"
	TriggerAllocStop     = "alloc-stop"
	TriggerQueuedAllocs  = "queued-allocs"  // could not place all; blocked
	TriggerScheduled     = "scheduled"      // a delayed rescheduling has come due
	TriggerRollingUpdate = "rolling-update" // the next allocations of an update have come due
	TriggerPreemption    = "preemption"     // an allocation of the job was displaced
	TriggerManual        = "manual"
	TriggerScaling       = "job-scaling" // the count of a group was changed
	TriggerNodeDrain     = "node-drain"
	TriggerDeployment    = "deployment-watcher" // its deployment has changed
	TriggerPeriodicJob   = "periodic-job"       // a child was launched
	TriggerReconnect     = "reconnect"          // a node is back with an allocation that was unknown
)

// WakeCapacity is the unblock key of evaluations that found too little capacity. Each key names one kind of
// change that may help a blocked evaluation.
const WakeCapacity = "capacity" // a node came, became eligible, or an allocation ended

// WakeNodes is the unblock key of a new or changed node, for jobs that run on every node and so far on none.
const WakeNodes = "nodes"

// WakeNode returns the unblock key of freed capacity on a node, for per-node jobs that found none there.
func WakeNode(id string) string { return "node:" + id }

// ManyNodes is the most nodes for which an evaluation waits one by one. Beyond, it waits for capacity
// anywhere.
const ManyNodes = 128

// ManyVolumes is the most volumes of a node for which an evaluation waits one by one. If a plugin allows a
// node more, releasing one of them unblocks the plugin's own key, too.
const ManyVolumes = 128

// WakePlugin returns the unblock key of a CSI plugin that becomes usable somewhere.
func WakePlugin(id string) string { return "csi-plugin:" + id }

// WakeVolume returns the unblock key of a CSI volume that is added or changed, or of which a claim is
// released.
func WakeVolume(ns, id string) string {
	return volumeKeyPrefix + ns + ":" + id
}

// WakeHostVolume returns the unblock key of dynamic host volumes with a name, whatever their nodes are.
func WakeHostVolume(ns, name string) string { return "host-volume:" + ns + ":" + name }

const volumeKeyPrefix = "csi-volume:"

// WakesVolume reports whether a key names a volume.
func WakesVolume(key string) bool {
	return strings.HasPrefix(key, volumeKeyPrefix)
}

// Evaluation is the row of one request to reconcile a job. Key: ID.
type Evaluation struct {
	ID                string
	Namespace         string
	Priority          int
	Type              string // the job's type
	TriggeredBy       string
	JobID             string
	JobModifyIndex    uint64
	NodeID            string
	DeploymentID      string `json:",omitempty" codec:",omitempty"` // that its plan began or continued
	Status            string
	StatusDescription string
	// why a pending one is processed again; "": it is new, or its plan did not fit
	Again             string `json:",omitempty"`
	WaitUntil         int64  // UnixNano before which it is not to be processed; 0: at once
	NextEval          string
	PreviousEval      string
	BlockedEval       string
	QuotaLimitReached string `json:",omitempty" codec:",omitempty"` // the quota that it waits for
	FailedTGAllocs    map[string]*AllocMetric
	QueuedAllocations map[string]int
	// unblock keys, of a blocked evaluation, and of an unblocked one until it is processed
	BlockedOn []string
	// evaluations of one shape fit or fail together; "": the evaluation has no shape
	Shape         string `json:",omitempty"`
	Placed        bool   `json:",omitempty"` // allocations name the evaluation
	SnapshotIndex uint64 // of the state it was last processed against
	CreateTime    int64
	ModifyTime    int64
	Indexes
}

// The values of Evaluation.Again.
const (
	EvalMore    = "more"    // one plan cannot place all allocations
	EvalWoken   = "woken"   // it waited for a key and was unblocked
	EvalChanged = "changed" // its inputs have changed since its plan was made
)

// Wait returns the time between the creation of an evaluation that continues an update in batches and its
// processing, 0 for all others. Clients of the dialect show when the next batch follows.
func (e *Evaluation) Wait() time.Duration {
	if e.TriggeredBy != TriggerRollingUpdate || e.WaitUntil == 0 {
		return 0
	}
	return time.Duration(max(0, e.WaitUntil-e.CreateTime))
}

// NewEval returns a new pending evaluation of a job, still without an ID. now is UnixNano.
func NewEval(j *Job, trigger string, now int64) *Evaluation {
	return &Evaluation{
		Namespace:      j.Namespace,
		Priority:       j.Priority,
		Type:           j.Type,
		TriggeredBy:    trigger,
		JobID:          j.ID,
		JobModifyIndex: j.JobModifyIndex,
		Status:         EvalPending,
		CreateTime:     now,
		ModifyTime:     now,
	}
}

// SetPriority gives an evaluation another priority than its job's. 0 changes nothing.
func (e *Evaluation) SetPriority(priority int) error {
	switch {
	case priority == 0:
		return nil
	case priority < JobMinPriority || priority > JobMaxPriority:
		return Invalidf("EvalPriority is %d; expected a number from %d to %d",
			priority, JobMinPriority, JobMaxPriority)
	case e != nil:
		e.Priority = priority
	}
	return nil
}

// Copy returns a copy; metrics are shared.
func (e *Evaluation) Copy() *Evaluation {
	c := *e
	c.FailedTGAllocs = maps.Clone(e.FailedTGAllocs)
	c.QueuedAllocations = maps.Clone(e.QueuedAllocations)
	c.BlockedOn = append([]string(nil), e.BlockedOn...)
	return &c
}

// Terminal reports whether the evaluation has ended.
func (e *Evaluation) Terminal() bool {
	return e.Status == EvalComplete ||
		e.Status == EvalFailed || e.Status == EvalCancelled
}

// The methods that read one evaluation or its allocations.
var (
	EvalGet    = Read[EvalGetRequest, EvalGetResponse]("Eval.GetEval")
	EvalAllocs = Read[EvalGetRequest, AllocListResponse]("Eval.Allocations")
)

// EvalGetRequest is the request for one evaluation.
type EvalGetRequest struct {
	EvalID string
	QueryOptions
}

// EvalGetResponse has the evaluation.
type EvalGetResponse struct {
	Eval *Evaluation
	QueryMeta
}

// EvalList lists evaluations.
var EvalList = Read[EvalListRequest, EvalListResponse]("Eval.List")

// EvalListRequest selects the evaluations of a job and those with a status, if they are set.
type EvalListRequest struct {
	JobID  string `json:",omitempty" codec:",omitempty"`
	Status string `json:",omitempty" codec:",omitempty"`
	QueryOptions
}

// EvalListResponse has the evaluations that match.
type EvalListResponse struct {
	Evaluations []*Evaluation
	QueryMeta
}

// EvalCount counts the evaluations that EvalList lists.
var EvalCount = Read[EvalListRequest, EvalCountResponse]("Eval.Count")

// EvalCountResponse has the number of evaluations that match.
type EvalCountResponse struct {
	Count int
	QueryMeta
}

// EvalDelete deletes evaluations that have ended.
var EvalDelete = Write[EvalDeleteRequest, EvalDeleteResponse]("Eval.Delete")

// EvalDeleteRequest names evaluations: by their IDs, or by a Filter over the namespace. With IDs all of them
// must have ended, and no allocation may name one. A filter passes over the others.
type EvalDeleteRequest struct {
	EvalIDs []string
	Filter  string
	WriteOptions
}

// EvalDeleteResponse has the number of evaluations that were deleted.
type EvalDeleteResponse struct {
	Count int
	WriteMeta
}

// EvalUpdateRequest writes evaluations. As a log entry it makes a blocked evaluation pending at once if one
// of its keys was unblocked after its SnapshotIndex.
type EvalUpdateRequest struct {
	Evals []*Evaluation
	Wake  int // the number of further queues of an unblocked key whose heads become pending
	WriteOptions
}

// Plan is the scheduler's decision for one evaluation. The log entry applies it all or nothing per node. The
// state rejects allocations that no longer fit (node deleted or not eligible, no capacity) and then makes the
// evaluation pending again.
type Plan struct {
	Eval      *Evaluation   // its state after the plan: complete, failed, ...
	Blocked   *Evaluation   // a blocked evaluation to put with it, or nil
	Followups []*Evaluation // delayed evaluations (rescheduling)
	Place     []*Allocation // new; Job nil, JobVersion set
	Stop      []*PlanStop   // to be stopped
	Update    []*PlanUpdate
	// the deployment that the plan begins, or nil
	Deployment        *Deployment               `json:",omitempty" codec:",omitempty"`
	DeploymentUpdates []*DeploymentStatusUpdate `json:",omitempty" codec:",omitempty"`
	JobModifyIndex    uint64
	// Rest has the plans that continue this one, each once the one before it is applied and nothing has
	// changed the evaluation. Each is a log entry of its own, and none has a rest.
	Rest []*Plan `json:"-" codec:"-"`
	WriteOptions
}

// PlanStop stops an allocation.
type PlanStop struct {
	AllocID        string
	Description    string
	Cause          StopCause `json:",omitempty" codec:",omitempty"`
	ClientStatus   string    // "lost" when its node is down, else ""
	FollowupEvalID string
	PreemptedBy    string // the allocation of the plan that displaces it
}

// PlanUpdate changes an allocation in place (a new job version that needs no restart), links it to the
// evaluation that will replace it, or follows the loss and the return of its node.
type PlanUpdate struct {
	AllocID        string
	JobVersion     uint64
	SetJobVersion  bool
	FollowupEvalID string
	DeploymentID   string `json:",omitempty" codec:",omitempty"` // with SetJobVersion: of the new version
	// Unknown makes the allocation unknown, unless it has ended or its node is back.
	Unknown bool `json:",omitempty" codec:",omitempty"`
	// KeepOriginal takes back that the allocation was replaced: its node is back, and it stays.
	KeepOriginal bool `json:",omitempty" codec:",omitempty"`
}

// ReapRequest deletes unused rows. Apply checks each row again and keeps a row that is used after all.
type ReapRequest struct {
	Evals  []string
	Allocs []string
	Jobs   []JobKey
	Nodes  []string
	// Index is the index of the state of which the rows were chosen. A row that has changed since stays.
	Index uint64 `codec:",omitempty"`
	WriteOptions
}

// JobKey names a job.
type JobKey struct {
	Namespace string
	ID        string
}
