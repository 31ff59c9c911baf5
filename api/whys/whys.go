// Package whys has the routes that tell why a volume waits, each with the call of the client.
package whys

import (
	"context"

	"berth/api"
	"berth/structs"
)

// The dialect does not have this route.
var volumeWhy = api.NewEndpoint(api.Get, "/v1/volume/csi/{id}/why",
	api.ServeMethod(structs.VolumeWhy,
		api.WithID(func(q *structs.CSIVolumeGetRequest, id string) { q.ID = id }), api.Whole))

// OfVolume reads why a volume, or a use of it, waits.
func OfVolume(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.WhyResponse, *api.Meta, error,
) {
	return volumeWhy.Fetch(ctx, c, id, q)
}
