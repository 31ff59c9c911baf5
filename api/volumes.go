package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"berth/structs"
	"berth/structs/storage"
)

var volumeList = NewEndpoint(Get, "/v1/volumes",
	ofType(ServeList(structs.CSIVolumeList, bindVolumeList,
		func(a *structs.CSIVolumeListResponse) []*structs.CSIVolumeListStub {
			return a.Volumes
		}), listHostVolumes))

var listHostVolumes = ServeList(storage.HostVolumeList, bindHostVolumes,
	func(a *storage.HostVolumeListResponse) []*storage.DynamicHostVolumeStub { return a.Volumes })

func bindHostVolumes(c *Call, q *storage.HostVolumeListRequest) error {
	q.NodeID = c.Param("node_id")
	q.NodePool = c.Param("node_pool")
	return nil
}

// HostVolumes lists the dynamic host volumes of a node and of a node pool, "" for all.
func (c *Client) HostVolumes(ctx context.Context, nodeID, pool string) (
	all []*storage.DynamicHostVolumeStub, err error,
) {
	params := url.Values{"type": {structs.VolumeTypeHost}, "node_id": {nodeID}, "node_pool": {pool}}
	_, err = volumeList.route.decode(ctx, c, Request{Query: params}, &all)
	return all, err
}

// ofType serves lists that the dialect has for the types csi and host.
func ofType[T any](list ServeFunc[T], ofHosts func(*Call) (any, error)) ServeFunc[T] {
	return func(c *Call) (any, error) {
		switch t := c.Param("type"); t {
		case "", "csi":
			return list(c)
		case "host":
			return ofHosts(c)
		default:
			return nil, badParam("type", t, "csi")
		}
	}
}

func bindVolumeList(c *Call, q *structs.CSIVolumeListRequest) error {
	q.PluginID = c.Param("plugin_id")
	q.NodeID = c.Param("node_id")
	q.Class = c.Param("class")
	return nil
}

// VolumeFilter selects the volumes of a plugin or class, and those in use on a node. "" selects all.
type VolumeFilter struct {
	PluginID string
	NodeID   string
	Class    string
}

// Volumes lists volumes.
func (c *Client) Volumes(ctx context.Context, f VolumeFilter, q *Query) (
	[]*structs.CSIVolumeListStub, *Meta, error,
) {
	params := QueryValues(q)
	params.Set("type", "csi")
	setGiven(params, "plugin_id", f.PluginID)
	setGiven(params, "node_id", f.NodeID)
	setGiven(params, "class", f.Class)
	return volumeList.call(ctx, c, Request{Query: params})
}

