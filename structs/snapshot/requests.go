package snapshot

import "berth/structs"

// CSISnapshot is a snapshot as its plugin describes it, and as the dialect has it in requests and answers.
type CSISnapshot struct {
	ID                     string            `level:"2"` // the plugin's
	ExternalSourceVolumeID string            `level:"2"` // the plugin's
	SizeBytes              int64             `level:"2"`
	CreateTime             int64             `level:"2"` // seconds since 1970
	IsReady                bool              `level:"2"`
	SourceVolumeID         string            `level:"2"` // the ID of the volume
	PluginID               string            `level:"2"`
	Name                   string            `level:"2"`
	Secrets                structs.Secrets   `json:",omitempty" codec:"Secrets" level:"2"`
	Parameters             map[string]string `level:"2"`
	// AccessibleTopologies are those in which a volume can be made from it; none: everywhere.
	AccessibleTopologies []*structs.CSITopology `json:",omitempty" codec:",omitempty" level:"2"`
}

// Create takes snapshots of volumes. It waits until they can be restored, for a bounded time. For a snapshot
// that exists with an equal request it returns that one.
var Create = structs.Write[SnapshotCreateRequest, SnapshotCreateResponse]("CSIVolume.CreateSnapshot")

// SnapshotCreateRequest has the snapshots. SourceVolumeID and Name count; PluginID, Secrets and Parameters
// may be given. Without a name the snapshot gets one.
type SnapshotCreateRequest struct {
	Snapshots            []*CSISnapshot `level:"2"`
	structs.WriteOptions `level:"2"`
}

// SnapshotCreateResponse has the rows in the order of the request.
type SnapshotCreateResponse struct {
	Snapshots         []*VolumeSnapshot `level:"2"`
	structs.WriteMeta `level:"2"`
}

// Delete deletes a snapshot at its plugin, and then its row. The error is a conflict while a volume is made
// from it.
var Delete = structs.Write[SnapshotDeleteRequest, structs.Empty]("CSIVolume.DeleteSnapshot")

// SnapshotDeleteRequest names a snapshot by SnapshotName, or by the plugin and its ID of the snapshot.
type SnapshotDeleteRequest struct {
	SnapshotName string          `level:"2"`
	PluginID     string          `level:"2"`
	SnapshotID   string          `level:"2"`
	Secrets      structs.Secrets `codec:"Secrets" level:"2"`
	// Force deletes the row alone, and leaves a snapshot at its plugin.
	Force                bool `json:",omitempty" codec:",omitempty" level:"2"`
	structs.WriteOptions `level:"2"`
}

// External lists the snapshots that a plugin has, page by page. For a plugin that does not list them, the
// list has those with rows.
var External = structs.Read[SnapshotExternalRequest, SnapshotExternalResponse]("CSIVolume.ListSnapshots")

// SnapshotExternalRequest names the plugin.
type SnapshotExternalRequest struct {
	PluginID             string          `level:"2"`
	Secrets              structs.Secrets `codec:"Secrets" level:"2"`
	structs.QueryOptions `level:"2"`
}

// SnapshotExternalResponse has one page. Warnings name the missing parts of the storage.
type SnapshotExternalResponse struct {
	Snapshots         []*CSISnapshot `level:"2"`
	NextToken         string         `level:"2"`
	Warnings          []string       `level:"2"`
	structs.QueryMeta `level:"2"`
}

// List lists the rows of snapshots.
var List = structs.Read[SnapshotListRequest, SnapshotListResponse]("VolumeSnapshot.List")

// SnapshotListRequest selects the rows of a volume or a plugin, "" for all.
type SnapshotListRequest struct {
	VolumeID             string `level:"2"`
	PluginID             string `level:"2"`
	structs.QueryOptions `level:"2"`
}

// SnapshotListResponse has the rows by namespace and name.
type SnapshotListResponse struct {
	Snapshots         []*VolumeSnapshot `level:"2"`
	structs.QueryMeta `level:"2"`
}

// Get reads a row. The error is not-found.
var Get = structs.Read[SnapshotGetRequest, SnapshotGetResponse]("VolumeSnapshot.Get")

// SnapshotGetRequest names the snapshot.
type SnapshotGetRequest struct {
	SnapshotName         string `level:"2"`
	structs.QueryOptions `level:"2"`
}

// SnapshotGetResponse has the row.
type SnapshotGetResponse struct {
	Snapshot          *VolumeSnapshot `level:"2"`
	structs.QueryMeta `level:"2"`
}
