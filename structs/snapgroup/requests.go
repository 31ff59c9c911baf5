package snapgroup

import (
	"berth/structs"
	"berth/structs/snapshot"
)

// Create takes a group snapshot. It waits until its members can be restored, for a bounded time. For a group
// that exists with an equal request it returns that one.
var Create = structs.Write[SnapshotGroupCreateRequest, SnapshotGroupCreateResponse](
	"SnapshotGroup.Create")

// SnapshotGroupCreateRequest has the name of the group, and the IDs of its volumes. Parameters and Secrets
// are for the plugin, and may be empty: the secrets are those of the first volume then.
type SnapshotGroupCreateRequest struct {
	GroupName  string
	VolumeIDs  []string
	Parameters map[string]string
	Secrets    structs.Secrets `codec:"Secrets"`
	structs.WriteOptions
}

// SnapshotGroupCreateResponse has the row and those of the members.
type SnapshotGroupCreateResponse struct {
	Group     *GroupSnapshot
	Snapshots []*snapshot.VolumeSnapshot
	structs.WriteMeta
}

// Delete deletes a group with its members at the plugin, and then the rows. The error is a conflict while a
// volume is made from a member.
var Delete = structs.Write[SnapshotGroupDeleteRequest, structs.Empty]("SnapshotGroup.Delete")

// SnapshotGroupDeleteRequest names the group.
type SnapshotGroupDeleteRequest struct {
	GroupName string
	// Force deletes the rows alone, and leaves a group at its plugin.
	Force bool `json:",omitempty" codec:",omitempty"`
	structs.WriteOptions
}

// List lists the groups.
var List = structs.Read[SnapshotGroupListRequest, SnapshotGroupListResponse]("SnapshotGroup.List")

// SnapshotGroupListRequest selects the groups of a plugin, "" for all.
type SnapshotGroupListRequest struct {
	PluginID string
	structs.QueryOptions
}

// SnapshotGroupListResponse has the rows by namespace and name.
type SnapshotGroupListResponse struct {
	Groups []*GroupSnapshot
	structs.QueryMeta
}

// Get reads a group with its members. The error is not-found.
var Get = structs.Read[SnapshotGroupGetRequest, SnapshotGroupGetResponse]("SnapshotGroup.Get")

// SnapshotGroupGetRequest names the group.
type SnapshotGroupGetRequest struct {
	GroupName string
	structs.QueryOptions
}

// SnapshotGroupGetResponse has the row, and those of the members in its order.
type SnapshotGroupGetResponse struct {
	Group     *GroupSnapshot
	Snapshots []*snapshot.VolumeSnapshot
	structs.QueryMeta
}
