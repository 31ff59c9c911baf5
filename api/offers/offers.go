// Package offers has the route that deletes an instance of a service, with the call of the client.
package offers

import (
	"context"

	"berth/api"
	"berth/structs"
)

var remove = api.NewEndpoint(api.Remove, "/v1/service/{id}/{tag}",
	api.ServeMethod(structs.ServiceDelete, bindDelete, api.Whole[structs.Empty]))

func bindDelete(c *api.Call, req *structs.ServiceDeleteRequest) error {
	req.ServiceName = c.ID()
	req.ID = api.Tag(c)
	return nil
}

// Delete deletes an instance of a service whose node is down.
func Delete(ctx context.Context, c *api.Client, service, id string) error {
	return remove.Exec(ctx, c, api.Request{ID: service, Tag: id})
}
