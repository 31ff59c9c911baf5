package volumes

import (
	"context"

	"berth/api"
	"berth/structs/storage"
)

// The dialect does not have these routes.
var usageList = api.NewEndpoint(&table, api.Get, "/v1/volumes/usage",
	api.ServeMethod(storage.UsageList, nil, api.Whole[storage.VolumeUsageResponse]))

// ListUsage asks the nodes how full the mounted volumes of a namespace are.
func ListUsage(ctx context.Context, c *api.Client, q *api.Query) (*storage.VolumeUsageResponse, error) {
	all, _, err := usageList.Fetch(ctx, c, "", q)
	return all, err
}

var volumeUsage = api.NewEndpoint(&table, api.Get, "/v1/volume/csi/{id}/usage",
	api.ServeMethod(storage.UsageList,
		api.WithID(func(q *storage.VolumeUsageRequest, id string) { q.VolumeID = id }),
		api.Whole[storage.VolumeUsageResponse]))

// Usage asks the nodes how full one volume is, and how its mounts are.
func Usage(
	ctx context.Context, c *api.Client, id string, q *api.Query,
) (*storage.VolumeUsageResponse, error) {
	all, _, err := volumeUsage.Fetch(ctx, c, id, q)
	return all, err
}
