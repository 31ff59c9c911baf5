// Package classes has the routes of volume classes, each with the call of the client.
package classes

import (
	"context"

	"berth/api"
	"berth/internal/conf"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var list = api.NewEndpoint(api.Get, "/v1/volume/classes",
	api.ServeMethod(storage.ClassList, nil,
		func(a *storage.ClassListResponse) []*storage.ClassStub { return a.Classes }))

// List lists the volume classes by name.
func List(ctx context.Context, c *api.Client, q *api.Query) ([]*storage.ClassStub, *api.Meta, error) {
	return list.Fetch(ctx, c, "", q)
}

const path = "/v1/volume/class/{id}"

var get = api.NewEndpoint(api.Get, path,
	api.ServeMethod(storage.ClassGet,
		api.WithID(func(q *storage.ClassGetRequest, name string) { q.Name = name }),
		func(a *storage.ClassGetResponse) *storage.VolumeClass { return a.Class }))

// Get reads a class, with its mount flags redacted.
func Get(ctx context.Context, c *api.Client, name string) (*storage.VolumeClass, error) {
	row, _, err := get.Fetch(ctx, c, name, nil)
	return row, err
}

var spaces = api.NewEndpoint(api.Get, path+"/spaces",
	api.ServeMethod(storage.Spaces,
		api.WithID(func(q *storage.SpacesRequest, name string) { q.Class = name }),
		func(a *storage.SpacesResponse) []*storage.Exhaustion { return a.Places }))

// Spaces lists the space for volumes of a class, by place.
func Spaces(ctx context.Context, c *api.Client, name string) ([]*storage.Exhaustion, error) {
	rows, _, err := spaces.Fetch(ctx, c, name, nil)
	return rows, err
}

var put = api.NewEndpoint(api.Put, path, api.ServeMethod(storage.ClassPut, bindPut, api.Whole))

func bindPut(c *api.Call, req *storage.ClassPutRequest) error {
	req.Class = &storage.VolumeClass{}
	err := c.DecodeBody(req.Class)
	if err == nil {
		err = c.SameID("volume class", req.Class.Name)
	}
	req.Class.Name = c.ID()
	return err
}

// Decode decodes a class from the JSON of the API, as strictly as the API does.
func Decode(src []byte) (*storage.VolumeClass, error) {
	row := &storage.VolumeClass{}
	err := conf.DecodeJSON(src, row, nil)
	return row, err
}

// Put creates or replaces a class. Redacted mount flags keep the stored ones.
func Put(ctx context.Context, c *api.Client, row *storage.VolumeClass) error {
	return put.Exec(ctx, c, api.Request{ID: row.Name, Body: row})
}

var remove = api.NewEndpoint(api.Remove, path,
	api.ServeMethod(storage.ClassDelete,
		api.WithID(func(q *storage.ClassDeleteRequest, name string) { q.Name = name }), api.Whole))

// Delete deletes a class that no volume names.
func Delete(ctx context.Context, c *api.Client, name string) error {
	return remove.Exec(ctx, c, api.Request{ID: name})
}
