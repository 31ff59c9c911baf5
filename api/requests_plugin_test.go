package api_test

import "berth/structs"

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
			body: `{"ID":"q","OnNodeLoss":"fence","SecretsFrom":"nomad/volumes/default/p"}`,
			rpc:  "CSIPlugin.SetConfig",
			request: &structs.CSIPluginSettingsRequest{
				ID:          "p",
				OnNodeLoss:  "fence",
				SecretsFrom: "nomad/volumes/default/p",
			},
		},
	}
}
