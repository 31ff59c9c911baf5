package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/class"
	"berth/structs/snapshot"
)

// snapshotCalls has the requests to the routes of snapshots.
func snapshotCalls() map[string]routeCall {
	return map[string]routeCall{
		"PUT /v1/volumes/snapshot": {
			path: "/v1/volumes/snapshot?namespace=team",
			body: `{"Snapshots":[{"SourceVolumeID":"v","Name":"n","PluginID":"p","Secrets":{"k":"v"},
				"Parameters":{"a":"b"},"ID":"","IsReady":false}],"Region":"","SecretID":""}`,
			rpc: "CSIVolume.CreateSnapshot",
			request: &snapshot.SnapshotCreateRequest{
				Snapshots: []*snapshot.CSISnapshot{{
					SourceVolumeID: "v",
					Name:           "n",
					PluginID:       "p",
					Secrets:        structs.Secrets{"k": "v"},
					Parameters:     map[string]string{"a": "b"},
				}},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"DELETE /v1/volumes/snapshot": {
			path:    "/v1/volumes/snapshot?plugin_id=p&snapshot_id=a%2Fb",
			rpc:     "CSIVolume.DeleteSnapshot",
			request: &snapshot.SnapshotDeleteRequest{PluginID: "p", SnapshotID: "a/b"},
		},
		"GET /v1/volumes/snapshot": {
			path:    "/v1/volumes/snapshot?plugin_id=p",
			rpc:     "CSIVolume.ListSnapshots",
			request: &snapshot.SnapshotExternalRequest{PluginID: "p"},
		},
		"GET /v1/volume/snapshots": {
			path:    "/v1/volume/snapshots?volume_id=v&plugin_id=p",
			rpc:     "VolumeSnapshot.List",
			request: &snapshot.SnapshotListRequest{VolumeID: "v", PluginID: "p"},
		},
	}
}

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
