package volumes

import (
	"context"

	"berth/api"
	"berth/structs"
)

// The dialect does not have this route.
var volumeWhy = api.NewEndpoint(&table, api.Get, "/v1/volume/csi/{id}/why",
	api.ServeMethod(structs.VolumeWhy,
		api.WithID(func(q *structs.CSIVolumeGetRequest, id string) { q.ID = id }), api.Whole))

// Why reads why a volume, or a use of it, waits.
func Why(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.WhyResponse, *api.Meta, error,
) {
	return volumeWhy.Fetch(ctx, c, id, q)
}
