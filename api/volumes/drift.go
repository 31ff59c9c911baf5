package volumes

import (
	"context"
	"net/url"

	"berth/api"
	"berth/structs"
	"berth/structs/storage"
)

// The dialect has none of these routes.
var driftList = api.NewEndpoint(&table, api.Get, "/v1/volumes/drift",
	api.ServeMethod(storage.DriftList, bindDrift,
		func(a *storage.DriftListResponse) []*storage.VolumeDrift { return a.Differences }))

func bindDrift(c *api.Call, req *storage.DriftListRequest) error {
	req.PluginID = c.Param("plugin_id")
	req.VolumeID = c.Param("volume_id")
	return nil
}

// ListDrift lists the differences of the volumes of a namespace. An empty plugin or volume selects all.
func ListDrift(
	ctx context.Context, c *api.Client, pluginID, volumeID string,
) ([]*storage.VolumeDrift, error) {
	params := url.Values{}
	if pluginID != "" {
		params.Set("plugin_id", pluginID)
	}
	if volumeID != "" {
		params.Set("volume_id", volumeID)
	}
	return driftList.Send(ctx, c, api.Request{Query: params})
}

var driftSummaries = api.NewEndpoint(&table, api.Get, "/v1/plugins/drift",
	api.ServeMethod(storage.DriftSummaries, nil,
		func(a *storage.DriftSummariesResponse) []*storage.DriftSummary { return a.Summaries }))

// DriftOfPlugin returns the numbers of the differences of a plugin, nil if there is none.
func DriftOfPlugin(ctx context.Context, c *api.Client, pluginID string) (*storage.DriftSummary, error) {
	all, _, err := driftSummaries.Fetch(ctx, c, "", nil)
	if structs.IsKind(err, structs.KindNotFound) {
		return nil, nil // servers of an earlier version do not know the request
	}
	for _, s := range all {
		if s.PluginID == pluginID {
			return s, err
		}
	}
	return nil, err
}
