package cluster

import (
	"slices"
	"strings"
	"time"

	"berth/structs"
)

// The kinds of a run.
const (
	FenceByAgent = "agent"    // a fence device proves that the node can no longer write
	FenceByWord  = "operator" // an operator says that the machine is off
	// FenceByLease: the node's lease has ended on its own clock too, and its guard has had the time to end
	// the tasks of the guarded claims. The run has no device, no scope and no attempt.
	FenceByLease = "lease"
)

// GuardEndTime is the time after the end of a node's lease, on the node's own clock, from which on the
// guarded claims count as released there: the kill, and a margin for the unmounts.
const GuardEndTime = structs.GuardKillTime + 5*time.Second

// The scopes of a proof: see package fencing.
const (
	FencePower   = "power"   // the machine is off: it writes to nothing
	FenceStorage = "storage" // the machine is cut off from some volumes
)

// The states of a run. It begins running, except that the word of an operator begins proved.
const (
	FenceRunning = "running" // the agent runs, or ran when the leader ended
	FenceProved  = "proved"
	FenceFailed  = "failed" // Cause says why
	FenceVoid    = "void"   // the node came back after the run had begun: the run proves nothing
)

// The causes of a failed run.
const (
	FenceCauseAgent    = "agent"        // the agent gave no proof
	FenceCauseLeader   = "leader-ended" // the leader ended before the run did
	FenceCauseNoDevice = "no-device"    // no device of the servers fences the node, or covers its volumes
)

// FenceRuns is the most runs of a node that have ended and are kept.
const FenceRuns = 10

// FenceOutput is the most that a run keeps of the end of the agent's output, in bytes.
const FenceOutput = 4096

// FenceRun is the row of one run of a fence agent for a node that is down, of the word of an operator, or of
// the end of a lease. It is written before the agent starts. Key: (NodeID, Number).
type FenceRun struct {
	NodeID  string
	Number  uint64 // counts the runs of the node, from 1
	Epoch   uint64 // of the node when the run began
	Attempt int    // all devices together are one attempt; counts from 1 in each epoch
	Kind    string // FenceByAgent, FenceByWord or FenceByLease
	Device  string // "" for the kinds without an agent, and for FenceCauseNoDevice
	Scope   string // FencePower or FenceStorage; "" for FenceByLease
	By      string // the operator who ordered the run or gave the word, unverified; "": the servers alone
	Why     string `json:",omitempty"` // the reason of that operator
	State   string
	Cause   string `json:",omitempty"` // of a failed run
	Reason  string `json:",omitempty"` // a sentence: why the run gave no proof
	Action  string `json:",omitempty"` // the agent's last action
	// ExitCode is the last action's: -1 if the agent did not start or did not end by itself.
	ExitCode int
	Output   string `json:",omitempty"` // the last FenceOutput bytes of the agent's output
	Begun    int64  // UnixNano
	Ended    int64  // UnixNano; 0: it runs
	// NextTry is the time of the next attempt (UnixNano). 0: the next device is tried at once, or the run is
	// not the last of its attempt.
	NextTry  int64 `json:",omitempty"`
	Released int   // claims that the proof released
	structs.Indexes
}

// Ordered reports whether an operator ordered the run, or gave the word.
func (r *FenceRun) Ordered() bool { return r.By != "" }

// FenceOrder is the order of an operator to fence a node now. The leader deletes it when an attempt with all
// devices has ended, and the servers delete it when the node comes back. Key: NodeID.
type FenceOrder struct {
	NodeID string
	Epoch  uint64
	After  uint64 // the number of the node's last run at that time
	By     string // the name of the operator, unverified
	Why    string
	Time   int64 // UnixNano
	structs.Indexes
}

// FenceBeginRequest records that a run begins. The servers reject it unless the node is down in the epoch, no
// other run of the node runs, and Number is the next one.
type FenceBeginRequest struct {
	NodeID  string
	Epoch   uint64
	Number  uint64
	Attempt int
	Device  string
	Scope   string
	Now     int64 // UnixNano
}

// FenceEndRequest records the end of a run. If it proved, the entry also releases the claims that the proof
// covers. A run that has ended, also by the return of its node, stays as it is.
type FenceEndRequest struct {
	NodeID   string
	Number   uint64
	Proved   bool
	Cause    string // of a failed run
	Reason   string
	Action   string
	ExitCode int
	Output   string
	// Covered names the claims that a proof of FenceStorage is about.
	Covered []structs.CSIClaimKey
	NextTry int64 // see FenceRun; not 0: the attempt has ended
	Now     int64 // UnixNano
}

