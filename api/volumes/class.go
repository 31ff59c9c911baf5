package volumes

import (
	"context"

	"berth/api"
	"berth/internal/conf"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var classList = api.NewEndpoint(&table, api.Get, "/v1/volume/classes",
	api.ServeMethod(storage.ClassList, nil,
		func(a *storage.ClassListResponse) []*storage.ClassStub { return a.Classes }))

// ListClasses lists the volume classes by name.
func ListClasses(ctx context.Context, c *api.Client, q *api.Query) ([]*storage.ClassStub, *api.Meta, error) {
	return classList.Fetch(ctx, c, "", q)
}

const classPath = "/v1/volume/class/{id}"

var classGet = api.NewEndpoint(&table, api.Get, classPath,
	api.ServeMethod(storage.ClassGet,
		api.WithID(func(q *storage.ClassGetRequest, name string) { q.Name = name }),
		func(a *storage.ClassGetResponse) *storage.VolumeClass { return a.Class }))

// GetClass reads a class, with its mount flags redacted.
func GetClass(ctx context.Context, c *api.Client, name string) (*storage.VolumeClass, error) {
	row, _, err := classGet.Fetch(ctx, c, name, nil)
	return row, err
}

var classSpaces = api.NewEndpoint(&table, api.Get, classPath+"/spaces",
	api.ServeMethod(storage.Spaces,
		api.WithID(func(q *storage.SpacesRequest, name string) { q.Class = name }),
		func(a *storage.SpacesResponse) []*storage.Exhaustion { return a.Places }))

// ClassSpaces lists the space for volumes of a class, by place.
func ClassSpaces(ctx context.Context, c *api.Client, name string) ([]*storage.Exhaustion, error) {
	rows, _, err := classSpaces.Fetch(ctx, c, name, nil)
	return rows, err
}

var classPut = api.NewEndpoint(&table, api.Put, classPath,
	api.ServeMethod(storage.ClassPut, bindClass, api.Whole))

func bindClass(c *api.Call, req *storage.ClassPutRequest) error {
	req.Class = &storage.VolumeClass{}
	err := c.DecodeBody(req.Class)
	if err == nil {
		err = c.SameID("volume class", req.Class.Name)
	}
	req.Class.Name = c.ID()
	return err
}

// DecodeClass decodes a class from the JSON of the API, as strictly as the API does.
func DecodeClass(src []byte) (*storage.VolumeClass, error) {
	row := &storage.VolumeClass{}
	err := conf.DecodeJSON(src, row, nil)
	return row, err
}

// PutClass creates or replaces a class. Redacted mount flags keep the stored ones.
func PutClass(ctx context.Context, c *api.Client, row *storage.VolumeClass) error {
	return classPut.Exec(ctx, c, api.Request{ID: row.Name, Body: row})
}

var classRemove = api.NewEndpoint(&table, api.Remove, classPath,
	api.ServeMethod(storage.ClassDelete,
		api.WithID(func(q *storage.ClassDeleteRequest, name string) { q.Name = name }), api.Whole))

// DeleteClass deletes a class that no volume names.
func DeleteClass(ctx context.Context, c *api.Client, name string) error {
	return classRemove.Exec(ctx, c, api.Request{ID: name})
}
