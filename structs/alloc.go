package structs

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The states that the servers want for an allocation.
const (
	AllocDesiredRun   = "run"
	AllocDesiredStop  = "stop"
	AllocDesiredEvict = "evict"
)

// The states that an allocation's node reports.
const (
	AllocPending  = "pending"
	AllocRunning  = "running"
	AllocComplete = "complete"
	AllocFailed   = "failed"
	AllocLost     = "lost"    // set by the servers: its node is down or deleted
	AllocUnknown  = "unknown" // set by the servers: its node is down, and may come back with it
)

// The states of a task.
const (
	TaskPending = "pending"
	TaskRunning = "running"
	TaskDead    = "dead"
)

// TaskEvent is one line of a task's history.
type TaskEvent struct {
	Type           string // e.g. Received, Started, Terminated, Restarting, "Plugin became healthy"
	Time           int64
	DisplayMessage string
	Message        string
	Details        map[string]string
	ExitCode       int
	Signal         int
	FailsTask      bool
}

// The types of task events.
const (
	TaskEventReceived        = "Received"
	TaskEventSetupFailure    = "Setup Failure"
	TaskEventDriverFailure   = "Driver Failure"
	TaskEventStarted         = "Started"
	TaskEventTerminated      = "Terminated"
	TaskEventRestarting      = "Restarting"
	TaskEventNotRestarting   = "Not Restarting"
	TaskEventKilling         = "Killing"
	TaskEventKilled          = "Killed"
	TaskEventPluginHealthy   = "Plugin became healthy"
	TaskEventPluginUnhealthy = "Plugin became unhealthy"
	TaskEventRestored        = "Restored"
	TaskEventHookFailed      = "Task hook failed"
	TaskEventHookMessage     = "Task hook message"
	TaskEventDriver          = "Driver" // a message of the driver
)

// TaskState is a task's state with its newest events.
type TaskState struct {
	State       string
	Failed      bool
	Restarts    uint64
	LastRestart time.Time
	StartedAt   time.Time
	FinishedAt  time.Time
	Events      []*TaskEvent
}

// Copy returns a copy; the events themselves are shared.
func (s *TaskState) Copy() *TaskState {
	c := *s
	c.Events = append([]*TaskEvent(nil), s.Events...)
	return &c
}

// Successful reports whether the task has ended and not failed.
func (s *TaskState) Successful() bool {
	return s.State == TaskDead && !s.Failed
}

// RescheduleTracker lists the allocations before this one, oldest first.
type RescheduleTracker struct {
	Events []*RescheduleEvent
}

// RescheduleEvent is one rescheduling.
type RescheduleEvent struct {
	RescheduleTime int64
	PrevAllocID    string
	PrevNodeID     string
	Delay          time.Duration
}

// PlacementRejection counts the nodes that one filter rejected for one reason in one attempt to place a
// group.
type PlacementRejection struct {
	Filter string // eligibility, datacenter, driver, constraint, csi-plugin, csi-volume, resources, ...
	Reason string
	Nodes  int
}

// AllocMetric describes how the scheduler placed one group, or why it did not.
type AllocMetric struct {
	NodesEvaluated     int
	NodesFiltered      int
	NodesInPool        int
	NodesAvailable     map[string]int // by datacenter
	ClassFiltered      map[string]int
	ConstraintFiltered map[string]int // by reason
	NodesExhausted     int
	ClassExhausted     map[string]int
	DimensionExhausted map[string]int
	QuotaExhausted     []string `json:",omitempty" codec:",omitempty"` // the bounds, with figures
	ScoreMetaData      []*NodeScoreMeta
	AllocationTime     time.Duration
	CoalescedFailures  int
	Rejections         []*PlacementRejection `json:",omitempty"` // most nodes first
}

// NodeScoreMeta are the scores of one node.
type NodeScoreMeta struct {
	NodeID    string
	Scores    map[string]float64
	NormScore float64
}

