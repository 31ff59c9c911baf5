package structs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// CSIKind is the half of a plugin that an instance serves.
type CSIKind string

// The halves of a plugin. A monolith task registers one instance of each.
const (
	CSIKindController CSIKind = "controller"
	CSIKindNode       CSIKind = "node"
)

// CSITopology is one place as a plugin names it: segment key to value (CSI spec, "Topology").
type CSITopology struct {
	Segments map[string]string
}

// Matches reports whether every segment of t is present, with the same value, in other. Keys compare without
// regard to case (CSI spec, Topology). A nil t matches everything.
func (t *CSITopology) Matches(other *CSITopology) bool {
	if t == nil || len(t.Segments) == 0 {
		return true
	}
	if other == nil {
		return false
	}
	for k, v := range t.Segments {
		got, ok := other.segment(k)
		if !ok || got != v {
			return false
		}
	}
	return true
}

// segment returns the value of a key, which mostly has the same spelling everywhere.
func (t *CSITopology) segment(key string) (value string, ok bool) {
	value, ok = t.Segments[key]
	if ok {
		return value, true
	}
	for k, v := range t.Segments {
		if strings.EqualFold(k, key) {
			return v, true
		}
	}
	return "", false
}

// CSITopologyRequest lists the topologies from which a volume must be reachable (Required) or should be
// (Preferred, best first) (CSI spec, TopologyRequirement).
type CSITopologyRequest struct {
	Required  []*CSITopology
	Preferred []*CSITopology
}

// CSIControllerInfo are the controller's capabilities (CSI spec, ControllerGetCapabilities).
type CSIControllerInfo struct {
	SupportsCreateDelete             bool
	SupportsAttachDetach             bool
	SupportsListVolumes              bool
	SupportsGetCapacity              bool
	SupportsCreateDeleteSnapshot     bool
	SupportsListSnapshots            bool
	SupportsClone                    bool
	SupportsReadOnlyAttach           bool
	SupportsExpand                   bool
	SupportsListVolumesAttachedNodes bool
	SupportsCondition                bool
	SupportsGet                      bool
	SupportsSingleNodeMultiWriter    bool
	SupportsModify                   bool
	// GroupSnapshots is CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT of the group controller.
	GroupSnapshots bool `json:",omitempty" codec:",omitempty"`
	// SupportsListHealth is the capability LIST_VOLUME_HEALTH. SupportsCondition is GET_VOLUME_HEALTH.
	SupportsListHealth bool `json:",omitempty" codec:",omitempty"`
}

// CSINodeInfo holds the answers to NodeGetInfo and NodeGetCapabilities on one node (CSI spec).
type CSINodeInfo struct {
	ID                      string // the plugin's own name of the node, up to 256 bytes
	MaxVolumes              int64  // 0: the plugin names no limit
	AccessibleTopology      *CSITopology
	RequiresNodeStageVolume bool
	SupportsStats           bool
	SupportsExpand          bool
	SupportsCondition       bool
	SupportsMountGroup      bool
	// MultiWriter is the capability SINGLE_NODE_MULTI_WRITER.
	MultiWriter bool `json:",omitempty" codec:",omitempty"`
	// SupportsStorageHealth is the capability GET_STORAGE_HEALTH.
	SupportsStorageHealth bool `json:",omitempty" codec:",omitempty"`
	// StorageHealth is nil while the plugin knows no adverse condition of its storage.
	StorageHealth *CSIStorageHealth `json:",omitempty" codec:",omitempty"`
}

// CSIStorageHealth has the adverse conditions of the storage as one node sees it, the worst first (CSI spec,
// NodeGetStorageHealth).
type CSIStorageHealth struct {
	// Abnormal: the specification has one of the conditions, too. Others are only shown.
	Abnormal   bool
	Conditions []*CSIHealth
}

// CSIHealth is one adverse condition of a volume, or of the storage, as its plugin reports it (CSI spec,
// VolumeHealth and NodeGetStorageHealth).
type CSIHealth struct {
	// Status is a value of the specification: DEGRADED, INACCESSIBLE, DATA_LOSS, STORAGE_DEGRADED or
	// STORAGE_UNREACHABLE. Any other one, such as a number, is only shown.
	Status  string
	Reason  string // in CamelCase
	Message string `json:",omitempty" codec:",omitempty"`
}

