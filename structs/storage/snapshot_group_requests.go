package storage

import (
	"berth/structs"
)

// SnapshotGroupCreate takes a group snapshot. It waits until its members can be restored, for a bounded time.
// For a group that exists with an equal request it returns that one.
var SnapshotGroupCreate = structs.Write[SnapshotGroupCreateRequest, SnapshotGroupCreateResponse](
	"SnapshotGroup.Create")

// SnapshotGroupCreateRequest has the name of the group, and the IDs of its volumes. Parameters and Secrets
// are for the plugin, and may be empty: the secrets are the first volume's then.
type SnapshotGroupCreateRequest struct {
	GroupName  string
	VolumeIDs  []string
	Parameters map[string]string
	Secrets    structs.Secrets `codec:"Secrets"`
	structs.WriteOptions
}

// SnapshotGroupCreateResponse has the rows of the group and of the members.
type SnapshotGroupCreateResponse struct {
	Group     *GroupSnapshot
	Snapshots []*VolumeSnapshot
	structs.WriteMeta
}

// SnapshotGroupDelete deletes a group with its members at the plugin, and then the rows. The error is a
// conflict while a volume is made from a member.
var SnapshotGroupDelete = structs.Write[SnapshotGroupDeleteRequest, structs.Empty]("SnapshotGroup.Delete")

// SnapshotGroupDeleteRequest names the group.
type SnapshotGroupDeleteRequest struct {
	GroupName string
	// Force deletes the rows alone, and leaves a group at its plugin.
	Force bool `json:",omitempty" codec:",omitempty"`
	structs.WriteOptions
}

// SnapshotGroupList lists the groups.
var SnapshotGroupList = structs.Read[SnapshotGroupListRequest, SnapshotGroupListResponse](
	"SnapshotGroup.List")

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

// SnapshotGroupGet reads a group with its members. The error is not-found.
var SnapshotGroupGet = structs.Read[SnapshotGroupGetRequest, SnapshotGroupGetResponse]("SnapshotGroup.Get")

// SnapshotGroupGetRequest names the group.
type SnapshotGroupGetRequest struct {
	GroupName string
	structs.QueryOptions
}

// SnapshotGroupGetResponse has the row, and the members' rows in its order.
type SnapshotGroupGetResponse struct {
	Group     *GroupSnapshot
	Snapshots []*VolumeSnapshot
	structs.QueryMeta
}
