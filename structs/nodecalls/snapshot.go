package nodecalls

import (
	"berth/structs"
	"berth/structs/storage"
)

// ClientCSISnapshotCreate makes a node call CreateSnapshot.
var ClientCSISnapshotCreate = structs.Write[ClientCSISnapshotRequest, ClientCSISnapshotResponse](
	"ClientCSI.ControllerCreateSnapshot")

// ClientCSISnapshotRequest describes the snapshot. The same Name is the same snapshot.
type ClientCSISnapshotRequest struct {
	PluginID         string
	Name             string
	SourceExternalID string // the plugin's volume_id of the source
	Parameters       map[string]string
	Secrets          structs.Secrets `codec:"Secrets"`
	Provider         string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSISnapshotRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSISnapshotResponse describes the snapshot that the plugin has cut.
type ClientCSISnapshotResponse struct {
	Snapshot *storage.CSISnapshot
	// Exhausted is the plugin's message if it answered RESOURCE_EXHAUSTED: there is no space for the snapshot.
	Exhausted string `json:",omitempty"`
	structs.WriteMeta
}

// ClientCSISnapshotDelete makes a node call DeleteSnapshot. It succeeds if the snapshot does not exist.
var ClientCSISnapshotDelete = structs.Write[ClientCSISnapshotDeleteRequest, structs.Empty](
	"ClientCSI.ControllerDeleteSnapshot")

// ClientCSISnapshotDeleteRequest names the snapshot.
type ClientCSISnapshotDeleteRequest struct {
	PluginID   string
	ExternalID string
	Secrets    structs.Secrets `codec:"Secrets"`
	Provider   string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSISnapshotDeleteRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSISnapshotList makes a node call ListSnapshots for one page.
var ClientCSISnapshotList = structs.Read[ClientCSISnapshotListRequest, ClientCSISnapshotListResponse](
	"ClientCSI.ControllerListSnapshots")

// ClientCSISnapshotListRequest names the plugin and the page.
type ClientCSISnapshotListRequest struct {
	PluginID      string
	MaxEntries    int32
	StartingToken string
	Secrets       structs.Secrets `codec:"Secrets"`
	Provider      string          `json:",omitempty"`
	CallTimeout
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSISnapshotListRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSISnapshotListResponse has the page.
type ClientCSISnapshotListResponse struct {
	Snapshots []*storage.CSISnapshot
	NextToken string
	structs.QueryMeta
}
