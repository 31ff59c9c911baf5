package structs

import "time"

// MaxDrainMeta bounds the bytes of the notes that a drain carries.
const MaxDrainMeta = 4096

// MaxDrainDeadline bounds the deadline of a drain.
const MaxDrainDeadline = 365 * 24 * time.Hour

// DrainSpec is the request to move all allocations off a node.
type DrainSpec struct {
	// Deadline is the time after which the rest of the workloads moves at once. 0: never. Negative: now.
	Deadline time.Duration
	// IgnoreSystemJobs leaves allocations of system and sysbatch jobs on the node.
	IgnoreSystemJobs bool
	// Force stops CSI plugins some time after the deadline and the end of the others although the node still
	// has volumes. A negative deadline implies it.
	Force bool `json:",omitempty"`
}

// DrainStrategy is a drain that has started.
type DrainStrategy struct {
	DrainSpec
	ForceDeadline time.Time // zero: there is none
	StartedAt     time.Time
}

// Due reports whether the deadline has passed.
func (s *DrainStrategy) Due(now time.Time) bool {
	return s.Deadline < 0 || s.Deadline > 0 && !now.Before(s.ForceDeadline)
}

// StopsPlugins reports whether the drain stops CSI plugins although the node still has volumes.
func (s *DrainStrategy) StopsPlugins(now time.Time) bool {
	return s.Due(now) && (s.Force || s.Deadline < 0)
}

// ForcesPlugins reports whether the drain stops CSI plugins in the end although the node still has volumes.
func (s *DrainStrategy) ForcesPlugins() bool {
	return s.Deadline < 0 || s.Force && s.Deadline > 0
}

// The states of DrainMetadata.
const (
	DrainDraining = "draining"
	DrainComplete = "complete"
	DrainCanceled = "canceled"
)

// DrainMetadata describes the last drain of a node.
type DrainMetadata struct {
	StartedAt  time.Time
	UpdatedAt  time.Time
	Status     string
	AccessorID string            // always empty; the dialect has it
	Meta       map[string]string `json:",omitempty"` // the notes of the operator
	// PluginsOff: the drain is complete and has stopped the CSI plugins of system jobs by force. They stay
	// off until the node is eligible or drains again.
	PluginsOff bool `json:",omitempty" codec:",omitempty"`
	// RestoreOnStart is set for a drain that the agent of the node has requested as it shut down. It is the
	// eligibility that the next start of the agent restores.
	RestoreOnStart string `json:",omitempty" codec:",omitempty"`
}

// NodeDrain starts, changes or cancels the drain of a node.
var NodeDrain = Write[NodeDrainRequest, Empty]("Node.UpdateDrain")

// NodeDrainRequest names the node. Without a DrainSpec the drain is cancelled, and the node stays ineligible
// unless MarkEligible is set. With a DrainSpec, MarkEligible has no effect: clients of the dialect set it
// nevertheless.
type NodeDrainRequest struct {
	NodeID       string
	DrainSpec    *DrainSpec
	MarkEligible bool
	Meta         map[string]string
	WriteOptions
}

// NodeLeave drains the calling node, whose agent shuts down, or ends this drain when the agent is back.
var NodeLeave = Write[NodeLeaveRequest, Empty]("Node.Leave")

// NodeLeaveRequest is of the node itself. A drain of an operator continues unchanged. Without a DrainSpec the
// agent has started again: the servers cancel the drain of its shutdown, and restore the eligibility.
type NodeLeaveRequest struct {
	NodeID   string
	SecretID string
	NodeEpoch
	DrainSpec *DrainSpec
	WriteOptions
}

// NodeDrainedUpdate is the log entry that ends drains: nothing is left on the nodes.
type NodeDrainedUpdate struct {
	Nodes []DrainedNode
	WriteOptions
}

// DrainedNode names a drain by its node and its start.
type DrainedNode struct {
	NodeID     string
	StartedAt  time.Time
	PluginsOff bool `json:",omitempty" codec:",omitempty"` // see DrainMetadata
}

// AllocsMigrateRequest is the log entry that requests allocations to be stopped and placed again, with an
// evaluation for each of their jobs. Events go to the histories of nodes.
type AllocsMigrateRequest struct {
	AllocIDs []string
	Events   map[string][]*NodeEvent // by node ID
	WriteOptions
}

// DrainWait tells for an allocation on a draining node why it is still there.
type DrainWait struct {
	AllocID   string
	Namespace string
	JobID     string
	TaskGroup string
	Reason    string
}

// NodeDrainStatus reads the drain of one node, and what it waits for.
var NodeDrainStatus = Read[NodeGetRequest, NodeDrainStatusResponse]("Node.DrainStatus")

// NodeDrainStatusResponse has the drain; DrainStrategy is nil if the node does not drain.
type NodeDrainStatusResponse struct {
	NodeID        string
	NodeStatus    string
	DrainStrategy *DrainStrategy
	LastDrain     *DrainMetadata
	Waits         []DrainWait
	QueryMeta
}
