package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// pluginConfigCalls has the requests to the routes of the settings of a plugin. The path names the plugin.
func pluginConfigCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/plugin/csi/{id}/config": {
			path:    "/v1/plugin/csi/p/config",
			rpc:     "CSIPlugin.GetConfig",
			request: &structs.CSIPluginGetRequest{ID: "p"},
		},
		"PUT /v1/plugin/csi/{id}/config": {
			path: "/v1/plugin/csi/p/config",
			body: `{"ID":"q","OnNodeLoss":"fence","SecretsFrom":"nomad/volumes/default/p","CallsInFlight":2,` +
				`"CallTimeout":30000000000,"ControllerTimeout":60000000000,"NodeTimeout":120000000000}`,
			rpc: "CSIPlugin.SetConfig",
			request: &storage.PluginSettingsRequest{
				ID:          "p",
				OnNodeLoss:  "fence",
				SecretsFrom: "nomad/volumes/default/p",
				PluginCalls: storage.PluginCalls{
					CallsInFlight:     2,
					CallTimeout:       30 * time.Second,
					ControllerTimeout: time.Minute,
					NodeTimeout:       2 * time.Minute,
				},
			},
		},
	}
}
