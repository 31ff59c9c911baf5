package volumes

import (
	"cmp"
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs"
	"berth/structs/storage"
)

// externalSnapshotPath is the dialect's route of snapshots at plugins.
const externalSnapshotPath = "/v1/volumes/snapshot"

// TakenSnapshots is the dialect's answer to a request for snapshots.
type TakenSnapshots struct{ Snapshots []*storage.CSISnapshot }

var snapshotCreate = api.NewEndpoint(&table, api.Put, externalSnapshotPath,
	api.ServeMethod(storage.SnapshotCreate, bindSnapshotCreate, takenSnapshots))

func bindSnapshotCreate(c *api.Call, req *storage.SnapshotCreateRequest) error {
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

// takenSnapshots gives rows the form of the dialect.
func takenSnapshots(a *storage.SnapshotCreateResponse) *TakenSnapshots {
	all := &TakenSnapshots{Snapshots: []*storage.CSISnapshot{}}
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

// sentSnapshot is a snapshot with its secrets in clear text, because structs.Secrets hides them in JSON.
type sentSnapshot struct {
	*storage.CSISnapshot
	Secrets map[string]string
}

// CreateSnapshot takes a snapshot of a volume. It returns once the snapshot can be restored, or is cut and
// its plugin needs longer.
func CreateSnapshot(
	ctx context.Context, c *api.Client, s *storage.CSISnapshot,
) (*storage.CSISnapshot, error) {
	body := struct{ Snapshots []sentSnapshot }{[]sentSnapshot{{s, s.Secrets}}}
	answer, err := snapshotCreate.Send(ctx, c, api.Request{Body: body})
	if err != nil {
		return nil, err
	}
	if len(answer.Snapshots) != 1 {
		return nil, structs.Internalf("the agent answered with %d snapshots, expected one",
			len(answer.Snapshots))
	}
	return answer.Snapshots[0], nil
}

var externalSnapshotRemove = api.NewEndpoint(&table, api.Remove, externalSnapshotPath,
	api.ServeMethod(storage.SnapshotDelete, bindExternalSnapshotRemove, api.Whole))

func bindExternalSnapshotRemove(c *api.Call, req *storage.SnapshotDeleteRequest) (err error) {
	req.PluginID = c.Param("plugin_id")
	req.SnapshotID = c.Param("snapshot_id")
	req.Secrets, err = c.Secrets()
	return err
}

// SnapshotAtPlugin names a plugin, with the ID of a snapshot there and the secrets for the call.
type SnapshotAtPlugin struct {
	PluginID string
	ID       string
	Secrets  structs.Secrets
}

// DeleteExternalSnapshot deletes a snapshot by the ID that it has at a plugin, also one that berth has not
// taken.
func DeleteExternalSnapshot(ctx context.Context, c *api.Client, at SnapshotAtPlugin) error {
	header, err := api.SecretsHeader(at.Secrets)
	if err != nil {
		return err
	}
	return externalSnapshotRemove.Exec(ctx, c, api.Request{
		Header: header,
		Query:  url.Values{"plugin_id": {at.PluginID}, "snapshot_id": {at.ID}},
	})
}

// ExternalSnapshots is the dialect's page of the snapshots that a plugin has. Warnings name the missing
// parts.
type ExternalSnapshots struct {
	Snapshots []*storage.CSISnapshot
	NextToken string
	Warnings  []string `json:",omitempty"`
}

var externalSnapshotList = api.NewEndpoint(&table, api.Get, externalSnapshotPath, api.ServeMethod(
	storage.SnapshotExternal, bindExternalSnapshotList,
	func(a *storage.SnapshotExternalResponse) *ExternalSnapshots {
		return &ExternalSnapshots{Snapshots: a.Snapshots, NextToken: a.NextToken, Warnings: a.Warnings}
	}))

func bindExternalSnapshotList(c *api.Call, q *storage.SnapshotExternalRequest) (err error) {
	q.PluginID = c.Param("plugin_id")
	if q.PluginID == "" {
		return structs.Invalidf("plugin_id is required: the ID of a plugin")
	}
	q.Secrets, err = c.Secrets()
	return err
}

// ListExternalSnapshots returns a page of the snapshots that a plugin has. The ID of at is not used.
func ListExternalSnapshots(
	ctx context.Context, c *api.Client, at SnapshotAtPlugin, q *api.Query,
) (*ExternalSnapshots, error) {
	header, err := api.SecretsHeader(at.Secrets)
	if err != nil {
		return nil, err
	}
	params := api.QueryValues(q)
	params.Set("plugin_id", at.PluginID)
	return externalSnapshotList.Send(ctx, c, api.Request{Header: header, Query: params})
}

// The dialect has none of the routes below: it keeps no rows of snapshots.
var snapshotList = api.NewEndpoint(&table, api.Get, "/v1/volume/snapshots", api.ServeMethod(
	storage.SnapshotList, bindSnapshotList,
	func(a *storage.SnapshotListResponse) []*storage.VolumeSnapshot { return a.Snapshots }))

func bindSnapshotList(c *api.Call, q *storage.SnapshotListRequest) error {
	q.VolumeID = c.Param("volume_id")
	q.PluginID = c.Param("plugin_id")
	return nil
}

// SnapshotFilter selects the snapshots of a volume and of a plugin. "" selects all.
type SnapshotFilter struct {
	VolumeID string
	PluginID string
}

// ListSnapshots lists the snapshots of a namespace.
func ListSnapshots(ctx context.Context, c *api.Client, f SnapshotFilter) ([]*storage.VolumeSnapshot, error) {
	params := url.Values{}
	if f.VolumeID != "" {
		params.Set("volume_id", f.VolumeID)
	}
	if f.PluginID != "" {
		params.Set("plugin_id", f.PluginID)
	}
	return snapshotList.Send(ctx, c, api.Request{Query: params})
}

const snapshotPath = "/v1/volume/snapshot/{id}"

var snapshotGet = api.NewEndpoint(&table, api.Get, snapshotPath, api.ServeMethod(storage.SnapshotGet,
	api.WithID(func(q *storage.SnapshotGetRequest, name string) { q.SnapshotName = name }),
	func(a *storage.SnapshotGetResponse) *storage.VolumeSnapshot { return a.Snapshot }))

// GetSnapshot reads a snapshot by its name.
func GetSnapshot(ctx context.Context, c *api.Client, name string, q *api.Query) (
	*storage.VolumeSnapshot, *api.Meta, error,
) {
	return snapshotGet.Fetch(ctx, c, name, q)
}

var snapshotRemove = api.NewEndpoint(&table, api.Remove, snapshotPath,
	api.ServeMethod(storage.SnapshotDelete, bindSnapshotRemove, api.Whole))

func bindSnapshotRemove(c *api.Call, req *storage.SnapshotDeleteRequest) (err error) {
	req.SnapshotName = c.ID()
	req.Secrets, err = c.Secrets()
	if err != nil {
		return err
	}
	req.Force, err = c.Flag("force")
	return err
}

// NamedSnapshot names a snapshot, with the secrets for the call. Force deletes the row alone.
type NamedSnapshot struct {
	Name    string
	Secrets structs.Secrets
	Force   bool
}

// DeleteSnapshot deletes a snapshot by its name.
func DeleteSnapshot(ctx context.Context, c *api.Client, one NamedSnapshot) error {
	header, err := api.SecretsHeader(one.Secrets)
	if err != nil {
		return err
	}
	return snapshotRemove.Exec(ctx, c, api.Request{
		ID:     one.Name,
		Header: header,
		Query:  url.Values{"force": {strconv.FormatBool(one.Force)}},
	})
}
