package structs

import (
	"maps"
	"slices"
	"time"
)

// The states of a node.
const (
	NodeInit         = "initializing"
	NodeReady        = "ready"
	NodeDown         = "down"         // its heartbeats stopped
	NodeDisconnected = "disconnected" // reserved by the dialect
)

// The scheduling eligibilities.
const (
	NodeEligible   = "eligible"
	NodeIneligible = "ineligible"
)

// NodeResources are the resources of a node.
type NodeResources struct {
	CPU    NodeCPUResources `json:"Cpu" codec:"Cpu"`
	Memory NodeMemoryResources
	Disk   NodeDiskResources
	// Devices are in the order of their IDs.
	Devices []*NodeDeviceResource `json:",omitempty" codec:",omitempty"`
	// NodeNetworks has the addresses of host networks.
	NodeNetworks []*NodeNetworkResource `json:",omitempty" codec:",omitempty"`
	// MinDynamicPort and MaxDynamicPort are the range of dynamic ports: see Node.DynamicPorts.
	MinDynamicPort int `json:",omitempty" codec:",omitempty"`
	MaxDynamicPort int `json:",omitempty" codec:",omitempty"`
}

// NodeCPUResources counts CPU in MHz.
type NodeCPUResources struct {
	CpuShares          int64 // MHz over all cores
	TotalCpuCores      uint16
	ReservableCpuCores []uint16 `json:",omitempty"`
}

// NodeMemoryResources counts memory in MiB.
type NodeMemoryResources struct{ MemoryMB int64 }

// NodeDiskResources counts disk in MiB.
type NodeDiskResources struct{ DiskMB int64 }

// NodeReservedResources are the resources that allocations do not get.
type NodeReservedResources struct {
	CPU    NodeReservedCPU `json:"Cpu" codec:"Cpu"`
	Memory NodeMemoryResources
	Disk   NodeDiskResources
	// Networks has the ports that no allocation gets; nil: none.
	Networks *NodeReservedNetworks `json:",omitempty" codec:",omitempty"`
}

// NodeReservedCPU counts CPU in MHz.
type NodeReservedCPU struct{ CpuShares uint64 }

// NodeReservedNetworks has ports of all addresses of a node (see ParsePorts).
type NodeReservedNetworks struct{ ReservedHostPorts string }

// DriverInfo is the report of a task driver on a node.
type DriverInfo struct {
	Attributes        map[string]string
	Detected          bool
	Healthy           bool
	HealthDescription string
	UpdateTime        time.Time
}

// NodeEvent is one line of a node's recent history.
type NodeEvent struct {
	Message     string
	Subsystem   string // Cluster, Driver, Device, CSI, Storage, Drain
	Details     map[string]string
	Timestamp   time.Time
	CreateIndex uint64
}

// Node is the row of one node: its own report and the fields of the servers. Its plugin instances have their
// own rows. Key: ID.
type Node struct {
	ID                string
	SecretID          string `json:"-" codec:"SecretID"` // proves that a request is the node's own
	Datacenter        string
	Name              string
	HTTPAddr          string // host:port of the node's HTTP API
	TLSEnabled        bool
	Attributes        map[string]string
	NodeResources     *NodeResources
	ReservedResources *NodeReservedResources
	Meta              map[string]string
	NodeClass         string
	NodePool          string
	ComputedClass     string // made when a node is read: equal but for "unique." attributes and meta
	Drivers           map[string]*DriverInfo
	HostVolumes       map[string]*HostVolume `json:",omitempty" codec:",omitempty"` // by name
	Status            string
	StatusDescription string
	StatusUpdatedAt   int64 // unix seconds, as the dialect has it
	// Epoch is the log index of the entry with which the node came, or came back after it was down. So it is
	// another one after each loss.
	Epoch uint64 `json:",omitempty" codec:",omitempty"`
	// BootID is that of the machine when the agent last registered, "" if it is not known.
	BootID string `json:",omitempty" codec:",omitempty"`
	// Machine is that of the agent that last registered, "" if it is not known.
	Machine MachineID `json:",omitempty" codec:",omitempty"`
	// Store is the directory in which that agent keeps its state: see AgentProof.
	Store string `json:"-" codec:"Store,omitempty"`
	// Mark is a nonce that the agent drew for the log: one in each boot of its machine, and one more with the
	// first claim on a volume in it. A copy of the disk that is older does not have it.
	Mark string `json:"-" codec:"Mark,omitempty"`
	// Returning: the node is back after a loss, and has not told yet that it has stopped and released all
	// that is no longer its own. It gets no new allocations.
	Returning bool `json:",omitempty" codec:",omitempty"`
	// Unaccounted: the node has not reported its volumes since a restore of the state, or it was deleted, came
	// back and has volumes from before.
	Unaccounted bool `json:",omitempty"`
	// Leftovers are the volumes from before of an unaccounted node that was deleted and came back: it may hold
	// no others without a claim. nil: it may hold any volume.
	Leftovers             []NodeLeftover `json:",omitempty" codec:",omitempty"`
	SchedulingEligibility string
	Drain                 bool
	DrainStrategy         *DrainStrategy `json:",omitempty" codec:",omitempty"` // nil: the node does not drain
	LastDrain             *DrainMetadata `json:",omitempty" codec:",omitempty"` // nil: it never has
	Events                []*NodeEvent   // the newest ten
	Indexes

	instances []CSIInstanceKey
}