// Allocation is the row of one placed instance of a group. Key: ID. In the store Job is nil: the version of
// the job has its own row and is filled in when the allocation is read.
type Allocation struct {
	ID         string
	Namespace  string
	EvalID     string
	Name       string // job.group[index]
	NodeID     string
	NodeName   string
	JobID      string
	JobVersion uint64
	Job        *Job `json:",omitempty"`
	TaskGroup  string
	Resources  *Resources
	Devices    map[string][]*AllocatedDeviceResource `json:"-" codec:"Devices,omitempty"` // by task
	Ports      []AllocatedPort                       `json:"-" codec:"Ports,omitempty"`
	// AllocatedResources has the resources and devices of each task. See WithResources; no row has it.
	AllocatedResources *AllocatedResources `json:",omitempty" codec:"-"`
	// TaskResources has the demands of each task, in the dialect's older form. See WithResources; no row has
	// it.
	TaskResources      map[string]*Resources `json:",omitempty" codec:"-"`
	DesiredStatus      string
	DesiredDescription string    // for people; code decides by StopCause
	StopCause          StopCause `json:",omitempty" codec:",omitempty"`
	ClientStatus       string
	ClientDescription  string
	TaskStates         map[string]*TaskState
	PreviousAllocation string
	NextAllocation     string
	// AwaitedAllocations are allocations besides the previous and the preempted ones whose end it waits for
	// before it starts, because it has their capacity.
	AwaitedAllocations []string `json:",omitempty" codec:",omitempty"`
	// PreemptedAllocations are the allocations that were stopped for it. It waits for their end, too.
	PreemptedAllocations  []string `codec:",omitempty"`
	PreemptedByAllocation string   `codec:",omitempty"` // the allocation for which it was stopped
	FollowupEvalID        string
	RescheduleTracker     *RescheduleTracker
	DeploymentID          string                 `json:",omitempty" codec:",omitempty"`
	DeploymentStatus      *AllocDeploymentStatus `json:",omitempty" codec:",omitempty"` // nil: not known
	// NetworkStatus is nil if the node has not reported it, or the allocation has no network of its own.
	NetworkStatus *AllocNetworkStatus `json:",omitempty" codec:",omitempty"`
	Migrate       bool                // an operator requested to stop and replace it
	// NoShutdownDelay makes the node end the tasks of the stopped allocation without the shutdown_delay of
	// the tasks and of the group.
	NoShutdownDelay bool `json:"-" codec:"NoShutdownDelay,omitempty"`
	// NoMemoryMax bounds its tasks to the memory that they reserve: their memory_max did not count in its
	// node pool when it was placed.
	NoMemoryMax bool `json:"-" codec:"NoMemoryMax,omitempty"`
	// DesiredTransition has the requests of operators in the dialect's form. See WithResources; no row has
	// it.
	DesiredTransition *DesiredTransition `json:",omitempty" codec:"-"`
	Metrics           *AllocMetric
	// the CSI plugins its tasks run; set by the state when it is placed
	CSIPlugins []string       `json:",omitempty"`
	CSIVolumes []CSIVolumeUse `json:",omitempty"` // the CSI volumes it is to claim; set likewise
	// Services are the services of the allocation, as its node reports them.
	Services         []*ServiceInstance `json:"-" codec:"Services,omitempty"`
	AllocModifyIndex uint64             // when the servers last changed it, as against its node
	CreateTime       int64
	ModifyTime       int64
	Indexes
}

// StopCause tells why the servers stopped an allocation. It is empty where no decision depends on it.
type StopCause string

// These are the causes of a stop that decide about the successor of an allocation.
const (
	StopReplaced StopCause = "replaced" // for its successor of a newer version of the job
	StopNodeDown StopCause = "node-down"
)

// DesiredTransition has the requests of operators for an allocation. nil is false.
type DesiredTransition struct {
	Migrate         *bool
	NoShutdownDelay *bool
}

// CSIVolumeUse is a CSI volume that an allocation is to claim, and how.
type CSIVolumeUse struct {
	VolumeID       string
	AccessMode     CSIAccessMode
	AttachmentMode CSIAttachmentMode
	Mode           string // ClaimRead, ClaimWrite
	// Alias is the request for a dynamic host volume, "" for another volume. Claim is the claim of a sticky one.
	Alias string `json:",omitempty" codec:",omitempty"`
	Claim string `json:",omitempty" codec:",omitempty"`
}

