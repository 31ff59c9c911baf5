package volumes

import (
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var groupList = api.NewEndpoint(&table,
	api.Get, "/v1/volume/snapshot-groups", api.ServeMethod(storage.SnapshotGroupList, bindGroupList,
		func(a *storage.SnapshotGroupListResponse) []*storage.GroupSnapshot { return a.Groups }))

func bindGroupList(c *api.Call, q *storage.SnapshotGroupListRequest) error {
	q.PluginID = c.Param("plugin_id")
	return nil
}

// ListSnapshotGroups lists the groups of a namespace.
func ListSnapshotGroups(ctx context.Context, c *api.Client) ([]*storage.GroupSnapshot, error) {
	return groupList.Send(ctx, c, api.Request{})
}

const groupPath = "/v1/volume/snapshot-group/{id}"

// ShownSnapshotGroup is a group with the rows of its members.
type ShownSnapshotGroup struct {
	*storage.GroupSnapshot
	Snapshots []*storage.VolumeSnapshot
}

var groupGet = api.NewEndpoint(&table, api.Get, groupPath, api.ServeMethod(storage.SnapshotGroupGet,
	api.WithID(func(q *storage.SnapshotGroupGetRequest, name string) { q.GroupName = name }),
	func(a *storage.SnapshotGroupGetResponse) *ShownSnapshotGroup {
		return &ShownSnapshotGroup{a.Group, a.Snapshots}
	}))

// GetSnapshotGroup reads a group.
func GetSnapshotGroup(ctx context.Context, c *api.Client, name string) (*ShownSnapshotGroup, error) {
	g, _, err := groupGet.Fetch(ctx, c, name, nil)
	return g, err
}

// SnapshotGroupRequest is what a group is to be: the IDs of its volumes, and what its plugin gets with the
// calls. Without secrets the first volume's count.
type SnapshotGroupRequest struct {
	Volumes    []string
	Parameters map[string]string
	Secrets    map[string]string // in clear text, because structs.Secrets hides them in JSON
}

var groupCreate = api.NewEndpoint(&table, api.Put, groupPath, api.ServeMethod(
	storage.SnapshotGroupCreate, bindGroupCreate,
	func(a *storage.SnapshotGroupCreateResponse) *ShownSnapshotGroup {
		return &ShownSnapshotGroup{a.Group, a.Snapshots}
	}))

func bindGroupCreate(c *api.Call, req *storage.SnapshotGroupCreateRequest) error {
	var b SnapshotGroupRequest
	err := c.DecodeBody(&b)
	req.GroupName = c.ID()
	req.VolumeIDs = b.Volumes
	req.Parameters = b.Parameters
	req.Secrets = b.Secrets
	return err
}

// CreateSnapshotGroup takes a group snapshot. It returns once the members can be restored, or are cut and the
// plugin needs longer.
func CreateSnapshotGroup(
	ctx context.Context, c *api.Client, name string, r SnapshotGroupRequest,
) (*ShownSnapshotGroup, error) {
	return groupCreate.Send(ctx, c, api.Request{ID: name, Body: r})
}

var groupRemove = api.NewEndpoint(&table,
	api.Remove, groupPath, api.ServeMethod(storage.SnapshotGroupDelete, bindGroupRemove, api.Whole))

func bindGroupRemove(c *api.Call, q *storage.SnapshotGroupDeleteRequest) (err error) {
	q.GroupName = c.ID()
	q.Force, err = c.Flag("force")
	return err
}

// DeleteSnapshotGroup deletes a group with its members. With force it deletes the rows alone.
func DeleteSnapshotGroup(ctx context.Context, c *api.Client, name string, force bool) error {
	params := url.Values{"force": {strconv.FormatBool(force)}}
	return groupRemove.Exec(ctx, c, api.Request{ID: name, Query: params})
}