// CSIInstances names the node's plugin instances, by plugin and kind. Package state computes it from its
// rows: no wire and no snapshot has it. It must not be changed.
func (n *Node) CSIInstances() []CSIInstanceKey { return n.instances }

// SetCSIInstances is for the state package, on a row that no reader has.
func (n *Node) SetCSIInstances(keys []CSIInstanceKey) { n.instances = keys }

// Copy returns a copy. The copy has its own maps and its own list of events and shares the rest.
func (n *Node) Copy() *Node {
	c := *n
	c.Attributes = maps.Clone(n.Attributes)
	c.Meta = maps.Clone(n.Meta)
	c.Drivers = maps.Clone(n.Drivers)
	c.Events = append([]*NodeEvent(nil), n.Events...)
	return &c
}

// NodeLeftover names a volume that a node may hold without a claim. PluginID and ExternalID are "" if the
// node does not know them. Without a VolumeID it stands for any volume.
type NodeLeftover struct {
	Namespace  string
	VolumeID   string
	PluginID   string
	ExternalID string
}

// MayHold reports whether an unaccounted node may hold a volume. A volume may have another name by now, so
// its ID at the plugin counts, too.
func (n *Node) MayHold(v NodeLeftover) bool {
	if n.Leftovers == nil {
		return true
	}
	return slices.ContainsFunc(n.Leftovers, func(l NodeLeftover) bool {
		return l.VolumeID == "" ||
			l.Namespace == v.Namespace && l.VolumeID == v.VolumeID ||
			v.ExternalID != "" && l.ExternalID == v.ExternalID && l.PluginID == v.PluginID
	})
}

// WhyUnaccounted says, behind the name of an unaccounted node, why the servers wait for it.
func (n *Node) WhyUnaccounted() string {
	if n.Leftovers != nil {
		return "was deleted and came back, and has not let go of its volumes from before"
	}
	return "has not reported its volumes since the servers' state was restored"
}

// DropServerFields empties the fields that the servers alone fill in.
func (n *Node) DropServerFields() {
	n.ComputedClass = ""
	n.StatusDescription = ""
	n.StatusUpdatedAt = 0
	n.Epoch = 0
	n.BootID = ""
	n.Machine = ""
	n.Store = ""
	n.Mark = ""
	n.Returning = false
	n.Leftovers = nil
	n.Drain = false
	n.DrainStrategy = nil
	n.LastDrain = nil
	n.Events = nil
	n.Indexes = Indexes{}
}

// Ready reports whether allocations may be placed on the node.
func (n *Node) Ready() bool {
	return n.Status == NodeReady &&
		n.SchedulingEligibility == NodeEligible && !n.Drain && !n.Returning
}

// Lost reports whether the node is down or, if it is nil, deleted.
func (n *Node) Lost() bool {
	return n == nil || n.Status == NodeDown
}

