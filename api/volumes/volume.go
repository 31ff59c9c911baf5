// Package volumes has the routes about storage, each with the call of the client: volumes and their claims,
// host volumes, classes, plugins, use, drift, and snapshots with their groups and schedules.
package volumes

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs"
	"berth/structs/storage"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

var volumeList = api.NewEndpoint(&table, api.Get, "/v1/volumes",
	ofType(api.ServeList(structs.CSIVolumeList, bindVolumeList,
		func(a *structs.CSIVolumeListResponse) []*structs.CSIVolumeListStub {
			return a.Volumes
		}), listHostVolumes))

var listHostVolumes = api.ServeList(storage.HostVolumeList, bindHostVolumes,
	func(a *storage.HostVolumeListResponse) []*storage.DynamicHostVolumeStub { return a.Volumes })

func bindHostVolumes(c *api.Call, q *storage.HostVolumeListRequest) error {
	q.NodeID = c.Param("node_id")
	q.NodePool = c.Param("node_pool")
	return nil
}

// ListHostVolumes lists the dynamic host volumes of a node and of a node pool, "" for all.
func ListHostVolumes(ctx context.Context, c *api.Client, nodeID, pool string) (
	all []*storage.DynamicHostVolumeStub, err error,
) {
	params := url.Values{"type": {structs.VolumeTypeHost}, "node_id": {nodeID}, "node_pool": {pool}}
	_, err = volumeList.Decode(ctx, c, api.Request{Query: params}, &all)
	return all, err
}

// ofType serves lists that the dialect has for the types csi and host.
func ofType[T any](list api.ServeFunc[T], ofHosts func(*api.Call) (any, error)) api.ServeFunc[T] {
	return func(c *api.Call) (any, error) {
		switch t := c.Param("type"); t {
		case "", "csi":
			return list(c)
		case "host":
			return ofHosts(c)
		default:
			return nil, api.BadParam("type", t, "csi")
		}
	}
}

func bindVolumeList(c *api.Call, q *structs.CSIVolumeListRequest) error {
	q.PluginID = c.Param("plugin_id")
	q.NodeID = c.Param("node_id")
	q.Class = c.Param("class")
	return nil
}

// Filter selects the volumes of a plugin or class, and those in use on a node. "" selects all.
type Filter struct {
	PluginID string
	NodeID   string
	Class    string
}

// List lists volumes.
func List(ctx context.Context, c *api.Client, f Filter, q *api.Query) (
	[]*structs.CSIVolumeListStub, *api.Meta, error,
) {
	params := api.QueryValues(q)
	params.Set("type", "csi")
	api.SetGiven(params, "plugin_id", f.PluginID)
	api.SetGiven(params, "node_id", f.NodeID)
	api.SetGiven(params, "class", f.Class)
	return volumeList.Page(ctx, c, api.Request{Query: params})
}

