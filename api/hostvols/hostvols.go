// Package hostvols has the routes of dynamic host volumes, each with the call of the client. The list is a
// type of the list of volumes, which package api has.
package hostvols

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

// given is the volume of a request. A client may send back an answer: the fields that only answers have are
// dropped.
type given struct {
	storage.DynamicHostVolume
	Allocations json.RawMessage `json:",omitempty"`
}

// body is the body of a request to create a volume.
type body struct {
	Volume *given
	api.DialectOptions
}

// Written is the answer to a creation. Warnings are findings for an operator, "" for none.
type Written struct {
	Volume   *storage.DynamicHostVolume
	Warnings string
}

var create = api.NewEndpoint(api.Put, "/v1/volume/host/create",
	api.ServeMethod(storage.HostVolumeCreate, bindCreate,
		func(a *storage.HostVolumeCreateResponse) *Written { return &Written{a.Volume, a.Warnings} }))

func bindCreate(c *api.Call, req *storage.HostVolumeCreateRequest) (err error) {
	req.Volume, err = bindVolume(c, &req.WriteOptions)
	if err != nil {
		return err
	}
	req.Detach, err = c.Flag("detach")
	return err
}

// bindVolume reads the volume of a body, whose namespace and region become those of the request.
func bindVolume(c *api.Call, o *structs.WriteOptions) (*storage.DynamicHostVolume, error) {
	var b body
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

// Create creates a volume on a node that the servers choose. It returns after the plugin has created the
// volume or, with detach, once the volume is recorded.
func Create(
	ctx context.Context, c *api.Client, v *storage.DynamicHostVolume, detach bool,
) (*Written, error) {
	return create.Send(ctx, c, api.Request{
		Query: url.Values{"detach": {strconv.FormatBool(detach)}},
		Body:  body{Volume: &given{DynamicHostVolume: *v}},
	})
}

// The dialect registers a directory that exists on a node.
var _ = api.Handle(api.Put, "/v1/volume/host/register",
	api.ServeMethod(storage.HostVolumeRegister, bindRegister, api.Whole))

func bindRegister(c *api.Call, req *storage.HostVolumeRegisterRequest) (err error) {
	req.Volume, err = bindVolume(c, &req.WriteOptions)
	return err
}

const path = "/v1/volume/host/{id}"

var get = api.NewEndpoint(api.Get, path, api.ServeMethod(storage.HostVolumeGet,
	api.WithID(func(q *storage.HostVolumeGetRequest, id string) { q.ID = id }),
	func(a *storage.HostVolumeGetResponse) *storage.DynamicHostVolumeDetail { return a.Volume }))

// Get reads a volume with its allocations.
func Get(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*storage.DynamicHostVolumeDetail, *api.Meta, error,
) {
	return get.Fetch(ctx, c, id, q)
}

var remove = api.NewEndpoint(
	api.Remove, path, api.ServeMethod(storage.HostVolumeDelete, bindRemove, api.Whole))

func bindRemove(c *api.Call, req *storage.HostVolumeDeleteRequest) (err error) {
	req.ID = c.ID()
	req.Force, err = c.Flag("force")
	return err
}

// Delete deletes a volume with its data or, with force, the row alone of one whose node is gone.
func Delete(ctx context.Context, c *api.Client, id string, force bool) error {
	return remove.Exec(ctx, c, api.Request{
		ID:    id,
		Query: url.Values{"force": {strconv.FormatBool(force)}},
	})
}