// Text shows the condition in one line.
func (h *CSIHealth) Text() string {
	return strings.TrimSuffix(h.Status+" "+h.Reason+": "+h.Message, ": ")
}

// CSIInfo is the report of a plugin instance, in the dialect's shape.
type CSIInfo struct {
	PluginID                 string
	AllocID                  string // the allocation that runs the instance
	Healthy                  bool
	HealthDescription        string
	UpdateTime               int64 // UnixNano of the last change of any field above
	Provider                 string
	ProviderVersion          string
	RequiresControllerPlugin bool
	RequiresTopologies       bool
	// volumes grow only while they are published nowhere (CSI spec, VolumeExpansion)
	ExpandsOffline bool               `json:",omitempty"`
	ControllerInfo *CSIControllerInfo `json:",omitempty"`
	NodeInfo       *CSINodeInfo       `json:",omitempty"`
	// the name that the driver had before its vendor renamed it
	FormerProvider string `json:",omitempty"`
	// EndingCalls are not made by the node, at most MaxEndingCalls.
	EndingCalls []*CSIEndingCall `json:",omitempty" codec:",omitempty"`
}

// CSIEndingCall is a call that ended a process of its plugin twice. It is not made again until the plugin or
// its job has another version, or an operator allows it for its volume.
type CSIEndingCall struct {
	RPC string
	// Volume is the plugin's volume_id, "name:" and the name of a volume or a group that was to be created, or
	// "snapshot:" and a snapshot_id. "" is a call for no single volume, such as a list.
	Volume string `json:",omitempty" codec:",omitempty"`
	Time   int64  // UnixNano of the second end
}

// EndingCallsOf returns the calls for a volume that the instance does not make. names are its NamesOfCalls.
func (i *CSIInfo) EndingCallsOf(names []string) (of []*CSIEndingCall) {
	for _, c := range i.EndingCalls {
		if slices.Contains(names, c.Volume) {
			of = append(of, c)
		}
	}
	return of
}

// Text shows the call in a sentence.
func (c *CSIEndingCall) Text() string {
	if c.Volume == "" {
		return c.RPC + " is not called: it ended the plugin twice"
	}
	return fmt.Sprintf("%s is not called for %s: it ended the plugin twice", c.RPC, c.Volume)
}

// IsDriver reports whether the instance is a process of the driver with the given Provider, under its present
// or its former name. An empty name is not known and excludes nothing.
func (i *CSIInfo) IsDriver(provider string) bool {
	return provider == "" || i.Provider == "" ||
		i.Provider == provider || i.FormerProvider == provider
}

// CSIPluginInstance is the row for one half of one plugin on one node, as that node last reported it.
// Key: (PluginID, Kind, NodeID).
type CSIPluginInstance struct {
	Kind   CSIKind
	NodeID string
	CSIInfo
	// OtherDriver marks an instance that the node reports healthy, but whose Provider is not the plugin's.
	// This is the only reason why Healthy is false.
	OtherDriver bool `json:",omitempty"`
	// DownWithNode marks an instance that was healthy and whose node is down. This is the only reason why
	// Healthy is false: when the node is ready again, so is the instance.
	DownWithNode bool `json:",omitempty"`
	Indexes
}

// Copy returns a copy that shares the topology with i. It must not change.
func (i *CSIPluginInstance) Copy() *CSIPluginInstance {
	c := *i
	c.ControllerInfo = clonePtr(i.ControllerInfo)
	c.NodeInfo = clonePtr(i.NodeInfo)
	return &c
}

// Key names the instance on its node.
func (i *CSIPluginInstance) Key() CSIInstanceKey {
	return CSIInstanceKey{PluginID: i.PluginID, Kind: i.Kind}
}

// NodeReport returns the answers of the node half, empty ones if the instance is nil or has none.
func (i *CSIPluginInstance) NodeReport() CSINodeInfo {
	if i == nil || i.NodeInfo == nil {
		return CSINodeInfo{}
	}
	return *i.NodeInfo
}

