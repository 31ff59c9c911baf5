package api

import (
	"context"

	"berth/structs"
	"berth/structs/storage"
)

var pluginList = NewEndpoint(Get, "/v1/plugins",
	ofType(ServeList(structs.CSIPluginList, nil,
		func(a *structs.CSIPluginListResponse) []*structs.CSIPluginListStub {
			return a.Plugins
		}), func(*Call) (any, error) { return []struct{}{}, nil })) // the plugins of nodes are no plugins of berth

// Plugins lists plugins.
func (c *Client) Plugins(ctx context.Context, q *Query) (
	[]*structs.CSIPluginListStub, *Meta, error,
) {
	params := QueryValues(q)
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
	ServeMethod(storage.PluginSettingsGet,
		WithID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *storage.PluginSettingsResponse) *storage.PluginSettings { return a.Config }))

// PluginConfig reads the settings of a plugin.
func (c *Client) PluginConfig(ctx context.Context, id string, q *Query) (
	*storage.PluginSettings, *Meta, error,
) {
	return pluginConfig.Fetch(ctx, c, id, q)
}

var pluginConfigSet = NewEndpoint(Put, pluginConfigPath,
	ServeMethod(storage.PluginSettingsSet, bindPluginConfig, Whole))

func bindPluginConfig(c *Call, req *storage.PluginSettingsRequest) error {
	var body storage.PluginSettings
	err := c.DecodeBody(&body)
	req.ID = c.ID()
	body.CopyTo(req)
	return err
}

// SetPluginConfig replaces the settings of a plugin.
func (c *Client) SetPluginConfig(ctx context.Context, id string, config *storage.PluginSettings) error {
	return pluginConfigSet.route.exec(ctx, c, Request{ID: id, Body: config})
}