// Copy returns a copy. The caller may change its own fields and its task states.
func (a *Allocation) Copy() *Allocation {
	c := *a
	c.TaskStates = maps.Clone(a.TaskStates)
	if a.RescheduleTracker != nil {
		c.RescheduleTracker = &RescheduleTracker{
			Events: append([]*RescheduleEvent(nil), a.RescheduleTracker.Events...),
		}
	}
	return &c
}

// PreemptionGap is the difference of priorities from which on a job may displace allocations of another one.
const PreemptionGap = 10

// ServerTerminal reports whether the servers want the allocation stopped.
func (a *Allocation) ServerTerminal() bool {
	return a.DesiredStatus == AllocDesiredStop || a.DesiredStatus == AllocDesiredEvict
}

// ClientTerminal reports whether the allocation has ended on its node.
func (a *Allocation) ClientTerminal() bool {
	return clientTerminal(a.ClientStatus)
}

// IsUnknown reports whether the servers do not know what the allocation does: its node was down, and has not
// reported since. It may run, so it holds its claims and the capacity of its node.
func (a *Allocation) IsUnknown() bool { return a.ClientStatus == AllocUnknown }

// EndedByLease reports whether the node has ended the allocation because its lease had ended. As after the
// loss of a node, that says nothing about the version that ran there.
func (a *Allocation) EndedByLease() bool {
	if a.ClientStatus != AllocFailed {
		return false
	}
	for _, s := range a.TaskStates {
		if s != nil && slices.ContainsFunc(s.Events, func(e *TaskEvent) bool {
			return e != nil && e.Type == TaskEventLeaseEnded
		}) {
			return true
		}
	}
	return false
}

// ClientTerminal reports whether the allocation has ended on its node.
func (s *AllocListStub) ClientTerminal() bool {
	return clientTerminal(s.ClientStatus)
}

func clientTerminal(status string) bool {
	return status == AllocComplete || status == AllocFailed || status == AllocLost
}

