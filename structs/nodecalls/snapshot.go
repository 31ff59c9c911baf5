package nodecalls

import (
	"berth/structs"
	"berth/structs/snapshot"
)

// ClientCSISnapshotCreate makes a node call CreateSnapshot.
var ClientCSISnapshotCreate = structs.Write[ClientCSISnapshotRequest, ClientCSISnapshotResponse](
	"ClientCSI.ControllerCreateSnapshot")

// ClientCSISnapshotRequest describes the snapshot. The same Name is the same snapshot.
type ClientCSISnapshotRequest struct {
	PluginID          string            `level:"2"`
	Name              string            `level:"2"`
	SourceExternalID  string            `level:"2"` // the plugin's volume_id of the source
	Parameters        map[string]string `level:"2"`
	Secrets           structs.Secrets   `codec:"Secrets" level:"2"`
	Provider          string            `json:",omitempty" level:"2"`
	structs.NodeEpoch `level:"2"`
	CallTimeout       `level:"2"`
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSISnapshotRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSISnapshotResponse describes the snapshot that the plugin has cut.
type ClientCSISnapshotResponse struct {
	Snapshot *snapshot.CSISnapshot `level:"2"`
	// Exhausted is the plugin's message if it answered RESOURCE_EXHAUSTED: there is no space for the snapshot.
	Exhausted string `json:",omitempty" level:"2"`
	structs.WriteMeta
}

// ClientCSISnapshotDelete makes a node call DeleteSnapshot. It succeeds if the snapshot does not exist.
var ClientCSISnapshotDelete = structs.Write[ClientCSISnapshotDeleteRequest, structs.Empty](
	"ClientCSI.ControllerDeleteSnapshot")

// ClientCSISnapshotDeleteRequest names the snapshot.
type ClientCSISnapshotDeleteRequest struct {
	PluginID          string          `level:"2"`
	ExternalID        string          `level:"2"`
	Secrets           structs.Secrets `codec:"Secrets" level:"2"`
	Provider          string          `json:",omitempty" level:"2"`
	structs.NodeEpoch `level:"2"`
	CallTimeout       `level:"2"`
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
	PluginID      string          `level:"2"`
	MaxEntries    int32           `level:"2"`
	StartingToken string          `level:"2"`
	Secrets       structs.Secrets `codec:"Secrets" level:"2"`
	Provider      string          `json:",omitempty" level:"2"`
	CallTimeout   `level:"2"`
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSISnapshotListRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSISnapshotListResponse has the page.
type ClientCSISnapshotListResponse struct {
	Snapshots []*snapshot.CSISnapshot `level:"2"`
	NextToken string                  `level:"2"`
	structs.QueryMeta
}