// LeaseProofRequest says that the lease of a node that is down has ended on the node's own clock too, at
// least GuardEndTime ago. The servers reject it unless the node is down in the epoch.
type LeaseProofRequest struct {
	NodeID string
	Epoch  uint64
	Now    int64 // UnixNano
}

// NodeFence orders a run of the fence devices for a node that is down.
var NodeFence = structs.Write[NodeFenceRequest, structs.Empty]("Node.Fence")

// NodeFenceRequest names the node and the operator. With Epoch 0 any loss of the node is meant.
type NodeFenceRequest struct {
	NodeID string
	Epoch  uint64
	By     string // the name of the operator, unverified; needed
	Why    string
	structs.WriteOptions
}

// NodeConfirmLost records the word of an operator that a machine is off, and releases all claims of its node.
// The node must be down.
var NodeConfirmLost = structs.Write[NodeFenceRequest, structs.Empty]("Node.ConfirmLost")

// NodeFenceStatus reads the runs of a node, its devices and the claims that a proof would release.
var NodeFenceStatus = structs.Read[structs.NodeGetRequest, NodeFenceStatusResponse]("Node.FenceStatus")

// NodeFenceStatusResponse has the facts about the loss of a node.
type NodeFenceStatusResponse struct {
	NodeID  string
	Name    string
	Status  string
	Since   int64 // unix seconds: of the status
	Epoch   uint64
	Order   *FenceOrder    `json:",omitempty"` // nil: nobody waits for a run that an operator ordered
	Runs    []*FenceRun    // the newest first
	Devices []*FenceDevice // of the server that answers, in the order in which they are tried
	// Others are the devices of that server that do not fence the node.
	Others []*FenceMismatch `json:",omitempty"`
	Claims []*LostClaim     // the granted claims of the node
	Brake  *FenceBrake      `json:",omitempty"` // nil: the servers fence by themselves
	structs.QueryMeta
}

// FenceDevice is a device that fences a node.
type FenceDevice struct {
	Name  string
	Scope string
	Plug  string `json:",omitempty"` // as the device is configured; "": it is not known
	// Covers is the number of the node's granted claims that a proof of the device covers.
	Covers int
}

// FenceMismatch is a device that does not fence a node.
type FenceMismatch struct {
	Name   string
	Reason string
}

// MismatchText lists devices with their reasons as the end of a sentence, "" without any.
func MismatchText(others []*FenceMismatch) string {
	var b strings.Builder
	for i, o := range others {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(o.Name + ": " + o.Reason)
	}
	return structs.Cut(b.String(), structs.MaxText/2)
}

// Useful reports whether a proof of the device is about all writes of its node, or about a claim of it.
func (d *FenceDevice) Useful() bool { return d.Scope == FencePower || d.Covers > 0 }

// Fenceable reports whether a device of the servers can carry out an order to fence the node.
func (r *NodeFenceStatusResponse) Fenceable() bool {
	return slices.ContainsFunc(r.Devices, (*FenceDevice).Useful)
}

// LostClaim is a granted claim of a node, with the facts that decide who releases it.
type LostClaim struct {
	structs.CSIClaimKey
	PluginID   string
	JobID      string
	TaskGroup  string
	Status     string // of the allocation
	OnNodeLoss string // of the volume, or else of its plugin
	Guarded    bool   // see CSIClaim
	Waited     bool   // a claim or an evaluation waits for the volume
}

// WantsFence reports whether the servers run the fence devices of the node for the claim.
func (l *LostClaim) WantsFence() bool { return l.Waited && l.OnNodeLoss == structs.LossFence }

// FenceBrake says that so many nodes were lost within a short time that the fault may be on the side of the
// servers. They then fence no node by themselves.
type FenceBrake struct {
	Lost  int   // nodes lost within FenceBrakeWindow, and not handled by an operator
	Of    int   // nodes that were up before, those included
	Since int64 // unix seconds: when the first of them was lost
}

// FenceBrakeWindow is the time, in seconds, within which lost nodes are counted together.
const FenceBrakeWindow = 600

// NodeFenceTest runs the action monitor of each device of a node.
var NodeFenceTest = structs.Read[structs.NodeGetRequest, NodeFenceTestResponse]("Node.FenceTest")

// NodeFenceTestResponse has the results in the order of the devices.
type NodeFenceTestResponse struct {
	Results []*FenceTest
	structs.QueryMeta
}

// FenceTest is the result of the action monitor of a device.
type FenceTest struct {
	Device   string
	OK       bool
	Reason   string // a sentence: why it is not OK
	ExitCode int
	Output   string
}