// Available returns the resources for allocations: the node's less the reserved ones.
func (n *Node) Available() Resources {
	var free Resources
	if r := n.NodeResources; r != nil {
		free.CPU = int(r.CPU.CpuShares)
		free.MemoryMB = int(r.Memory.MemoryMB)
		free.DiskMB = int(r.Disk.DiskMB)
	}

	if r := n.ReservedResources; r != nil {
		free = free.Sub(Resources{
			CPU:      int(min(r.CPU.CpuShares, MaxCPU)),
			MemoryMB: int(r.Memory.MemoryMB),
			DiskMB:   int(r.Disk.DiskMB),
		})
	}

	return free
}

// NodeDetail is the answer of Node.Get: the node with its plugin instances in the dialect's two maps, by
// plugin ID.
type NodeDetail struct {
	Node
	CSIControllerPlugins map[string]*CSIInfo
	CSINodePlugins       map[string]*CSIInfo
	// SecondAgent is an agent with the node's ID that the servers reject. Nil: none, or not known here.
	SecondAgent *SecondAgent `json:",omitempty"`
}

// NodeListStub is one node in a list.
type NodeListStub struct {
	Address               string
	ID                    string
	Attributes            map[string]string `json:",omitempty"`
	Datacenter            string
	Name                  string
	NodeClass             string
	NodePool              string
	Version               string
	Drain                 bool
	LastDrain             *DrainMetadata `json:",omitempty"`
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	Returning             bool `json:",omitempty"` // see Node
	Drivers               map[string]*DriverInfo
	NodeResources         *NodeResources         `json:",omitempty"`
	ReservedResources     *NodeReservedResources `json:",omitempty"`
	Indexes
}

// NodeRegister registers a node or updates all of it.
var NodeRegister = Write[NodeRegisterRequest, NodeRegisterResponse]("Node.Register")

// NodeRegisterRequest has the node. CSI has all its plugin instances. With Unsure, the servers write it even
// if it changes nothing, because an earlier request may still be in flight.
type NodeRegisterRequest struct {
	Node      *Node
	CSI       []*CSIPluginInstance
	Inventory *NodeInventory `json:",omitempty"` // nil: not reported
	Unsure    bool           `json:",omitempty"` // an earlier request may still be in flight
	// ClusterID names the cluster to which the node belongs, "" for none. Another cluster rejects it.
	ClusterID string      `json:",omitempty"`
	Allocs    int         `json:",omitempty"` // that have not ended on the node
	Agent     *AgentProof `json:",omitempty"`
	WriteOptions
}

// NodeRegisterResponse has the lease of the node and the servers.
type NodeRegisterResponse struct {
	LeaseGrant
	Servers []string // RPC addresses of the servers, the leader's first
	EvalIDs []string // always empty; the dialect has it
	// Left: an earlier agent of the node has drained it as it shut down (see NodeLeave).
	Left      bool   `json:",omitempty"`
	ClusterID string `json:",omitempty"` // of the cluster to which the node belongs now
	WriteMeta
}

// NodeDeregister deletes nodes. A node with allocations that are not terminal is rejected.
var NodeDeregister = Write[NodeDeregisterRequest, Empty]("Node.Deregister")

// NodeDeregisterRequest names the nodes.
type NodeDeregisterRequest struct {
	NodeIDs []string
	WriteOptions
}

// NodeHeartbeat renews a node's lease. It writes to the log only if Status differs from the row.
var NodeHeartbeat = Write[NodeHeartbeatRequest, NodeHeartbeatResponse]("Node.UpdateStatus")

// NodeHeartbeatRequest has the node's status. An unaccounted node reports its volumes; it is accounted for
// when it holds none without a claim.
type NodeHeartbeatRequest struct {
	NodeID    string
	SecretID  string
	Status    string
	Inventory *NodeInventory `json:",omitempty"` // nil: not reported
	Agent     *AgentProof    `json:",omitempty"`
	// CleanFor is the epoch in which the node has stopped and released all that is no longer its own; 0:
	// none.
	CleanFor uint64 `json:",omitempty"`
	WriteOptions
}

