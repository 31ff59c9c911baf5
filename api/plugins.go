package api

import (
	"context"

	"berth/structs"
)

var pluginList = route(get, "/v1/plugins",
	ofTypeCSI(serveList(structs.CSIPluginList, nil,
		func(a *structs.CSIPluginListResponse) []*structs.CSIPluginListStub {
			return a.Plugins
		})))

// Plugins lists plugins.
func (c *Client) Plugins(ctx context.Context, q *Query) (
	[]*structs.CSIPluginListStub, *Meta, error,
) {
	params := queryValues(q)
	params.Set("type", "csi")
	return pluginList.call(ctx, c, request{query: params})
}

var pluginGet = route(get, "/v1/plugin/csi/{id}",
	serveMethod(structs.CSIPluginGet,
		withID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIPluginGetResponse) *structs.CSIPlugin {
			return a.Plugin
		}))

// Plugin reads one plugin with its instances.
func (c *Client) Plugin(ctx context.Context, id string, q *Query) (
	*structs.CSIPlugin, *Meta, error,
) {
	return pluginGet.fetch(ctx, c, id, q)
}

// The dialect does not have this route.
var pluginDelete = route(remove, "/v1/plugin/csi/{id}",
	serveMethod(structs.CSIPluginDelete,
		withID(func(req *structs.CSIPluginDeleteRequest, id string) { req.ID = id }),
		whole))

// PluginDelete deletes a plugin without references.
func (c *Client) PluginDelete(ctx context.Context, id string) error {
	return pluginDelete.route.exec(ctx, c, request{id: id})
}
