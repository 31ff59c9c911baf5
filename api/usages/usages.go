// Package usages has the routes of the use of volumes, each with the call of the client.
package usages

import (
	"context"

	"berth/api"
	"berth/structs/volumeusage"
)

// The dialect does not have these routes.
var list = api.NewEndpoint(api.Get, "/v1/volumes/usage",
	api.ServeMethod(volumeusage.List, nil, api.Whole[volumeusage.VolumeUsageResponse]))

// List asks the nodes how full the mounted volumes of a namespace are.
func List(ctx context.Context, c *api.Client, q *api.Query) (*volumeusage.VolumeUsageResponse, error) {
	all, _, err := list.Fetch(ctx, c, "", q)
	return all, err
}

var one = api.NewEndpoint(api.Get, "/v1/volume/csi/{id}/usage",
	api.ServeMethod(volumeusage.List,
		api.WithID(func(q *volumeusage.VolumeUsageRequest, id string) { q.VolumeID = id }),
		api.Whole[volumeusage.VolumeUsageResponse]))

// Of asks the nodes how full one volume is, and how its mounts are.
func Of(
	ctx context.Context, c *api.Client, id string, q *api.Query,
) (*volumeusage.VolumeUsageResponse, error) {
	all, _, err := one.Fetch(ctx, c, id, q)
	return all, err
}
