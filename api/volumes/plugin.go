package volumes

import (
	"context"

	"berth/api"
	"berth/structs"
	"berth/structs/storage"
)

var pluginList = api.NewEndpoint(&table, api.Get, "/v1/plugins",
	ofType(api.ServeList(structs.CSIPluginList, nil,
		func(a *structs.CSIPluginListResponse) []*structs.CSIPluginListStub {
			return a.Plugins
		}),
		// The plugins of nodes are no plugins of berth.
		func(*api.Call) (any, error) { return []struct{}{}, nil }))

// ListPlugins lists plugins.
func ListPlugins(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.CSIPluginListStub, *api.Meta, error,
) {
	params := api.QueryValues(q)
	params.Set("type", "csi")
	return pluginList.Page(ctx, c, api.Request{Query: params})
}

var pluginGet = api.NewEndpoint(&table, api.Get, "/v1/plugin/csi/{id}",
	api.ServeMethod(structs.CSIPluginGet,
		api.WithID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *structs.CSIPluginGetResponse) *structs.CSIPlugin {
			return a.Plugin
		}))

// GetPlugin reads one plugin with its instances.
func GetPlugin(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.CSIPlugin, *api.Meta, error,
) {
	return pluginGet.Fetch(ctx, c, id, q)
}

// The dialect does not have these routes.
var pluginDelete = api.NewEndpoint(&table, api.Remove, "/v1/plugin/csi/{id}",
	api.ServeMethod(structs.CSIPluginDelete,
		api.WithID(func(req *structs.CSIPluginDeleteRequest, id string) { req.ID = id }),
		api.Whole))

// DeletePlugin deletes a plugin without references.
func DeletePlugin(ctx context.Context, c *api.Client, id string) error {
	return pluginDelete.Exec(ctx, c, api.Request{ID: id})
}

const pluginConfigPath = "/v1/plugin/csi/{id}/config"

var pluginConfig = api.NewEndpoint(&table, api.Get, pluginConfigPath,
	api.ServeMethod(storage.PluginSettingsGet,
		api.WithID(func(q *structs.CSIPluginGetRequest, id string) { q.ID = id }),
		func(a *storage.PluginSettingsResponse) *storage.PluginSettings { return a.Config }))

// GetPluginConfig reads the settings of a plugin.
func GetPluginConfig(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*storage.PluginSettings, *api.Meta, error,
) {
	return pluginConfig.Fetch(ctx, c, id, q)
}

var pluginConfigSet = api.NewEndpoint(&table, api.Put, pluginConfigPath,
	api.ServeMethod(storage.PluginSettingsSet, bindPluginConfig, api.Whole))

func bindPluginConfig(c *api.Call, req *storage.PluginSettingsRequest) error {
	var body storage.PluginSettings
	err := c.DecodeBody(&body)
	req.ID = c.ID()
	body.CopyTo(req)
	return err
}

// SetPluginConfig replaces the settings of a plugin.
func SetPluginConfig(ctx context.Context, c *api.Client, id string, config *storage.PluginSettings) error {
	return pluginConfigSet.Exec(ctx, c, api.Request{ID: id, Body: config})
}