var volumeGet = api.NewEndpoint(&table, api.Get, "/v1/volume/csi/{id}",
	api.ServeMethod(structs.CSIVolumeGet,
		api.WithID(func(q *structs.CSIVolumeGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIVolumeGetResponse) *structs.CSIVolumeDetail {
			return a.Volume.Redacted()
		}))

// Get reads one volume with its claims and attachments.
func Get(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.CSIVolumeDetail, *api.Meta, error,
) {
	return volumeGet.Fetch(ctx, c, id, q)
}

// The dialect does not have this route.
var volumeClaims = api.NewEndpoint(&table, api.Get, "/v1/volume/csi/{id}/claims",
	api.ServeList(structs.CSIClaimList, apiBindClaims,
		func(a *structs.CSIClaimListResponse) []*structs.CSIClaim {
			return a.Claims
		}))

func apiBindClaims(c *api.Call, q *structs.CSIClaimListRequest) error {
	q.VolumeID = c.ID()
	q.NodeID = c.Param("node_id")
	return nil
}

// ClaimsOf lists the claims of a volume in the order of the claim queue.
func ClaimsOf(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.CSIClaim, *api.Meta, error,
) {
	return volumeClaims.Fetch(ctx, c, id, q)
}

var volumesExternal = api.NewEndpoint(&table, api.Get, "/v1/volumes/external",
	api.ServeMethod(structs.CSIVolumeExternal, bindExternal, externalVolumes))

// ExternalVolumes is a page of the plugin's own list of volumes, in the shape of the dialect. Warnings name
// the missing parts of the plugin's storage and the reasons.
type ExternalVolumes struct {
	Volumes   []*structs.CSIVolumeExternalStub
	NextToken string
	Warnings  []string `json:",omitempty"`
}

func externalVolumes(a *structs.CSIVolumeExternalResponse) *ExternalVolumes {
	return &ExternalVolumes{
		Volumes:   a.Volumes,
		NextToken: a.NextToken,
		Warnings:  a.Warnings,
	}
}

func bindExternal(c *api.Call, q *structs.CSIVolumeExternalRequest) (err error) {
	// The servers cannot choose a plugin, and other plugins must not get the secrets.
	q.PluginID = c.Param("plugin_id")
	if q.PluginID == "" {
		return api.BadParam("plugin_id", "", "the ID of a plugin")
	}
	q.Secrets, err = c.Secrets()
	return err
}

// ListExternal returns a page of the plugin's own list of volumes.
func ListExternal(ctx context.Context, c *api.Client, pluginID string, q *api.Query) (
	*ExternalVolumes, error,
) {
	params := api.QueryValues(q)
	params.Set("plugin_id", pluginID)
	return volumesExternal.Send(ctx, c, api.Request{Query: params})
}

var _ = table.Handle(api.Put, "/v1/volumes",
	api.ServeMethod(structs.CSIVolumeRegister, bindVolumesPut, volumesWritten), api.HoldsJobs)

// volumeBody is a volume that a client writes. The fields that a read adds to the volume may come back in it
// and are dropped. A client reads a volume, changes a field and sends it back.
type volumeBody struct {
	structs.CSIVolume
	AccessMode, AttachmentMode, ReadAllocs, WriteAllocs, Allocations  json.RawMessage
	Claims, Attachments, Schedulable, Blocked                         json.RawMessage
	Warnings, WaitingJobs, ExpandBlocked, LossPolicy, SecretsVariable json.RawMessage
	Provider, ProviderVersion, ControllerRequired, ControllersHealthy json.RawMessage
	ControllersExpected, NodesHealthy, NodesExpected                  json.RawMessage
	ResourceExhausted                                                 json.RawMessage
}

func bindVolumesPut(c *api.Call, req *structs.CSIVolumeRegisterRequest) error {
	var b struct {
		Volumes []*volumeBody
		api.DialectOptions
	}
	err := c.DecodeBody(&b)
	if err != nil {
		return err
	}

	if len(b.Volumes) == 0 {
		return structs.Invalidf("Volumes: expected at least one volume, found none")
	}

	req.Namespace = cmp.Or(req.Namespace, b.Namespace)
	req.Region = cmp.Or(req.Region, b.Region)
	for i, v := range b.Volumes {
		if v == nil {
			return structs.Invalidf("Volumes[%d]: expected a volume, found null", i)
		}

		v.Namespace = cmp.Or(v.Namespace, req.Namespace)
		v.Namespace = structs.NamespaceOr(v.Namespace)
		req.Volumes = append(req.Volumes, &v.CSIVolume)
	}

	req.Namespace = req.Volumes[0].Namespace
	return nil
}

// volumesAnswer is the dialect's answer to a write of volumes.
type volumesAnswer struct {
	Volumes  []*structs.CSIVolume
	Warnings string
}

func volumesWritten(a *structs.CSIVolumeRegisterResponse) volumesAnswer {
	answer := volumesAnswer{
		Volumes:  make([]*structs.CSIVolume, len(a.Volumes)),
		Warnings: a.Warnings,
	}
	for i, v := range a.Volumes {
		answer.Volumes[i] = v.Redacted()
	}
	return answer
}

var volumeRegister = api.NewEndpoint(&table, api.Put, "/v1/volume/csi/{id}",
	api.ServeMethod(structs.CSIVolumeRegister, bindVolumePut, volumesWritten), api.HoldsJobs)

// Written is a volume as it is after a request. Warnings are findings for an operator, "" for none.
type Written struct {
	*structs.CSIVolume
	Warnings string
}

// Register registers an existing volume of a plugin.
func Register(ctx context.Context, c *api.Client, v *structs.CSIVolume) (*Written, error) {
	return putVolume(ctx, c, volumeRegister, v)
}

var volumeCreate = api.NewEndpoint(&table, api.Put, "/v1/volume/csi/{id}/create",
	api.ServeMethod(structs.CSIVolumeCreate, bindVolumePut, volumesWritten), api.HoldsJobs)

// Create creates a volume at its plugin. It returns after the plugin has created the volume.
func Create(ctx context.Context, c *api.Client, v *structs.CSIVolume) (*Written, error) {
	return putVolume(ctx, c, volumeCreate, v)
}

func bindVolumePut(c *api.Call, req *structs.CSIVolumeRegisterRequest) error {
	err := bindVolumesPut(c, req)
	if err != nil {
		return err
	}
	if len(req.Volumes) != 1 {
		return structs.Invalidf("Volumes: expected one volume, found %d", len(req.Volumes))
	}
	if req.Volumes[0].ID == "" {
		req.Volumes[0].ID = c.ID()
	}
	return c.SameID("volume", req.Volumes[0].ID)
}

// volumeSent is a volume with its secrets in clear text, because structs.Secrets hides them in JSON.
type volumeSent struct {
	*structs.CSIVolume
	Secrets map[string]string
}

func putVolume(
	ctx context.Context, c *api.Client, e *api.Endpoint[volumesAnswer], v *structs.CSIVolume,
) (*Written, error) {
	body := struct{ Volumes []volumeSent }{
		[]volumeSent{{v, v.Secrets}},
	}
	answer, err := e.Send(ctx, c, api.Request{
		ID:   v.ID,
		Body: body,
	})
	if err != nil {
		return nil, err
	}
	if len(answer.Volumes) != 1 {
		return nil, structs.Internalf(
			"the agent answered with %d volumes, expected one", len(answer.Volumes))
	}
	return &Written{answer.Volumes[0], answer.Warnings}, nil
}

var volumeDeregister = api.NewEndpoint(&table, api.Remove, "/v1/volume/csi/{id}",
	api.ServeMethod(structs.CSIVolumeDeregister, bindVolumeDeregister, api.Whole))

func bindVolumeDeregister(c *api.Call, req *structs.CSIVolumeDeregisterRequest) (err error) {
	req.ID = c.ID()
	req.Force, err = c.Flag("force")
	return err
}

// Deregister deletes the row of a volume and leaves the volume at its plugin.
func Deregister(ctx context.Context, c *api.Client, id string, force bool) error {
	return volumeDeregister.Exec(ctx, c, api.Request{
		ID:    id,
		Query: url.Values{"force": {strconv.FormatBool(force)}},
	})
}

var volumeDelete = api.NewEndpoint(&table, api.Remove, "/v1/volume/csi/{id}/delete",
	api.ServeMethod(structs.CSIVolumeDelete, bindVolumeDelete, api.Whole))

func bindVolumeDelete(c *api.Call, req *structs.CSIVolumeDeleteRequest) (err error) {
	req.ID = c.ID()
	req.Secrets, err = c.Secrets()
	if err == nil {
		req.AtOnce, err = c.Flag("now")
	}
	return err
}

// Deletion has the secrets for the plugin, and with AtOnce no volume is deleted later.
type Deletion struct {
	Secrets structs.Secrets
	AtOnce  bool
}

// Delete deletes a volume at its plugin and then its row, or marks it to be deleted later.
func Delete(ctx context.Context, c *api.Client, id string, how Deletion) error {
	header, err := api.SecretsHeader(how.Secrets)
	if err != nil {
		return err
	}
	return volumeDelete.Exec(ctx, c, api.Request{
		ID:     id,
		Header: header,
		Query:  url.Values{"now": {strconv.FormatBool(how.AtOnce)}},
	})
}

var volumeDetach = api.NewEndpoint(&table, api.Remove, "/v1/volume/csi/{id}/detach",
	api.ServeMethod(structs.CSIVolumeDetach, bindVolumeDetach, api.Whole))

func bindVolumeDetach(c *api.Call, req *structs.CSIVolumeDetachRequest) (err error) {
	req.VolumeID = c.ID()
	req.NodeID = c.Param("node")
	req.Reason = c.Param("reason")
	req.By = c.Param("by")
	if req.NodeID == "" {
		return api.BadParam("node", "", "the ID of a node")
	}
	req.Shown, err = BindShown(c)
	if err != nil {
		return err
	}
	req.Force, err = c.Flag("force")
	return err
}

// BindShown reads the state on which a forced release was decided, nil if the request does not tell it.
func BindShown(c *api.Call) (*structs.DetachShown, error) {
	if !c.Params().Has("epoch") {
		return nil, nil
	}
	epoch, err := api.NumberParam[uint64](c, "epoch", 64)
	return &structs.DetachShown{Epoch: epoch, Allocs: c.Params()["alloc"]}, err
}

// SetShown is the inverse of BindShown.
func SetShown(params url.Values, shown *structs.DetachShown) {
	if shown != nil {
		params.Set("epoch", strconv.FormatUint(shown.Epoch, 10))
		params["alloc"] = shown.Allocs
	}
}

// DetachOptions select the node to detach from. Force releases the claims even if the node is
// unreachable or the plugin fails there. By and Reason are recorded. Shown, if not nil, is the state on which
// a forced detach was decided: if it has changed, the error is a conflict.
type DetachOptions struct {
	NodeID string
	Force  bool
	Reason string
	By     string
	Shown  *structs.DetachShown
}

// Detach detaches a volume from a node and returns the proof of it.
func Detach(
	ctx context.Context, c *api.Client, id string, o DetachOptions,
) (*structs.CSIVolumeDetachResponse, error) {
	params := url.Values{
		"node":  {o.NodeID},
		"force": {strconv.FormatBool(o.Force)},
	}
	api.SetGiven(params, "reason", o.Reason)
	api.SetGiven(params, "by", o.By)
	SetShown(params, o.Shown)
	return volumeDetach.Send(ctx, c, api.Request{
		ID:    id,
		Query: params,
	})
}

// The dialect does not have this route.
var volumeLabel = api.NewEndpoint(&table, api.Put, "/v1/volume/csi/{id}/labels",
	api.ServeMethod(structs.CSIVolumeLabel, bindLabels, api.Whole))

// labelsBody is the body of a change of labels.
type labelsBody struct {
	Set   map[string]string
	Unset []string
}

func bindLabels(c *api.Call, req *structs.CSIVolumeLabelRequest) error {
	var b labelsBody
	err := c.DecodeBody(&b)
	req.ID = c.ID()
	req.Set = b.Set
	req.Unset = b.Unset
	return err
}

// Label sets and removes labels of a volume. The others stay.
func Label(
	ctx context.Context, c *api.Client, id string, set map[string]string, unset []string,
) (*structs.CSIVolumeLabelResponse, error) {
	return volumeLabel.Send(ctx, c, api.Request{ID: id, Body: labelsBody{Set: set, Unset: unset}})
}

// The dialect does not have this route.
var volumeRetry = api.NewEndpoint(&table, api.Put, "/v1/volume/csi/{id}/retry",
	api.ServeMethod(structs.CSIVolumeRetry,
		api.WithID(func(req *structs.CSIVolumeRetryRequest, id string) { req.ID = id }),
		api.Whole))

// Retry retries all failed operations of a volume at once. The answer names the mounts among them.
func Retry(ctx context.Context, c *api.Client, id string) (*structs.CSIVolumeRetryResponse, error) {
	return volumeRetry.Send(ctx, c, api.Request{ID: id})
}
