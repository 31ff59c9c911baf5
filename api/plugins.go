package api

import (
	"context"

	"berth/structs"
)

var (
	pluginList = route(get, "/v1/plugins",
		ofTypeCSI(serveList(structs.CSIPluginList, nil,
			func(a *structs.CSIPluginListResponse) []*structs.CSIPluginListStub {
				return a.Plugins
			})))
	pluginGet = route(get, "/v1/plugin/csi/{id}",
		serveMethod(structs.CSIPluginGet, bindPlugin,
			func(a *structs.CSIPluginGetResponse) *structs.CSIPlugin {
				return a.Plugin
			}))
	// The dialect does not have this route.
	pluginDelete = route(remove, "/v1/plugin/csi/{id}",
		serveMethod(structs.CSIPluginDelete, bindPluginDelete, whole))
)

func bindPlugin(c *call, q *structs.CSIPluginGetRequest) error {
	q.ID = c.id()
	return nil
}

func bindPluginDelete(c *call, req *structs.CSIPluginDeleteRequest) error {
	req.ID = c.id()
	return nil
}

// Plugins lists plugins.
func (c *Client) Plugins(ctx context.Context, q *Query) (
	[]*structs.CSIPluginListStub, *Meta, error,
) {
	params := queryValues(q)
	params.Set("type", "csi")
	return pluginList.call(ctx, c, request{query: params})
}

// Plugin reads one plugin with its instances.
func (c *Client) Plugin(ctx context.Context, id string, q *Query) (
	*structs.CSIPlugin, *Meta, error,
) {
	return pluginGet.fetch(ctx, c, id, q)
}

// PluginDelete deletes a plugin without references.
func (c *Client) PluginDelete(ctx context.Context, id string) error {
	return pluginDelete.exec(ctx, c, request{id: id})
}
