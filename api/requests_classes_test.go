package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/storage"
)

// snapshotCalls has the requests to the routes of snapshots.
func snapshotCalls() map[string]routeCall {
	return map[string]routeCall{
		"PUT /v1/volumes/snapshot": {
			path: "/v1/volumes/snapshot?namespace=team",
			body: `{"Snapshots":[{"SourceVolumeID":"v","Name":"n","PluginID":"p","Secrets":{"k":"v"},
				"Parameters":{"a":"b"},"ID":"","IsReady":false}],"Region":"","SecretID":""}`,
			rpc: "CSIVolume.CreateSnapshot",
			request: &storage.SnapshotCreateRequest{
				Snapshots: []*storage.CSISnapshot{{
					SourceVolumeID: "v",
					Name:           "n",
					PluginID:       "p",
					Secrets:        structs.Secrets{"k": "v"},
					Parameters:     map[string]string{"a": "b"},
				}},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"PUT /v1/volume/host/create": {
			path: "/v1/volume/host/create?detach=true&namespace=team",
			body: `{"Volume":{"Name":"n","State":"ready","Allocations":[]},"Region":"","SecretID":""}`,
			rpc:  "HostVolume.Create",
			request: &storage.HostVolumeCreateRequest{
				Volume:       &storage.DynamicHostVolume{Name: "n", Namespace: "team", State: "ready"},
				Detach:       true,
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"PUT /v1/volume/host/register": {
			path: "/v1/volume/host/register?namespace=team",
			body: `{"Volume":{"Name":"n"},"PolicyOverride":false}`,
			rpc:  "HostVolume.Register",
			request: &storage.HostVolumeRegisterRequest{
				Volume:       &storage.DynamicHostVolume{Name: "n", Namespace: "team"},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"DELETE /v1/volume/host/{id}": {
			path:    "/v1/volume/host/v?force=true",
			rpc:     "HostVolume.Delete",
			request: &storage.HostVolumeDeleteRequest{ID: "v", Force: true},
		},
		"PUT /v1/volume/snapshot-group/{id}": {
			path: "/v1/volume/snapshot-group/g?namespace=team",
			body: `{"Volumes":["v","w"],"Parameters":{"a":"b"},"Secrets":{"k":"v"}}`,
			rpc:  "SnapshotGroup.Create",
			request: &storage.SnapshotGroupCreateRequest{
				GroupName:    "g",
				VolumeIDs:    []string{"v", "w"},
				Parameters:   map[string]string{"a": "b"},
				Secrets:      structs.Secrets{"k": "v"},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"GET /v1/volume/snapshot-groups": {
			path:    "/v1/volume/snapshot-groups?plugin_id=p",
			rpc:     "SnapshotGroup.List",
			request: &storage.SnapshotGroupListRequest{PluginID: "p"},
		},
		"PUT /v1/volume/snapshot-schedule/{id}": {
			path: "/v1/volume/snapshot-schedule/nightly",
			body: `{"VolumeID":"v","Crons":["@daily"],"Keep":3,"KeepFor":3600000000000}`,
			rpc:  "SnapshotSchedule.Put",
			request: &storage.SchedulePutRequest{Schedule: &storage.SnapshotSchedule{
				Name:     "nightly",
				VolumeID: "v",
				Crons:    []string{"@daily"},
				Keep:     3,
				KeepFor:  time.Hour,
			}},
		},
		"PUT /v1/volume/snapshot-schedule/{id}/pause": {
			path:    "/v1/volume/snapshot-schedule/nightly/pause",
			body:    `{"Paused":true}`,
			rpc:     "SnapshotSchedule.Pause",
			request: &storage.SchedulePauseRequest{ScheduleName: "nightly", Paused: true},
		},
		"DELETE /v1/volumes/snapshot": {
			path:    "/v1/volumes/snapshot?plugin_id=p&snapshot_id=a%2Fb",
			rpc:     "CSIVolume.DeleteSnapshot",
			request: &storage.SnapshotDeleteRequest{PluginID: "p", SnapshotID: "a/b"},
		},
		"GET /v1/volumes/snapshot": {
			path:    "/v1/volumes/snapshot?plugin_id=p",
			rpc:     "CSIVolume.ListSnapshots",
			request: &storage.SnapshotExternalRequest{PluginID: "p"},
		},
		"GET /v1/volume/snapshots": {
			path:    "/v1/volume/snapshots?volume_id=v&plugin_id=p",
			rpc:     "VolumeSnapshot.List",
			request: &storage.SnapshotListRequest{VolumeID: "v", PluginID: "p"},
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
			request: &storage.ClassPutRequest{Class: &storage.VolumeClass{
				Name:        "fast",
				PluginID:    "p",
				Parameters:  map[string]string{"type": "ssd"},
				Reclaim:     storage.ReclaimDelete,
				DeleteAfter: new(time.Duration),
				Default:     true,
			}},
		},
	}
}
