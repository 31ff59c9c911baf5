// Package usages has the routes of the use of volumes, each with the call of the client.
package usages

import (
	"context"

	"berth/api"
	"berth/structs/storage"
)

// The dialect does not have these routes.
var list = api.NewEndpoint(api.Get, "/v1/volumes/usage",
	api.ServeMethod(storage.UsageList, nil, api.Whole[storage.VolumeUsageResponse]))

// List asks the nodes how full the mounted volumes of a namespace are.
func List(ctx context.Context, c *api.Client, q *api.Query) (*storage.VolumeUsageResponse, error) {
	all, _, err := list.Fetch(ctx, c, "", q)
	return all, err
}

var one = api.NewEndpoint(api.Get, "/v1/volume/csi/{id}/usage",
	api.ServeMethod(storage.UsageList,
		api.WithID(func(q *storage.VolumeUsageRequest, id string) { q.VolumeID = id }),
		api.Whole[storage.VolumeUsageResponse]))

// Of asks the nodes how full one volume is, and how its mounts are.
func Of(
	ctx context.Context, c *api.Client, id string, q *api.Query,
) (*storage.VolumeUsageResponse, error) {
	all, _, err := one.Fetch(ctx, c, id, q)
	return all, err
}
