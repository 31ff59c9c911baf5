package nodecalls

import (
	"time"

	"berth/structs"
)

// The methods that a node serves to servers, over the connection that the node opened.
// A request for a plugin's controller names the plugin by its ID. Without a healthy instance of the plugin
// the node answers unavailable. Provider, unless empty, is the driver that the plugin's ID belongs to: the
// node answers unavailable and does not call another driver. A request that changes storage has the epoch of
// the node: the node rejects one that comes after its lease, or is of an earlier epoch.

// CSIControllerRequest is a request for a plugin's controller.
type CSIControllerRequest interface {
	// Driver returns the plugin's ID and the place of its Provider in the request.
	Driver() (pluginID string, provider *string)
	// SetTimeout sets CallTimeout.
	SetTimeout(d time.Duration)
}

// CSICapacityRange is in bytes; 0 leaves an end open.
type CSICapacityRange struct {
	RequiredBytes int64
	LimitBytes    int64
}

// ClientCSIControllerCreate makes a node call CreateVolume.
var ClientCSIControllerCreate = structs.Write[ClientCSICreateRequest, ClientCSICreateResponse](
	"ClientCSI.ControllerCreateVolume")

// ClientCSICreateRequest describes the volume. The same Name is the same volume.
type ClientCSICreateRequest struct {
	PluginID          string
	Name              string
	Capacity          CSICapacityRange
	Capabilities      []*structs.CSIVolumeCapability
	MountOptions      *structs.CSIMountOptions
	Parameters        map[string]string
	MutableParameters map[string]string `json:",omitempty" codec:",omitempty"`
	Secrets           structs.Secrets   `codec:"Secrets"`
	CloneID           string            // the plugin's volume_id of the source
	SnapshotID        string            // the plugin's snapshot_id of the source
	Topologies        *structs.CSITopologyRequest
	Provider          string `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSICreateRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSICreateResponse describes the volume that the plugin made.
type ClientCSICreateResponse struct {
	ExternalID string
	Capacity   int64
	Context    map[string]string
	Topologies []*structs.CSITopology
	// Exhausted is the plugin's message if it answered RESOURCE_EXHAUSTED: there is no space for the volume.
	Exhausted string `json:",omitempty"`
	structs.WriteMeta
}

// ClientCSIControllerDelete makes a node call DeleteVolume. It succeeds if the volume does not exist.
var ClientCSIControllerDelete = structs.Write[ClientCSIDeleteRequest, structs.Empty](
	"ClientCSI.ControllerDeleteVolume")

// ClientCSIDeleteRequest names the volume.
type ClientCSIDeleteRequest struct {
	PluginID   string
	ExternalID string
	Secrets    structs.Secrets `codec:"Secrets"`
	Provider   string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIDeleteRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIControllerAttach makes a node call ControllerPublishVolume.
var ClientCSIControllerAttach = structs.Write[ClientCSIAttachRequest, ClientCSIAttachResponse](
	"ClientCSI.ControllerAttachVolume")

// ClientCSIAttachRequest names the volume and the node that is to reach it.
type ClientCSIAttachRequest struct {
	PluginID       string
	ExternalID     string
	ExternalNodeID string
	AccessMode     structs.CSIAccessMode
	AttachmentMode structs.CSIAttachmentMode
	MountOptions   *structs.CSIMountOptions
	ReadOnly       bool
	VolumeContext  map[string]string
	Secrets        structs.Secrets `codec:"Secrets"`
	Provider       string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIAttachRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIAttachResponse has the publish_context.
type ClientCSIAttachResponse struct {
	PublishContext structs.Secrets `codec:"PublishContext"`
	structs.WriteMeta
}

// ClientCSIControllerDetach makes a node call ControllerUnpublishVolume.
var ClientCSIControllerDetach = structs.Write[ClientCSIDetachRequest, structs.Empty](
	"ClientCSI.ControllerDetachVolume")

// ClientCSIDetachRequest names the volume and the node.
type ClientCSIDetachRequest struct {
	PluginID       string
	ExternalID     string
	ExternalNodeID string
	Secrets        structs.Secrets `codec:"Secrets"`
	Provider       string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIDetachRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIControllerValidate makes a node call ValidateVolumeCapabilities. For an unconfirmed volume the
// error is invalid with the plugin's message.
var ClientCSIControllerValidate = structs.Write[ClientCSIValidateRequest, structs.Empty](
	"ClientCSI.ControllerValidateVolume")

// ClientCSIValidateRequest names the volume and the capabilities to confirm.
type ClientCSIValidateRequest struct {
	PluginID     string
	ExternalID   string
	Capabilities []*structs.CSIVolumeCapability
	MountOptions *structs.CSIMountOptions
	Context      map[string]string
	Parameters   map[string]string
	// MutableParameters are for a volume of a plugin with MODIFY_VOLUME.
	MutableParameters map[string]string `json:",omitempty" codec:",omitempty"`
	Secrets           structs.Secrets   `codec:"Secrets"`
	Provider          string            `json:",omitempty"`
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIValidateRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIControllerExpand makes a node call ControllerExpandVolume.
var ClientCSIControllerExpand = structs.Write[ClientCSIExpandRequest, ClientCSIExpandResponse](
	"ClientCSI.ControllerExpandVolume")

// ClientCSIExpandRequest names the volume and its new capacity.
type ClientCSIExpandRequest struct {
	PluginID   string
	ExternalID string
	Capacity   CSICapacityRange
	Capability *structs.CSIVolumeCapability
	Secrets    structs.Secrets `codec:"Secrets"`
	Provider   string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIExpandRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIExpandResponse has the new size.
type ClientCSIExpandResponse struct {
	Capacity              int64
	NodeExpansionRequired bool
	Exhausted             string `json:",omitempty"` // as in ClientCSICreateResponse
	structs.WriteMeta
}

// ClientCSINodeExpand makes a node call NodeExpandVolume where an allocation uses the volume. The node
// answers unavailable while the volume is not published for it.
var ClientCSINodeExpand = structs.Write[ClientCSINodeExpandRequest, ClientCSINodeExpandResponse](
	"ClientCSI.NodeExpandVolume")

// ClientCSINodeExpandRequest names the volume, the allocation and the new capacity.
type ClientCSINodeExpandRequest struct {
	VolumeID        string
	VolumeNamespace string
	AllocID         string
	PluginID        string
	ExternalID      string
	RequiredBytes   int64
	AccessMode      structs.CSIAccessMode
	AttachmentMode  structs.CSIAttachmentMode
	MountOptions    *structs.CSIMountOptions
	Secrets         structs.Secrets `codec:"Secrets"`
	CallTimeout
	structs.WriteOptions
}

// ClientCSINodeExpandResponse has the size that the plugin answered, 0 if it reported none.
type ClientCSINodeExpandResponse struct {
	Capacity int64
	structs.WriteMeta
}

// ClientCSIControllerList makes a node call ListVolumes for one page.
var ClientCSIControllerList = structs.Read[ClientCSIListRequest, ClientCSIListResponse](
	"ClientCSI.ControllerListVolumes")

// ClientCSIListRequest names the plugin and the page.
type ClientCSIListRequest struct {
	PluginID      string
	MaxEntries    int32
	StartingToken string
	Provider      string `json:",omitempty"`
	CallTimeout
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIListRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIListResponse has the page.
type ClientCSIListResponse struct {
	Volumes   []*structs.CSIVolumeExternalStub
	NextToken string
	structs.QueryMeta
}

// ClientCSINodeDetach makes a node release a volume. The node decides by its own records. For an allocation
// that still runs the error is a precondition. Without an error nothing of the volume is left on the node.
var ClientCSINodeDetach = structs.Write[ClientCSINodeDetachRequest, structs.Empty](
	"ClientCSI.NodeDetachVolume")

// ClientCSINodeDetachRequest names the volume, and one allocation (AllocID) or every allocation that no
// longer runs (AllocID "").
type ClientCSINodeDetachRequest struct {
	VolumeID        string
	VolumeNamespace string
	AllocID         string
	// ByOperator makes the node repeat calls that its plugin has rejected with a final error.
	ByOperator bool `json:",omitempty"`
	CallTimeout
	structs.WriteOptions
}

// ClientCSIAllowCalls makes a node forget that calls for a volume have ended their plugin, and make a failed
// mount of the volume again at once.
var ClientCSIAllowCalls = structs.Write[ClientCSIAllowCallsRequest, ClientCSIAllowCallsResponse](
	"ClientCSI.AllowCalls")

// ClientCSIAllowCallsRequest names the volume.
type ClientCSIAllowCallsRequest struct {
	PluginID string
	// Volumes has the names of the volume in structs.CSIEndingCall.
	Volumes []string
	// VolumeNamespace and VolumeID name it in the state.
	VolumeNamespace string
	VolumeID        string
	structs.WriteOptions
}

// ClientCSIAllowCallsResponse has the allocations that wait for the mount that is made again.
type ClientCSIAllowCallsResponse struct {
	AllocIDs []string `json:",omitempty"`
	structs.WriteMeta
}

// ClientCSINodeVolume reads a node's mounts and records of a volume.
var ClientCSINodeVolume = structs.Read[ClientCSINodeVolumeRequest, ClientCSINodeVolumeResponse](
	"ClientCSI.NodeVolume")

// ClientCSINodeVolumeRequest names the volume.
type ClientCSINodeVolumeRequest struct {
	VolumeID        string
	VolumeNamespace string
	structs.QueryOptions
}

// ClientCSINodeVolumeResponse is the content of the node's mount table and volume store.
type ClientCSINodeVolumeResponse struct {
	Mounts  []string // paths of the host at which the volume is mounted or shows as a device
	Pending []string // calls that the plugin has not answered and that may still take effect
	Held    []string // records of allocations in the volume store, for users
	structs.QueryMeta
}
