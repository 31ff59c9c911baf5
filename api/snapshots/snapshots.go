// Package snapshots has the routes of snapshots of volumes, each with the call of the client.
package snapshots

import (
	"cmp"
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs"
	"berth/structs/storage"
)

// path is the dialect's route of snapshots at plugins.
const path = "/v1/volumes/snapshot"

// Taken is the dialect's answer to a request for snapshots.
type Taken struct{ Snapshots []*storage.CSISnapshot }

var create = api.NewEndpoint(api.Put, path, api.ServeMethod(storage.SnapshotCreate, bindCreate, taken))

func bindCreate(c *api.Call, req *storage.SnapshotCreateRequest) error {
	var b struct {
		Snapshots []*storage.CSISnapshot
		api.DialectOptions
	}
	err := c.DecodeBody(&b)
	req.Snapshots = b.Snapshots
	req.Namespace = cmp.Or(req.Namespace, b.Namespace)
	req.Region = cmp.Or(req.Region, b.Region)
	return err
}

// taken gives rows the form of the dialect.
func taken(a *storage.SnapshotCreateResponse) *Taken {
	all := &Taken{Snapshots: []*storage.CSISnapshot{}}
	for _, s := range a.Snapshots {
		all.Snapshots = append(all.Snapshots, &storage.CSISnapshot{
			ID:                     s.ExternalID,
			ExternalSourceVolumeID: s.SourceExternalID,
			SizeBytes:              s.SizeBytes,
			CreateTime:             s.CutTime / 1e9,
			IsReady:                s.State == storage.SnapshotReady,
			SourceVolumeID:         s.VolumeID,
			PluginID:               s.PluginID,
			Name:                   s.Name,
			Parameters:             s.Parameters,
		})
	}
	return all
}

// sent is a snapshot with its secrets in clear text, because structs.Secrets hides them in JSON.
type sent struct {
	*storage.CSISnapshot
	Secrets map[string]string
}

// Create takes a snapshot of a volume. It returns once the snapshot can be restored, or is cut and its plugin
// needs longer.
func Create(ctx context.Context, c *api.Client, s *storage.CSISnapshot) (*storage.CSISnapshot, error) {
	body := struct{ Snapshots []sent }{[]sent{{s, s.Secrets}}}
	answer, err := create.Send(ctx, c, api.Request{Body: body})
	if err != nil {
		return nil, err
	}
	if len(answer.Snapshots) != 1 {
		return nil, structs.Internalf("the agent answered with %d snapshots, expected one",
			len(answer.Snapshots))
	}
	return answer.Snapshots[0], nil
}

var removeExternal = api.NewEndpoint(api.Remove, path,
	api.ServeMethod(storage.SnapshotDelete, bindRemove, api.Whole))

func bindRemove(c *api.Call, req *storage.SnapshotDeleteRequest) (err error) {
	req.PluginID = c.Param("plugin_id")
	req.SnapshotID = c.Param("snapshot_id")
	req.Secrets, err = c.Secrets()
	return err
}

// AtPlugin names a plugin, with the ID of a snapshot there and the secrets for the call.
type AtPlugin struct {
	PluginID string
	ID       string
	Secrets  structs.Secrets
}

// DeleteExternal deletes a snapshot by the ID that it has at a plugin, also one that berth has not taken.
func DeleteExternal(ctx context.Context, c *api.Client, at AtPlugin) error {
	header, err := api.SecretsHeader(at.Secrets)
	if err != nil {
		return err
	}
	return removeExternal.Exec(ctx, c, api.Request{
		Header: header,
		Query:  url.Values{"plugin_id": {at.PluginID}, "snapshot_id": {at.ID}},
	})
}

// Listed is the dialect's page of the snapshots that a plugin has. Warnings name the missing parts.
type Listed struct {
	Snapshots []*storage.CSISnapshot
	NextToken string
	Warnings  []string `json:",omitempty"`
}

var external = api.NewEndpoint(api.Get, path, api.ServeMethod(storage.SnapshotExternal, bindExternal,
	func(a *storage.SnapshotExternalResponse) *Listed {
		return &Listed{Snapshots: a.Snapshots, NextToken: a.NextToken, Warnings: a.Warnings}
	}))

func bindExternal(c *api.Call, q *storage.SnapshotExternalRequest) (err error) {
	q.PluginID = c.Param("plugin_id")
	if q.PluginID == "" {
		return structs.Invalidf("plugin_id is required: the ID of a plugin")
	}
	q.Secrets, err = c.Secrets()
	return err
}

// External returns a page of the snapshots that a plugin has. The ID of at is not used.
func External(ctx context.Context, c *api.Client, at AtPlugin, q *api.Query) (*Listed, error) {
	header, err := api.SecretsHeader(at.Secrets)
	if err != nil {
		return nil, err
	}
	params := api.QueryValues(q)
	params.Set("plugin_id", at.PluginID)
	return external.Send(ctx, c, api.Request{Header: header, Query: params})
}

// The dialect has none of the routes below: it keeps no rows of snapshots.
var list = api.NewEndpoint(api.Get, "/v1/volume/snapshots", api.ServeMethod(storage.SnapshotList, bindList,
	func(a *storage.SnapshotListResponse) []*storage.VolumeSnapshot { return a.Snapshots }))

func bindList(c *api.Call, q *storage.SnapshotListRequest) error {
	q.VolumeID = c.Param("volume_id")
	q.PluginID = c.Param("plugin_id")
	return nil
}

// Filter selects the snapshots of a volume and of a plugin. "" selects all.
type Filter struct {
	VolumeID string
	PluginID string
}

// List lists the snapshots of a namespace.
func List(ctx context.Context, c *api.Client, f Filter) ([]*storage.VolumeSnapshot, error) {
	params := url.Values{}
	if f.VolumeID != "" {
		params.Set("volume_id", f.VolumeID)
	}
	if f.PluginID != "" {
		params.Set("plugin_id", f.PluginID)
	}
	return list.Send(ctx, c, api.Request{Query: params})
}

const one = "/v1/volume/snapshot/{id}"

var get = api.NewEndpoint(api.Get, one, api.ServeMethod(storage.SnapshotGet,
	api.WithID(func(q *storage.SnapshotGetRequest, name string) { q.SnapshotName = name }),
	func(a *storage.SnapshotGetResponse) *storage.VolumeSnapshot { return a.Snapshot }))

// Get reads a snapshot by its name.
func Get(ctx context.Context, c *api.Client, name string, q *api.Query) (
	*storage.VolumeSnapshot, *api.Meta, error,
) {
	return get.Fetch(ctx, c, name, q)
}

var remove = api.NewEndpoint(api.Remove, one, api.ServeMethod(storage.SnapshotDelete, bindNamed, api.Whole))

func bindNamed(c *api.Call, req *storage.SnapshotDeleteRequest) (err error) {
	req.SnapshotName = c.ID()
	req.Secrets, err = c.Secrets()
	if err != nil {
		return err
	}
	req.Force, err = c.Flag("force")
	return err
}

// Named names a snapshot, with the secrets for the call. Force deletes the row alone.
type Named struct {
	Name    string
	Secrets structs.Secrets
	Force   bool
}

// Delete deletes a snapshot by its name.
func Delete(ctx context.Context, c *api.Client, one Named) error {
	header, err := api.SecretsHeader(one.Secrets)
	if err != nil {
		return err
	}
	return remove.Exec(ctx, c, api.Request{
		ID:     one.Name,
		Header: header,
		Query:  url.Values{"force": {strconv.FormatBool(one.Force)}},
	})
}