// CSIPluginRow is the row of one plugin in the cluster. It exists while an instance, an allocation of a job
// that runs the plugin, or a volume refers to it. Its facts about the controller outlive the controller's
// instances, because a volume's attachments outlive them too.
//
// The first healthy instance defines Provider. Instances of another Provider are not used while an instance
// of the first one, a volume or an attachment refers to the plugin (duty B10).
type CSIPluginRow struct {
	ID                   string
	Provider             string
	Version              string
	Known                bool // an instance has been healthy once: Provider and ControllerRequired are known
	ControllerRequired   bool // the plugin announced a controller service
	ControllerSeen       bool // a controller instance has been healthy once: the next two are known
	SupportsAttachDetach bool
	SupportsReadOnly     bool
	ExpandsOffline       bool `json:",omitempty"` // see CSIInfo
	Indexes
}

// Copy returns a copy.
func (p *CSIPluginRow) Copy() *CSIPluginRow { return clonePtr(p) }

// CSIPlugin is the answer of CSIPlugin.Get: the row with its instances and allocations at the time of the
// read. It omits a deleted allocation.
type CSIPlugin struct {
	ID                  string
	Provider            string
	Version             string
	ControllerRequired  bool
	Controllers         map[string]*CSIInfo // by node ID
	Nodes               map[string]*CSIInfo // by node ID
	Allocations         []*AllocListStub
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	// CallsInFlight are the calls for volumes of the plugin that the leader has in flight. CallsWaiting are the
	// calls that could be made, the oldest since CallsWaitSince (UnixNano). An answer without the leader has 0.
	CallsInFlight  int   `json:",omitempty" codec:",omitempty"`
	CallsWaiting   int   `json:",omitempty" codec:",omitempty"`
	CallsWaitSince int64 `json:",omitempty" codec:",omitempty"`
	Indexes
}

// CSIPluginListStub is one plugin in a list.
type CSIPluginListStub struct {
	ID                  string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	// Ending are the instances that do not make some calls: see CSIInfo.EndingCalls.
	Ending int `json:",omitempty" codec:",omitempty"`
	Indexes
}

// CSIPluginGet reads one plugin with its instances.
var CSIPluginGet = Read[CSIPluginGetRequest, CSIPluginGetResponse]("CSIPlugin.Get")

// CSIPluginGetRequest is the request for one plugin.
type CSIPluginGetRequest struct {
	ID string
	QueryOptions
}

// CSIPluginGetResponse has the plugin.
type CSIPluginGetResponse struct {
	Plugin *CSIPlugin
	QueryMeta
}

// CSIPluginList lists plugins.
var CSIPluginList = Read[QueryRequest, CSIPluginListResponse]("CSIPlugin.List")

// CSIPluginListResponse has the plugins that match.
type CSIPluginListResponse struct {
	Plugins []*CSIPluginListStub
	QueryMeta
}

// CSIPluginDelete deletes an unused plugin. For a plugin in use the error is a precondition.
var CSIPluginDelete = Write[CSIPluginDeleteRequest, Empty]("CSIPlugin.Delete")

// CSIPluginDeleteRequest names the plugin.
type CSIPluginDeleteRequest struct {
	ID string
	WriteOptions
}

// CSIInstanceKey names one instance on a node.
type CSIInstanceKey struct {
	PluginID string
	Kind     CSIKind
}

// Compare orders keys by plugin and kind.
func (k CSIInstanceKey) Compare(o CSIInstanceKey) int {
	return cmp.Or(cmp.Compare(k.PluginID, o.PluginID), cmp.Compare(k.Kind, o.Kind))
}

// NodeUpdateCSI reports changes of a node's plugin instances.
var NodeUpdateCSI = Write[NodeUpdateCSIRequest, Empty]("Node.UpdateCSI")

// NodeUpdateCSIRequest has the changes of one node's plugin instances. With Full, Upserts is complete,
// and the servers remove the node's other instances. With Unsure, the servers write it even if it changes
// nothing, because an earlier request may still be in flight.
type NodeUpdateCSIRequest struct {
	NodeID   string
	SecretID string
	Upserts  []*CSIPluginInstance
	Removes  []CSIInstanceKey
	Full     bool
	Unsure   bool `json:",omitempty"`
	NodeEpoch
	WriteOptions
}
