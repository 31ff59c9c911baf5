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

// The dialect does not have these routes.
var pluginDelete = route(remove, "/v1/plugin/csi/{id}",
	serveMethod(structs.CSIPluginDelete,
		withID(func(req *structs.CSIPluginDeleteRequest, id string) { req.ID = id }),
		whole))

// PluginDelete deletes a plugin without references.
func (c *Client) PluginDelete(ctx context.Context, id string) error {
	return pluginDelete.route.exec(ctx, c, request{id: id})
}

const pluginConfigPath = "/v1/plugin/csi/{id}/config"

var pluginConfig = route(get, pluginConfigPath,
	serveMethod(structs.CSIPluginSettingsGet,
		withID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIPluginSettingsResponse) *structs.CSIPluginSettings { return a.Config }))

// PluginConfig reads the settings for the volumes of a plugin.
func (c *Client) PluginConfig(ctx context.Context, id string, q *Query) (
	*structs.CSIPluginSettings, *Meta, error,
) {
	return pluginConfig.fetch(ctx, c, id, q)
}

var pluginConfigSet = route(put, pluginConfigPath,
	serveMethod(structs.CSIPluginSettingsSet, bindPluginConfig, whole))

func bindPluginConfig(c *call, req *structs.CSIPluginSettingsRequest) error {
	var body structs.CSIPluginSettings
	err := c.decodeBody(&body)
	req.ID = c.id()
	req.OnNodeLoss = body.OnNodeLoss
	req.SecretsFrom = body.SecretsFrom
	return err
}

// SetPluginConfig replaces the settings for the volumes of a plugin.
func (c *Client) SetPluginConfig(ctx context.Context, id string, config *structs.CSIPluginSettings) error {
	return pluginConfigSet.route.exec(ctx, c, request{id: id, body: config})
}