var volumeGet = NewEndpoint(Get, "/v1/volume/csi/{id}",
	ServeMethod(structs.CSIVolumeGet,
		WithID(func(q *structs.CSIVolumeGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIVolumeGetResponse) *structs.CSIVolumeDetail {
			return a.Volume.Redacted()
		}))

// Volume reads one volume with its claims and attachments.
func (c *Client) Volume(ctx context.Context, id string, q *Query) (
	*structs.CSIVolumeDetail, *Meta, error,
) {
	return volumeGet.Fetch(ctx, c, id, q)
}

// The dialect does not have this route.
var volumeClaims = NewEndpoint(Get, "/v1/volume/csi/{id}/claims",
	ServeList(structs.CSIClaimList, bindClaims,
		func(a *structs.CSIClaimListResponse) []*structs.CSIClaim {
			return a.Claims
		}))

func bindClaims(c *Call, q *structs.CSIClaimListRequest) error {
	q.VolumeID = c.ID()
	q.NodeID = c.Param("node_id")
	return nil
}

// VolumeClaims lists the claims of a volume in the order of the claim queue.
func (c *Client) VolumeClaims(ctx context.Context, id string, q *Query) (
	[]*structs.CSIClaim, *Meta, error,
) {
	return volumeClaims.Fetch(ctx, c, id, q)
}

var volumesExternal = NewEndpoint(Get, "/v1/volumes/external",
	ServeMethod(structs.CSIVolumeExternal, bindExternal, externalVolumes))

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

func bindExternal(c *Call, q *structs.CSIVolumeExternalRequest) (err error) {
	// The servers cannot choose a plugin, and other plugins must not get the secrets.
	q.PluginID = c.Param("plugin_id")
	if q.PluginID == "" {
		return badParam("plugin_id", "", "the ID of a plugin")
	}
	q.Secrets, err = c.Secrets()
	return err
}

// VolumesExternal returns a page of the plugin's own list of volumes.
func (c *Client) VolumesExternal(ctx context.Context, pluginID string, q *Query) (
	*ExternalVolumes, error,
) {
	params := QueryValues(q)
	params.Set("plugin_id", pluginID)
	return volumesExternal.Send(ctx, c, Request{Query: params})
}

var _ = Handle(Put, "/v1/volumes",
	ServeMethod(structs.CSIVolumeRegister, bindVolumesPut, volumesWritten), HoldsJobs)

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

func bindVolumesPut(c *Call, req *structs.CSIVolumeRegisterRequest) error {
	var b struct {
		Volumes []*volumeBody
		DialectOptions
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

var volumeRegister = NewEndpoint(Put, "/v1/volume/csi/{id}",
	ServeMethod(structs.CSIVolumeRegister, bindVolumePut, volumesWritten), HoldsJobs)

// VolumeWritten is a volume as it is after a request. Warnings are findings for an operator, "" for none.
type VolumeWritten struct {
	*structs.CSIVolume
	Warnings string
}

// VolumeRegister registers an existing volume of a plugin.
func (c *Client) VolumeRegister(ctx context.Context, v *structs.CSIVolume) (*VolumeWritten, error) {
	return c.volumePut(ctx, volumeRegister, v)
}

var volumeCreate = NewEndpoint(Put, "/v1/volume/csi/{id}/create",
	ServeMethod(structs.CSIVolumeCreate, bindVolumePut, volumesWritten), HoldsJobs)

// VolumeCreate creates a volume at its plugin. It returns after the plugin has created the volume.
func (c *Client) VolumeCreate(ctx context.Context, v *structs.CSIVolume) (*VolumeWritten, error) {
	return c.volumePut(ctx, volumeCreate, v)
}

func bindVolumePut(c *Call, req *structs.CSIVolumeRegisterRequest) error {
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

func (c *Client) volumePut(
	ctx context.Context, e *Endpoint[volumesAnswer], v *structs.CSIVolume,
) (*VolumeWritten, error) {
	body := struct{ Volumes []volumeSent }{
		[]volumeSent{{v, v.Secrets}},
	}
	answer, err := e.Send(ctx, c, Request{
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
	return &VolumeWritten{answer.Volumes[0], answer.Warnings}, nil
}

var volumeDeregister = NewEndpoint(Remove, "/v1/volume/csi/{id}",
	ServeMethod(structs.CSIVolumeDeregister, bindVolumeDeregister, Whole))

func bindVolumeDeregister(c *Call, req *structs.CSIVolumeDeregisterRequest) (err error) {
	req.ID = c.ID()
	req.Force, err = c.Flag("force")
	return err
}

// VolumeDeregister deletes the row of a volume and leaves the volume at its plugin.
func (c *Client) VolumeDeregister(ctx context.Context, id string, force bool) error {
	return volumeDeregister.route.exec(ctx, c, Request{
		ID:    id,
		Query: url.Values{"force": {strconv.FormatBool(force)}},
	})
}

var volumeDelete = NewEndpoint(Remove, "/v1/volume/csi/{id}/delete",
	ServeMethod(structs.CSIVolumeDelete, bindVolumeDelete, Whole))

func bindVolumeDelete(c *Call, req *structs.CSIVolumeDeleteRequest) (err error) {
	req.ID = c.ID()
	req.Secrets, err = c.Secrets()
	if err == nil {
		req.AtOnce, err = c.Flag("now")
	}
	return err
}

// VolumeDeletion has the secrets for the plugin, and with AtOnce no volume is deleted later.
type VolumeDeletion struct {
	Secrets structs.Secrets
	AtOnce  bool
}

// VolumeDelete deletes a volume at its plugin and then its row, or marks it to be deleted later.
func (c *Client) VolumeDelete(ctx context.Context, id string, how VolumeDeletion) error {
	header, err := SecretsHeader(how.Secrets)
	if err != nil {
		return err
	}
	return volumeDelete.route.exec(ctx, c, Request{
		ID:     id,
		Header: header,
		Query:  url.Values{"now": {strconv.FormatBool(how.AtOnce)}},
	})
}

var volumeDetach = NewEndpoint(Remove, "/v1/volume/csi/{id}/detach",
	ServeMethod(structs.CSIVolumeDetach, bindVolumeDetach, Whole))

func bindVolumeDetach(c *Call, req *structs.CSIVolumeDetachRequest) (err error) {
	req.VolumeID = c.ID()
	req.NodeID = c.Param("node")
	req.Reason = c.Param("reason")
	req.By = c.Param("by")
	if req.NodeID == "" {
		return badParam("node", "", "the ID of a node")
	}
	req.Shown, err = BindShown(c)
	if err != nil {
		return err
	}
	req.Force, err = c.Flag("force")
	return err
}

// BindShown reads the state on which a forced release was decided, nil if the request does not tell it.
func BindShown(c *Call) (*structs.DetachShown, error) {
	if !c.Params().Has("epoch") {
		return nil, nil
	}
	epoch, err := numberParam[uint64](c, "epoch", 64)
	return &structs.DetachShown{Epoch: epoch, Allocs: c.Params()["alloc"]}, err
}

// SetShown is the inverse of BindShown.
func SetShown(params url.Values, shown *structs.DetachShown) {
	if shown != nil {
		params.Set("epoch", strconv.FormatUint(shown.Epoch, 10))
		params["alloc"] = shown.Allocs
	}
}

// VolumeDetachOptions select the node to detach from. Force releases the claims even if the node is
// unreachable or the plugin fails there. By and Reason are recorded. Shown, if not nil, is the state on which
// a forced detach was decided: if it has changed, the error is a conflict.
type VolumeDetachOptions struct {
	NodeID string
	Force  bool
	Reason string
	By     string
	Shown  *structs.DetachShown
}

// VolumeDetach detaches a volume from a node and returns the proof of it.
func (c *Client) VolumeDetach(
	ctx context.Context, id string, o VolumeDetachOptions,
) (*structs.CSIVolumeDetachResponse, error) {
	params := url.Values{
		"node":  {o.NodeID},
		"force": {strconv.FormatBool(o.Force)},
	}
	setGiven(params, "reason", o.Reason)
	setGiven(params, "by", o.By)
	SetShown(params, o.Shown)
	return volumeDetach.Send(ctx, c, Request{
		ID:    id,
		Query: params,
	})
}

// The dialect does not have this route.
var volumeRetry = NewEndpoint(Put, "/v1/volume/csi/{id}/retry",
	ServeMethod(structs.CSIVolumeRetry,
		WithID(func(req *structs.CSIVolumeRetryRequest, id string) { req.ID = id }),
		Whole))

// VolumeRetry retries all failed operations of a volume at once. The answer names the mounts among them.
func (c *Client) VolumeRetry(ctx context.Context, id string) (*structs.CSIVolumeRetryResponse, error) {
	return volumeRetry.Send(ctx, c, Request{ID: id})
}