// Awaits yields the allocations whose end the allocation waits for before it starts.
func (a *Allocation) Awaits() iter.Seq[string] {
	return func(yield func(string) bool) {
		if a.PreviousAllocation != "" && !yield(a.PreviousAllocation) {
			return
		}
		for _, all := range [][]string{a.PreemptedAllocations, a.AwaitedAllocations} {
			for _, id := range all {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Terminal reports whether the allocation has ended or is to end.
func (a *Allocation) Terminal() bool {
	return a.ServerTerminal() || a.ClientTerminal()
}

// Index returns the number in the allocation's name, -1 if the name has none.
func (a *Allocation) Index() int {
	begin := strings.LastIndexByte(a.Name, '[') // the names of jobs may have it, too
	n, err := strconv.Atoi(strings.TrimSuffix(a.Name[begin+1:], "]"))
	if begin < 0 || err != nil {
		return -1
	}
	return n
}

// AllocName returns the name of an allocation.
func AllocName(job, group string, index int) string {
	return job + "." + group + "[" + strconv.Itoa(index) + "]"
}

// PerAllocID returns the ID of the per-allocation volume of an index.
func PerAllocID(source string, index int) string {
	return fmt.Sprintf("%s[%d]", source, index)
}

// Stub returns the allocation as lists show it.
func (a *Allocation) Stub() *AllocListStub {
	s := new(AllocListStub)
	a.PutStub(s)
	return s
}

// PutStub writes the stub of the allocation over s.
func (a *Allocation) PutStub(s *AllocListStub) {
	*s = AllocListStub{
		ID:                 a.ID,
		EvalID:             a.EvalID,
		Name:               a.Name,
		Namespace:          a.Namespace,
		NodeID:             a.NodeID,
		NodeName:           a.NodeName,
		JobID:              a.JobID,
		JobVersion:         a.JobVersion,
		TaskGroup:          a.TaskGroup,
		DesiredStatus:      a.DesiredStatus,
		DesiredDescription: a.DesiredDescription,
		ClientStatus:       a.ClientStatus,
		ClientDescription:  a.ClientDescription,
		TaskStates:         a.TaskStates,
		DeploymentStatus:   a.DeploymentStatus,
		FollowupEvalID:     a.FollowupEvalID,
		NextAllocation:     a.NextAllocation,
		RescheduleTracker:  a.RescheduleTracker,

		PreemptedByAllocation: a.PreemptedByAllocation,

		CreateTime: a.CreateTime,
		ModifyTime: a.ModifyTime,
		Indexes:    a.Indexes,
	}

	if a.Job != nil {
		s.JobType = a.Job.Type
	}
}

// AllocListStub is one allocation in a list.
type AllocListStub struct {
	ID                 string
	EvalID             string
	Name               string
	Namespace          string
	NodeID             string
	NodeName           string
	JobID              string
	JobType            string
	JobVersion         uint64
	TaskGroup          string
	DesiredStatus      string
	DesiredDescription string
	ClientStatus       string
	ClientDescription  string
	TaskStates         map[string]*TaskState
	DeploymentStatus   *AllocDeploymentStatus `json:",omitempty" codec:",omitempty"`
	FollowupEvalID     string
	NextAllocation     string
	RescheduleTracker  *RescheduleTracker
	// the allocation that displaced it
	PreemptedByAllocation string `codec:",omitempty"`

	CreateTime int64
	ModifyTime int64
	Indexes
}

// AllocClientUpdate is the report of a node on one allocation.
type AllocClientUpdate struct {
	ID                string
	ClientStatus      string
	ClientDescription string
	TaskStates        map[string]*TaskState
	DeploymentID      string                 `json:",omitempty" codec:",omitempty"` // of the health
	DeploymentStatus  *AllocDeploymentStatus `json:",omitempty" codec:",omitempty"` // nil: not known
	Services          []*ServiceInstance     `json:",omitempty" codec:",omitempty"` // all that it offers
	NetworkStatus     *AllocNetworkStatus    `json:",omitempty" codec:",omitempty"` // nil: not known
}

// NodeUpdateAllocs reports the states of allocations on a node.
var NodeUpdateAllocs = Write[AllocsClientUpdateRequest, Empty]("Node.UpdateAlloc")

// AllocsClientUpdateRequest has the reports of a node on several allocations.
type AllocsClientUpdateRequest struct {
	NodeID   string
	SecretID string
	NodeEpoch
	Allocs []*AllocClientUpdate
	WriteOptions
}

// AllocGet reads one allocation with its job.
var AllocGet = Read[AllocGetRequest, AllocGetResponse]("Alloc.GetAlloc")

// AllocGetRequest is the request for one allocation.
type AllocGetRequest struct {
	AllocID string
	NodeID  string // the node that asks; "" is any other caller, which may read all
	QueryOptions
}

// AllocGetResponse has the allocation with its job.
type AllocGetResponse struct {
	Alloc *Allocation
	// HeldVolumes has the IDs of the volumes that the node of an ended allocation has not released. It is
	// empty if that node is lost.
	HeldVolumes []string `codec:",omitempty"`
	QueryMeta
}

// AllocsGet reads allocations by ID, for the node that runs them.
var AllocsGet = Read[AllocsGetRequest, AllocsResponse]("Alloc.GetAllocs")

// AllocsGetRequest is the request for allocations by ID. The answer omits missing allocations.
type AllocsGetRequest struct {
	AllocIDs []string
	NodeID   string
	SecretID string
	NodeEpoch
	QueryOptions
}

// AllocsResponse has allocations with their jobs.
type AllocsResponse struct {
	Allocs []*Allocation
	QueryMeta
}

// AllocList lists allocations.
var AllocList = Read[QueryRequest, AllocListResponse]("Alloc.List")

// AllocListResponse has the allocations that match.
type AllocListResponse struct {
	Allocations []*AllocListStub
	QueryMeta
}

// AllocStop stops one allocation and makes the scheduler place it again.
var AllocStop = Write[AllocStopRequest, AllocStopResponse]("Alloc.Stop")

// AllocStopRequest names the allocation. NoShutdownDelay ends its tasks without their shutdown_delay, also if
// it is being stopped already.
type AllocStopRequest struct {
	AllocID         string
	Eval            *Evaluation // set by the server
	NoShutdownDelay bool        `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// AllocStopResponse names the evaluation that places it again.
type AllocStopResponse struct {
	EvalID string
	WriteMeta
}
