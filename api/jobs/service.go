package jobs

import (
	"context"

	"berth/api"
	"berth/structs"
)

var serviceRemove = api.NewEndpoint(&table, api.Remove, "/v1/service/{id}/{tag}",
	api.ServeMethod(structs.ServiceDelete, bindServiceDelete, api.Whole[structs.Empty]))

func bindServiceDelete(c *api.Call, req *structs.ServiceDeleteRequest) error {
	req.ServiceName = c.ID()
	req.ID = api.Tag(c)
	return nil
}

// DeleteService deletes an instance of a service whose node is down.
func DeleteService(ctx context.Context, c *api.Client, service, id string) error {
	return serviceRemove.Exec(ctx, c, api.Request{ID: service, Tag: id})
}
