// Package snapgroups has the routes of group snapshots, each with the call of the client.
package snapgroups

import (
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var list = api.NewEndpoint(
	api.Get, "/v1/volume/snapshot-groups", api.ServeMethod(storage.SnapshotGroupList, bindList,
		func(a *storage.SnapshotGroupListResponse) []*storage.GroupSnapshot { return a.Groups }))

func bindList(c *api.Call, q *storage.SnapshotGroupListRequest) error {
	q.PluginID = c.Param("plugin_id")
	return nil
}

// List lists the groups of a namespace.
func List(ctx context.Context, c *api.Client) ([]*storage.GroupSnapshot, error) {
	return list.Send(ctx, c, api.Request{})
}

const path = "/v1/volume/snapshot-group/{id}"

// Shown is a group with the rows of its members.
type Shown struct {
	*storage.GroupSnapshot
	Snapshots []*storage.VolumeSnapshot
}

var get = api.NewEndpoint(api.Get, path, api.ServeMethod(storage.SnapshotGroupGet,
	api.WithID(func(q *storage.SnapshotGroupGetRequest, name string) { q.GroupName = name }),
	func(a *storage.SnapshotGroupGetResponse) *Shown { return &Shown{a.Group, a.Snapshots} }))

// Get reads a group.
func Get(ctx context.Context, c *api.Client, name string) (*Shown, error) {
	g, _, err := get.Fetch(ctx, c, name, nil)
	return g, err
}

// Request is what a group is to be: the IDs of its volumes, and what its plugin gets with the calls. Without
// secrets they are those of the first volume.
type Request struct {
	Volumes    []string
	Parameters map[string]string
	Secrets    map[string]string // in clear text, because structs.Secrets hides them in JSON
}

var create = api.NewEndpoint(api.Put, path, api.ServeMethod(storage.SnapshotGroupCreate, bindCreate,
	func(a *storage.SnapshotGroupCreateResponse) *Shown { return &Shown{a.Group, a.Snapshots} }))

func bindCreate(c *api.Call, req *storage.SnapshotGroupCreateRequest) error {
	var b Request
	err := c.DecodeBody(&b)
	req.GroupName = c.ID()
	req.VolumeIDs = b.Volumes
	req.Parameters = b.Parameters
	req.Secrets = b.Secrets
	return err
}

// Create takes a group snapshot. It returns once the members can be restored, or are cut and the plugin needs
// longer.
func Create(ctx context.Context, c *api.Client, name string, r Request) (*Shown, error) {
	return create.Send(ctx, c, api.Request{ID: name, Body: r})
}

var remove = api.NewEndpoint(
	api.Remove, path, api.ServeMethod(storage.SnapshotGroupDelete, bindRemove, api.Whole))

func bindRemove(c *api.Call, q *storage.SnapshotGroupDeleteRequest) (err error) {
	q.GroupName = c.ID()
	q.Force, err = c.Flag("force")
	return err
}

// Delete deletes a group with its members. With force it deletes the rows alone.
func Delete(ctx context.Context, c *api.Client, name string, force bool) error {
	return remove.Exec(ctx, c, api.Request{ID: name, Query: url.Values{"force": {strconv.FormatBool(force)}}})
}
