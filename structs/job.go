package structs

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// The types of a job.
const (
	JobService  = "service"  // runs until stopped
	JobBatch    = "batch"    // runs to completion
	JobSystem   = "system"   // one of each group on every feasible node
	JobSysBatch = "sysbatch" // to completion, on every feasible node
)

// The states of a job.
const (
	JobPending = "pending"
	JobRunning = "running"
	JobDead    = "dead"
)

// The bounds of a job's priority.
const (
	JobMinPriority     = 1
	JobDefaultPriority = 50
	JobMaxPriority     = 100
)

// Constraint restricts placement (on a job, group or task): LTarget and RTarget may hold ${attr.x},
// ${meta.x}, ${node.x}; Operand is one of =, !=, <, <=, >, >=, regexp, version, semver, set_contains,
// set_contains_all, set_contains_any, is_set, is_not_set; on a job or group also distinct_hosts and
// distinct_property.
type Constraint struct {
	LTarget string
	RTarget string
	Operand string
}

// Job is the row of the current version of a job. Key: (Namespace, ID).
type Job struct {
	Region            string
	Namespace         string
	ID                string
	Name              string
	Type              string
	Priority          int
	AllAtOnce         bool `codec:",omitempty"` // a plan is applied as a whole or not at all
	Datacenters       []string
	NodePool          string
	Constraints       []*Constraint
	Affinities        []*Affinity `json:",omitempty" codec:",omitempty"`
	Spreads           []*Spread   `json:",omitempty" codec:",omitempty"`
	TaskGroups        []*TaskGroup
	Update            *UpdateStrategy  `json:",omitempty" codec:",omitempty"` // see canonicalizeUpdates
	Migrate           *MigrateStrategy `json:",omitempty" codec:",omitempty"` // of its groups; no row has it
	Meta              map[string]string
	Stop              bool // deregistered: no allocation of the job is to run
	Status            string
	StatusDescription string
	Stable            bool
	Version           uint64
	SubmitTime        int64
	// EndTime is when the job became dead, UnixNano, and 0 while it is not. The row of a version has none.
	EndTime int64 `json:",omitempty" codec:",omitempty"`
	// ConsulToken proves the rights of the submitter. It is in requests over HTTP alone: no row and no answer
	// has it.
	ConsulToken    Secret         `json:",omitempty" codec:"-"`
	JobModifyIndex uint64         // when the specification last changed; ModifyIndex also moves with Status
	VersionTag     *JobVersionTag `json:",omitempty" codec:",omitempty"` // of this version

	Periodic         *PeriodicConfig         `json:",omitempty" codec:",omitempty"`
	ParameterizedJob *ParameterizedJobConfig `json:",omitempty" codec:",omitempty"`

	// The servers set the rest in a child of a job with one of these.
	ParentID                 string `json:",omitempty" codec:",omitempty"`
	Dispatched               bool   `json:",omitempty" codec:",omitempty"`
	Payload                  []byte `json:",omitempty" codec:",omitempty"`
	DispatchIdempotencyToken string `json:",omitempty" codec:",omitempty"`
	Indexes
}

// Copy returns a copy. The caller may change its own fields; task groups are shared.
func (j *Job) Copy() *Job {
	c := *j
	c.TaskGroups = slices.Clone(j.TaskGroups)
	c.Constraints = slices.Clone(j.Constraints)
	c.Affinities = slices.Clone(j.Affinities)
	c.Spreads = slices.Clone(j.Spreads)
	c.Datacenters = slices.Clone(j.Datacenters)
	c.Meta = maps.Clone(j.Meta)
	return &c
}

// DropServerFields empties the fields that the servers alone fill in, and the token, which they do not store.
func (j *Job) DropServerFields() {
	j.Status = ""
	j.StatusDescription = ""
	j.Stable = false
	j.Version = 0
	j.SubmitTime = 0
	j.EndTime = 0
	j.ConsulToken = ""
	j.JobModifyIndex = 0
	j.VersionTag = nil
	j.SetParent(&Job{})
	j.Indexes = Indexes{}
}

// SetParent gives the job the place that another one has as a child.
func (j *Job) SetParent(as *Job) {
	j.ParentID = as.ParentID
	j.Dispatched = as.Dispatched
	j.Payload = as.Payload
	j.DispatchIdempotencyToken = as.DispatchIdempotencyToken
}

