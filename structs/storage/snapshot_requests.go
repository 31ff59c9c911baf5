package storage

import "berth/structs"

// CSISnapshot is a snapshot as its plugin describes it, and as the dialect has it in requests and answers.
type CSISnapshot struct {
	ID                     string // the plugin's
	ExternalSourceVolumeID string // the plugin's
	SizeBytes              int64
	CreateTime             int64 // seconds since 1970
	IsReady                bool
	SourceVolumeID         string // the ID of the volume
	PluginID               string
	Name                   string
	Secrets                structs.Secrets `json:",omitempty" codec:"Secrets"`
	Parameters             map[string]string
	// AccessibleTopologies are those in which a volume can be made from it; none: everywhere.
	AccessibleTopologies []*structs.CSITopology `json:",omitempty" codec:",omitempty"`
}

// SnapshotCreate takes snapshots of volumes. It waits until they can be restored, for a bounded time. For a
// snapshot that exists with an equal request it returns that one.
var SnapshotCreate = structs.Write[SnapshotCreateRequest, SnapshotCreateResponse]("CSIVolume.CreateSnapshot")

// SnapshotCreateRequest has the snapshots. SourceVolumeID and Name count; PluginID, Secrets and Parameters
// may be given. Without a name the snapshot gets one.
type SnapshotCreateRequest struct {
	Snapshots []*CSISnapshot
	structs.WriteOptions
}

// SnapshotCreateResponse has the rows in the order of the request.
type SnapshotCreateResponse struct {
	Snapshots []*VolumeSnapshot
	structs.WriteMeta
}

// SnapshotDelete deletes a snapshot at its plugin, and then its row. The error is a conflict while a volume
// is made from it.
var SnapshotDelete = structs.Write[SnapshotDeleteRequest, structs.Empty]("CSIVolume.DeleteSnapshot")

// SnapshotDeleteRequest names a snapshot by SnapshotName, or by the plugin and its ID of the snapshot.
type SnapshotDeleteRequest struct {
	SnapshotName string
	PluginID     string
	SnapshotID   string
	Secrets      structs.Secrets `codec:"Secrets"`
	// Force deletes the row alone, and leaves a snapshot at its plugin.
	Force bool `json:",omitempty" codec:",omitempty"`
	structs.WriteOptions
}

// SnapshotExternal lists the snapshots that a plugin has, page by page. For a plugin that does not list them,
// the list has those with rows.
var SnapshotExternal = structs.Read[SnapshotExternalRequest, SnapshotExternalResponse](
	"CSIVolume.ListSnapshots")

// SnapshotExternalRequest names the plugin.
type SnapshotExternalRequest struct {
	PluginID string
	Secrets  structs.Secrets `codec:"Secrets"`
	structs.QueryOptions
}

// SnapshotExternalResponse has one page. Warnings name the missing parts of the storage.
type SnapshotExternalResponse struct {
	Snapshots []*CSISnapshot
	NextToken string
	Warnings  []string
	structs.QueryMeta
}

// SnapshotList lists the rows of snapshots.
var SnapshotList = structs.Read[SnapshotListRequest, SnapshotListResponse]("VolumeSnapshot.List")

// SnapshotListRequest selects the rows of a volume or a plugin, "" for all.
type SnapshotListRequest struct {
	VolumeID string
	PluginID string
	structs.QueryOptions
}

// SnapshotListResponse has the rows by namespace and name.
type SnapshotListResponse struct {
	Snapshots []*VolumeSnapshot
	structs.QueryMeta
}

// SnapshotGet reads a row. The error is not-found.
var SnapshotGet = structs.Read[SnapshotGetRequest, SnapshotGetResponse]("VolumeSnapshot.Get")

// SnapshotGetRequest names the snapshot.
type SnapshotGetRequest struct {
	SnapshotName string
	structs.QueryOptions
}

// SnapshotGetResponse has the row.
type SnapshotGetResponse struct {
	Snapshot *VolumeSnapshot
	structs.QueryMeta
}
