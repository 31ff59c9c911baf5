package api_test

import (
	"time"

	"berth/structs/class"
)

// classCalls has the requests to the routes of volume classes. The path names the class.
func classCalls() map[string]routeCall {
	return map[string]routeCall{
		"PUT /v1/volume/class/{id}": {
			path: "/v1/volume/class/fast",
			body: `{"PluginID":"p","Parameters":{"type":"ssd"},"Reclaim":"delete","DeleteAfter":0,"Default":true}`,
			rpc:  "VolumeClass.Put",
			request: &class.ClassPutRequest{Class: &class.VolumeClass{
				Name:        "fast",
				PluginID:    "p",
				Parameters:  map[string]string{"type": "ssd"},
				Reclaim:     class.Delete,
				DeleteAfter: new(time.Duration),
				Default:     true,
			}},
		},
	}
}