// Group returns the task group with a name, nil if there is none.
func (j *Job) Group(name string) *TaskGroup {
	for _, g := range j.TaskGroups {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// PerNode reports whether the job places one of each group on every feasible node.
func (j *Job) PerNode() bool {
	return j.Type == JobSystem || j.Type == JobSysBatch
}

// Finite reports whether the job's tasks are expected to end by themselves.
func (j *Job) Finite() bool {
	return j.Type == JobBatch || j.Type == JobSysBatch
}

// Plugins lists the plugin IDs that the job's tasks run, without duplicates.
func (j *Job) Plugins() []string {
	var ids []string
	for _, g := range j.TaskGroups {
		for _, id := range g.Plugins() {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// RestartPolicy tells the node how to restart a failed task: up to Attempts times within Interval, Delay
// apart. Then Mode "fail" ends the allocation, and "delay" waits for the next interval.
type RestartPolicy struct {
	Attempts int
	Interval time.Duration
	Delay    time.Duration
	Mode     string
}

// ReschedulePolicy decides when the servers replace a failed allocation.
type ReschedulePolicy struct {
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string // constant, exponential, fibonacci
	MaxDelay      time.Duration
	Unlimited     bool
}

// VolumeRequest is a group's `volume "alias" {}`.
type VolumeRequest struct {
	Name           string // the alias
	Type           string // "csi" or "host"
	Source         string // the volume's ID; with PerAlloc the prefix of it; the name of a host volume
	ReadOnly       bool
	AccessMode     CSIAccessMode
	AttachmentMode CSIAttachmentMode
	MountOptions   *CSIMountOptions
	PerAlloc       bool
	Ownership      *VolumeOwnership `json:",omitempty" codec:",omitempty"`
	// Class and Size, in bytes, make it a volume that the servers create for the job: see package storage.
	Class string `json:",omitempty" codec:",omitempty"`
	Size  int64  `json:",omitempty" codec:",omitempty"`
	// Lifecycle is LifecycleAlloc or LifecycleInline, "" for a volume of the job: see package storage.
	Lifecycle string `json:",omitempty" codec:",omitempty"`
	// OnDeadMount is restart, republish or ignore; "" restarts, but for states that only a written restart
	// heals.
	OnDeadMount string `json:",omitempty" codec:",omitempty"`
	// PluginID and Parameters are for a volume with LifecycleInline.
	PluginID   string            `json:",omitempty" codec:",omitempty"`
	Parameters map[string]string `json:",omitempty" codec:",omitempty"`
	Sticky     bool              `json:",omitempty" codec:",omitempty"` // of host volumes: see hostuse
}

// VolumeOwnership is `ownership {}`: the wanted owner of a volume. An empty text keeps what it is for.
type VolumeOwnership struct {
	// Owner and Group are a user and a group of the node, by name or by number. Mode is octal.
	Owner, Group, Mode, Policy string `json:",omitempty" codec:",omitempty"`
}

const (
	OwnershipRootMismatch = "root-mismatch" // of VolumeOwnership.Policy: if the root directory differs
	OwnershipAlways       = "always"        // at each start of an allocation
	OwnershipNever        = "never"
)

// VolumeID returns the ID of the volume for the allocation with the index and the ID. The ID of an allocation
// that is not placed yet is "".
func (r *VolumeRequest) VolumeID(allocIndex int, allocID string) string {
	switch {
	case r.Lifecycle != "":
		return r.Source + "[" + cmp.Or(ShortID(allocID), "ALLOC") + "]"
	case r.PerAlloc:
		return PerAllocID(r.Source, allocIndex)
	}
	return r.Source
}

// EphemeralDisk is the scratch space of a group, in MiB.
type EphemeralDisk struct {
	SizeMB  int
	Sticky  bool
	Migrate bool
}

// TaskGroup is a job's unit of placement: its tasks run on one node.
type TaskGroup struct {
	Name             string
	Count            int
	Constraints      []*Constraint
	Affinities       []*Affinity `json:",omitempty" codec:",omitempty"`
	Spreads          []*Spread   `json:",omitempty" codec:",omitempty"`
	Tasks            []*Task
	RestartPolicy    *RestartPolicy
	ReschedulePolicy *ReschedulePolicy
	Update           *UpdateStrategy  `json:",omitempty" codec:",omitempty"` // nil: all are replaced at once
	Migrate          *MigrateStrategy `json:",omitempty" codec:",omitempty"`
	Scaling          *ScalingPolicy   `json:",omitempty" codec:",omitempty"`
	// Disconnect says what happens when the node has no contact to the servers; nil: the usual.
	Disconnect    *DisconnectStrategy `json:",omitempty" codec:",omitempty"`
	EphemeralDisk *EphemeralDisk
	Networks      []*NetworkResource `json:",omitempty" codec:",omitempty"`
	Volumes       map[string]*VolumeRequest
	Services      []*Service `json:",omitempty" codec:",omitempty"`
	Meta          map[string]string
	ShutdownDelay *time.Duration `json:",omitempty"`
	Consul        *Consul        `json:",omitempty" codec:",omitempty"` // the default of the tasks
	// MaxRunDuration bounds the time of an allocation of a job that ends by itself on its node; nil: no bound.
	MaxRunDuration *time.Duration `json:",omitempty" codec:",omitempty"`
}

// Ask returns the resources of one allocation of the group.
func (g *TaskGroup) Ask() Resources {
	var r Resources
	for _, t := range g.Tasks {
		if t != nil && t.Resources != nil {
			r = r.Add(*t.Resources)
		}
	}
	if g.EphemeralDisk != nil {
		r = r.Add(Resources{DiskMB: g.EphemeralDisk.SizeMB})
	}
	return r
}

// Plugins lists the plugin IDs that the group's tasks run, each once: two tasks may run its two halves.
func (g *TaskGroup) Plugins() []string {
	var ids []string
	for _, t := range g.Tasks {
		plugin := t.CSIPluginConfig
		if plugin != nil && !slices.Contains(ids, plugin.ID) {
			ids = append(ids, plugin.ID)
		}
	}
	return ids
}

// Task returns the task with a name, nil if there is none.
func (g *TaskGroup) Task(name string) *Task {
	for _, t := range g.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Task is one process (and its children) of a group.
type Task struct {
	Name            string
	Driver          string
	User            string
	Config          map[string]any // the driver's own
	Env             map[string]string
	Constraints     []*Constraint
	Affinities      []*Affinity `json:",omitempty" codec:",omitempty"`
	RestartPolicy   *RestartPolicy
	Resources       *Resources
	Meta            map[string]string
	KillTimeout     time.Duration
	KillSignal      string
	LogConfig       *LogConfig
	Leader          bool           // when it ends, the group's other tasks are stopped
	Lifecycle       *TaskLifecycle `json:",omitempty" codec:",omitempty"` // nil: a main task
	ShutdownDelay   time.Duration
	Templates       []*Template `json:",omitempty" codec:",omitempty"`
	VolumeMounts    []*VolumeMount
	CSIPluginConfig *CSIPluginConfig
	Artifacts       []*TaskArtifact `json:",omitempty" codec:",omitempty"`
	Services        []*Service      `json:",omitempty" codec:",omitempty"`
	Kind            TaskKind        `json:",omitempty" codec:",omitempty"` // its part in the service mesh

	DispatchPayload *DispatchPayloadConfig `json:",omitempty" codec:",omitempty"`

	Identity   *WorkloadIdentity   `json:",omitempty" codec:",omitempty"` // nil: workload.Default
	Identities []*WorkloadIdentity `json:",omitempty" codec:",omitempty"` // the others
	Vault      *Vault              `json:",omitempty" codec:",omitempty"` // nil: no token of Vault
	Consul     *Consul             `json:",omitempty" codec:",omitempty"` // nil: the group's
	Actions    []*Action           `json:",omitempty" codec:",omitempty"`
}

// Action is `action "name" {}`: a command of a task that users run in it by the name.
type Action struct {
	Name, Command string   `json:",omitempty" codec:",omitempty"`
	Args          []string `json:",omitempty" codec:",omitempty"`
}

// JobListStub is one job in a list.
type JobListStub struct {
	ID                string
	ParentID          string
	Name              string
	Namespace         string
	Datacenters       []string
	NodePool          string
	Type              string
	Priority          int
	Periodic          bool
	ParameterizedJob  bool
	Stop              bool
	Status            string
	StatusDescription string
	JobSummary        *JobSummary
	CreateIndex       uint64
	ModifyIndex       uint64
	JobModifyIndex    uint64
	SubmitTime        int64
	Meta              map[string]string `json:",omitempty" codec:",omitempty"`
}

// TaskGroupSummary counts a group's allocations by state.
type TaskGroupSummary struct {
	Queued   int
	Complete int
	Failed   int
	Running  int
	Starting int
	Lost     int
	Unknown  int
}

// JobSummary counts a job's allocations by group and state at the time of the read.
type JobSummary struct {
	JobID       string
	Namespace   string
	Summary     map[string]TaskGroupSummary
	Children    *JobChildrenSummary `json:",omitempty" codec:",omitempty"` // of a job that starts others
	CreateIndex uint64
	ModifyIndex uint64
}

// JobRegister registers a job.
var JobRegister = Write[JobRegisterRequest, JobRegisterResponse]("Job.Register")

// JobRegisterRequest has the job. With EnforceIndex the stored job's JobModifyIndex must equal JobModifyIndex
// (0: there must be none).
type JobRegisterRequest struct {
	Job            *Job
	EnforceIndex   bool
	JobModifyIndex uint64
	Eval           *Evaluation    // set by the server: made together with the job
	Submission     *JobSubmission `json:",omitempty" codec:",omitempty"` // the source of the job, or nil
	// PreserveCounts keeps the counts of the groups that the stored job has.
	PreserveCounts bool `json:",omitempty" codec:",omitempty"`
	EvalPriority   int  `json:",omitempty" codec:",omitempty"` // of the evaluation; 0: the job's
	// Scaling is set by the server: the registration scales a group, and stores the event.
	Scaling *GroupScalingEvent `json:",omitempty" codec:",omitempty"`
	// ConsulToken is the submitter's. The leader checks it. No entry of the log has it.
	ConsulToken Secret `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// WithoutToken returns a copy for the log.
func (r *JobRegisterRequest) WithoutToken() *JobRegisterRequest {
	c := *r
	c.ConsulToken = ""
	return &c
}

// JobRegisterResponse names the evaluation that places the job.
type JobRegisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	Warnings        string
	WriteMeta
}

// HasMemoryMax reports whether a task may use more memory than it reserves.
func (g *TaskGroup) HasMemoryMax() bool {
	return slices.ContainsFunc(g.Tasks, func(t *Task) bool {
		return t != nil && t.Resources != nil && t.Resources.MemoryMaxMB > 0
	})
}

// JobDeregister stops a job.
var JobDeregister = Write[JobDeregisterRequest, JobDeregisterResponse]("Job.Deregister")

// JobDeregisterRequest names the job. Purge also deletes it at once. NoShutdownDelay ends its tasks without
// their shutdown_delay, also tasks that are stopping already. Force also stops plugins that volumes need.
type JobDeregisterRequest struct {
	JobID           string
	Purge           bool
	Eval            *Evaluation // set by the server
	EvalPriority    int         `json:",omitempty" codec:",omitempty"` // of the evaluation; 0: the job's
	NoShutdownDelay bool        `json:",omitempty" codec:",omitempty"`
	Force           bool        `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// JobDeregisterResponse names the evaluation that stops the job's allocations.
type JobDeregisterResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	JobModifyIndex  uint64
	WriteMeta
}

// JobEvaluate creates an evaluation of a job.
var JobEvaluate = Write[JobEvaluateRequest, JobRegisterResponse]("Job.Evaluate")

// JobEvaluateRequest names the job. ForceReschedule replaces its failed allocations, whatever its policy is.
type JobEvaluateRequest struct {
	JobID           string
	ForceReschedule bool        `json:",omitempty" codec:",omitempty"`
	Eval            *Evaluation `json:",omitempty" codec:",omitempty"` // set by the server
	WriteOptions
}

// The methods that read one job or the rows of it.
var (
	JobGet         = Read[JobGetRequest, JobGetResponse]("Job.GetJob")
	JobVersions    = Read[JobGetRequest, JobVersionsResponse]("Job.GetJobVersions")
	JobSummaryGet  = Read[JobGetRequest, JobSummaryResponse]("Job.Summary")
	JobAllocations = Read[JobGetRequest, AllocListResponse]("Job.Allocations")
	JobEvaluations = Read[JobGetRequest, EvalListResponse]("Job.Evaluations")
)

// JobGetRequest names a job. All includes the allocations of former jobs of its ID, and Diffs differences.
type JobGetRequest struct {
	JobID       string
	All         bool
	Diffs       bool    `json:",omitempty" codec:",omitempty"`
	DiffTag     string  `json:",omitempty" codec:",omitempty"` // Diffs are those to its version
	DiffVersion *uint64 `json:",omitempty" codec:",omitempty"` // likewise
	QueryOptions
}

// JobGetResponse has the job.
type JobGetResponse struct {
	Job *Job
	QueryMeta
}

// JobVersionsResponse has the stored versions of a job, newest first, and the difference of each to another.
type JobVersionsResponse struct {
	Versions []*Job
	Diffs    []*JobDiff `json:",omitempty" codec:",omitempty"`
	QueryMeta
}

// JobList lists jobs.
var JobList = Read[QueryRequest, JobListResponse]("Job.List")

// JobListResponse has the jobs that match.
type JobListResponse struct {
	Jobs []*JobListStub
	QueryMeta
}

// JobSummaryResponse has the summary of a job.
type JobSummaryResponse struct {
	JobSummary *JobSummary
	QueryMeta
}
