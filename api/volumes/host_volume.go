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

// givenHostVolume is the volume of a request. A client may send back an answer: the fields that only answers
// have are dropped.
type givenHostVolume struct {
	storage.DynamicHostVolume
	Allocations json.RawMessage `json:",omitempty"`
}

// hostVolumeBody is the body of a request to create a volume.
type hostVolumeBody struct {
	Volume *givenHostVolume
	api.DialectOptions
}

// HostVolumeWritten is the answer to a creation. Warnings are findings for an operator, "" for none.
type HostVolumeWritten struct {
	Volume   *storage.DynamicHostVolume
	Warnings string
}

// The list of host volumes is a type of the list of volumes, which package api has.
var hostVolumeCreate = api.NewEndpoint(&table, api.Put, "/v1/volume/host/create",
	api.ServeMethod(storage.HostVolumeCreate, bindHostVolumeCreate,
		func(a *storage.HostVolumeCreateResponse) *HostVolumeWritten {
			return &HostVolumeWritten{a.Volume, a.Warnings}
		}))

func bindHostVolumeCreate(c *api.Call, req *storage.HostVolumeCreateRequest) (err error) {
	req.Volume, err = bindHostVolume(c, &req.WriteOptions)
	if err != nil {
		return err
	}
	req.Detach, err = c.Flag("detach")
	return err
}

// bindHostVolume reads the volume of a body, and moves its namespace and region into the request.
func bindHostVolume(c *api.Call, o *structs.WriteOptions) (*storage.DynamicHostVolume, error) {
	var b hostVolumeBody
	err := c.DecodeBody(&b)
	if err != nil {
		return nil, err
	}
	if b.Volume == nil {
		return nil, structs.Invalidf("Volume: expected a host volume, found none")
	}

	v := &b.Volume.DynamicHostVolume
	v.Namespace = structs.NamespaceOr(cmp.Or(v.Namespace, o.Namespace, b.Namespace))
	o.Namespace = v.Namespace
	o.Region = cmp.Or(o.Region, b.Region)
	return v, nil
}

// CreateHostVolume creates a volume on a node that the servers choose. It returns after the plugin has
// created the volume or, with detach, once the volume is recorded.
func CreateHostVolume(
	ctx context.Context, c *api.Client, v *storage.DynamicHostVolume, detach bool,
) (*HostVolumeWritten, error) {
	return hostVolumeCreate.Send(ctx, c, api.Request{
		Query: url.Values{"detach": {strconv.FormatBool(detach)}},
		Body:  hostVolumeBody{Volume: &givenHostVolume{DynamicHostVolume: *v}},
	})
}

// The dialect registers a directory that exists on a node.
var _ = table.Handle(api.Put, "/v1/volume/host/register",
	api.ServeMethod(storage.HostVolumeRegister, bindHostVolumeRegister, api.Whole))

func bindHostVolumeRegister(c *api.Call, req *storage.HostVolumeRegisterRequest) (err error) {
	req.Volume, err = bindHostVolume(c, &req.WriteOptions)
	return err
}

const hostVolumePath = "/v1/volume/host/{id}"

var hostVolumeGet = api.NewEndpoint(&table, api.Get, hostVolumePath, api.ServeMethod(storage.HostVolumeGet,
	api.WithID(func(q *storage.HostVolumeGetRequest, id string) { q.ID = id }),
	func(a *storage.HostVolumeGetResponse) *storage.DynamicHostVolumeDetail { return a.Volume }))

// GetHostVolume reads a volume with its allocations.
func GetHostVolume(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*storage.DynamicHostVolumeDetail, *api.Meta, error,
) {
	return hostVolumeGet.Fetch(ctx, c, id, q)
}

var hostVolumeRemove = api.NewEndpoint(&table,
	api.Remove, hostVolumePath, api.ServeMethod(storage.HostVolumeDelete, bindHostVolumeRemove, api.Whole))

func bindHostVolumeRemove(c *api.Call, req *storage.HostVolumeDeleteRequest) (err error) {
	req.ID = c.ID()
	req.Force, err = c.Flag("force")
	return err
}

// DeleteHostVolume deletes a volume with its data or, with force, the row alone of one whose node is gone.
func DeleteHostVolume(ctx context.Context, c *api.Client, id string, force bool) error {
	return hostVolumeRemove.Exec(ctx, c, api.Request{
		ID:    id,
		Query: url.Values{"force": {strconv.FormatBool(force)}},
	})
}
