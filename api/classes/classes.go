// Package classes has the routes of volume classes, each with the call of the client.
package classes

import (
	"context"

	"berth/api"
	"berth/internal/strictjson"
	"berth/structs/class"
	"berth/structs/jobvolume"
)

// The dialect has none of these routes.
var list = api.NewEndpoint(api.Get, "/v1/volume/classes",
	api.ServeMethod(class.List, nil,
		func(a *class.ClassListResponse) []*class.ClassStub { return a.Classes }))

// List lists the volume classes by name.
func List(ctx context.Context, c *api.Client, q *api.Query) ([]*class.ClassStub, *api.Meta, error) {
	return list.Fetch(ctx, c, "", q)
}

const path = "/v1/volume/class/{id}"

var get = api.NewEndpoint(api.Get, path,
	api.ServeMethod(class.Get,
		api.WithID(func(q *class.ClassGetRequest, name string) { q.Name = name }),
		func(a *class.ClassGetResponse) *class.VolumeClass { return a.Class }))

// Get reads a class, with its mount flags redacted.
func Get(ctx context.Context, c *api.Client, name string) (*class.VolumeClass, error) {
	row, _, err := get.Fetch(ctx, c, name, nil)
	return row, err
}

var spaces = api.NewEndpoint(api.Get, path+"/spaces",
	api.ServeMethod(jobvolume.Spaces,
		api.WithID(func(q *jobvolume.SpacesRequest, name string) { q.Class = name }),
		func(a *jobvolume.SpacesResponse) []*jobvolume.Exhaustion { return a.Places }))

// Spaces lists the space for volumes of a class, by place.
func Spaces(ctx context.Context, c *api.Client, name string) ([]*jobvolume.Exhaustion, error) {
	rows, _, err := spaces.Fetch(ctx, c, name, nil)
	return rows, err
}

var put = api.NewEndpoint(api.Put, path, api.ServeMethod(class.Put, bindPut, api.Whole))

func bindPut(c *api.Call, req *class.ClassPutRequest) error {
	req.Class = &class.VolumeClass{}
	err := c.DecodeBody(req.Class)
	if err == nil {
		err = c.SameID("volume class", req.Class.Name)
	}
	req.Class.Name = c.ID()
	return err
}

// Decode decodes a class from the JSON of the API, as strictly as the API does.
func Decode(src []byte) (*class.VolumeClass, error) {
	row := &class.VolumeClass{}
	err := strictjson.Decode(src, row, nil)
	return row, err
}

// Put creates or replaces a class. Redacted mount flags keep the stored ones.
func Put(ctx context.Context, c *api.Client, row *class.VolumeClass) error {
	return put.Exec(ctx, c, api.Request{ID: row.Name, Body: row})
}

var remove = api.NewEndpoint(api.Remove, path,
	api.ServeMethod(class.Remove,
		api.WithID(func(q *class.ClassDeleteRequest, name string) { q.Name = name }), api.Whole))

// Delete deletes a class that no volume names.
func Delete(ctx context.Context, c *api.Client, name string) error {
	return remove.Exec(ctx, c, api.Request{ID: name})
}
