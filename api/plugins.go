package api

import (
	"context"

	"berth/structs"
)

var pluginList = NewEndpoint(Get, "/v1/plugins",
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
	return pluginList.call(ctx, c, Request{Query: params})
}

var pluginGet = NewEndpoint(Get, "/v1/plugin/csi/{id}",
	ServeMethod(structs.CSIPluginGet,
		WithID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIPluginGetResponse) *structs.CSIPlugin {
			return a.Plugin
		}))

// Plugin reads one plugin with its instances.
func (c *Client) Plugin(ctx context.Context, id string, q *Query) (
	*structs.CSIPlugin, *Meta, error,
) {
	return pluginGet.Fetch(ctx, c, id, q)
}

// The dialect does not have these routes.
var pluginDelete = NewEndpoint(Remove, "/v1/plugin/csi/{id}",
	ServeMethod(structs.CSIPluginDelete,
		WithID(func(req *structs.CSIPluginDeleteRequest, id string) { req.ID = id }),
		Whole))

// PluginDelete deletes a plugin without references.
func (c *Client) PluginDelete(ctx context.Context, id string) error {
	return pluginDelete.route.exec(ctx, c, Request{ID: id})
}

const pluginConfigPath = "/v1/plugin/csi/{id}/config"

var pluginConfig = NewEndpoint(Get, pluginConfigPath,
	ServeMethod(structs.CSIPluginSettingsGet,
		WithID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIPluginSettingsResponse) *structs.CSIPluginSettings { return a.Config }))

// PluginConfig reads the settings for the volumes of a plugin.
func (c *Client) PluginConfig(ctx context.Context, id string, q *Query) (
	*structs.CSIPluginSettings, *Meta, error,
) {
	return pluginConfig.Fetch(ctx, c, id, q)
}

var pluginConfigSet = NewEndpoint(Put, pluginConfigPath,
	ServeMethod(structs.CSIPluginSettingsSet, bindPluginConfig, Whole))

func bindPluginConfig(c *Call, req *structs.CSIPluginSettingsRequest) error {
	var body structs.CSIPluginSettings
	err := c.DecodeBody(&body)
	req.ID = c.ID()
	req.OnNodeLoss = body.OnNodeLoss
	req.SecretsFrom = body.SecretsFrom
	return err
}

// SetPluginConfig replaces the settings for the volumes of a plugin.
func (c *Client) SetPluginConfig(ctx context.Context, id string, config *structs.CSIPluginSettings) error {
	return pluginConfigSet.route.exec(ctx, c, Request{ID: id, Body: config})
}