// NodeInventory is the state of volumes by a node's own records.
type NodeInventory struct {
	Held []CSIHeldClaim // volumes that are, or may be, staged or published on the node
	// Left are volumes that are neither staged nor published on the node. The node claimed or released them,
	// and the servers have not acknowledged the release, so they may still be attached to it.
	Left []CSIHeldClaim `json:",omitempty"`
}

// CSIHeldClaim is the claim for which a node has a volume, or may have one, and all that a detach needs.
// AllocID is "" for a staged volume that no allocation uses.
type CSIHeldClaim struct {
	CSIClaimKey
	GrantIndex       uint64 // 0: not known
	PluginID         string `json:",omitempty"` // "": not known
	ExternalVolumeID string `json:",omitempty"` // "": not known
	// the plugin's ID of the node; "": not attached, or not known
	ExternalNodeID string            `json:",omitempty"`
	AccessMode     CSIAccessMode     `json:",omitempty"`
	AttachmentMode CSIAttachmentMode `json:",omitempty"`
}

// NodeHeartbeatResponse grants a lease, and reports whether the node still has to report its volumes.
type NodeHeartbeatResponse struct {
	LeaseGrant
	Servers     []string
	Unaccounted bool
	WriteMeta
}

// NodeStatusUpdate is the log entry that changes the status of nodes: of many nodes if many leases end at the
// same time.
type NodeStatusUpdate struct {
	NodeIDs   []string
	Status    string
	Accounted bool // the nodes have reported their volumes, and hold none without a claim
	// CleanFor is the epoch in which the nodes are no longer returning; 0: none. A node of another epoch
	// stays returning.
	CleanFor uint64 `json:",omitempty" codec:",omitempty"`
	Event    *NodeEvent
	WriteOptions
}

// NodeLeftoversUpdate is the log entry that shortens the leftovers of a node (see Node.Leftovers).
type NodeLeftoversUpdate struct {
	NodeID string
	Still  []NodeLeftover // leftovers that the node has still
	WriteOptions
}

// NodeEligibility allows or forbids new placements on a node.
var NodeEligibility = Write[NodeEligibilityRequest, Empty]("Node.UpdateEligibility")

// NodeEligibilityRequest names the node and its new eligibility.
type NodeEligibilityRequest struct {
	NodeID      string
	Eligibility string
	WriteOptions
}

// NodeEventsRequest appends to nodes' histories.
type NodeEventsRequest struct {
	Events map[string][]*NodeEvent // by node ID
	WriteOptions
}

// The methods that read one node or its allocations.
var (
	NodeGet = Read[NodeGetRequest, NodeGetResponse]("Node.Get")
	// NodeAllocs reads whole allocations, for operators.
	NodeAllocs       = Read[NodeGetRequest, AllocsResponse]("Node.GetAllocs")
	NodeClientAllocs = Read[NodeGetRequest, NodeClientAllocsResponse]("Node.GetClientAllocs")
)

// NodeGetRequest is the request for one node.
type NodeGetRequest struct {
	NodeID   string
	SecretID string // set by the node itself
	QueryOptions
}

// NodeEvaluate creates an evaluation of every job on a node.
var NodeEvaluate = Write[NodeGetWriteRequest, NodeEvaluateResponse]("Node.Evaluate")

// NodeGetWriteRequest names one node in a write.
type NodeGetWriteRequest struct {
	NodeID string
	WriteOptions
}

// NodeEvaluateResponse names the evaluations that the request made.
type NodeEvaluateResponse struct {
	EvalIDs         []string
	EvalCreateIndex uint64
	NodeModifyIndex uint64
	WriteMeta
}

// NodeGetResponse has the node.
type NodeGetResponse struct {
	Node *NodeDetail
	QueryMeta
}

// NodeList lists nodes.
var NodeList = Read[QueryRequest, NodeListResponse]("Node.List")

// NodeListResponse has the nodes that match.
type NodeListResponse struct {
	Nodes []*NodeListStub
	QueryMeta
}

// NodeClientAllocsResponse lists a node's allocations, by ID with the index at which the servers last changed
// each (AllocModifyIndex). The node fetches an allocation that it does not have at that index.
type NodeClientAllocsResponse struct {
	Allocs map[string]uint64
	QueryMeta
}
