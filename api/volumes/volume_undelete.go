package volumes

import (
	"context"

	"berth/api"
	"berth/structs/storage"
)

// The dialect does not have this route.
var undelete = api.NewEndpoint(&table, api.Put, "/v1/volume/csi/{id}/undelete",
	api.ServeMethod(storage.VolumeUndelete,
		api.WithID(func(req *storage.VolumeUndeleteRequest, id string) { req.ID = id }), api.Whole))

// Undelete keeps a volume that is marked to be deleted.
func Undelete(ctx context.Context, c *api.Client, id string) error {
	return undelete.Exec(ctx, c, api.Request{ID: id})
}
