package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/class"
	"berth/structs/hostvol"
	"berth/structs/snapgroup"
	"berth/structs/snapschedule"
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
		"PUT /v1/volume/host/create": {
			path: "/v1/volume/host/create?detach=true&namespace=team",
			body: `{"Volume":{"Name":"n","State":"ready","Allocations":[]},"Region":"","SecretID":""}`,
			rpc:  "HostVolume.Create",
			request: &hostvol.HostVolumeCreateRequest{
				Volume:       &hostvol.DynamicHostVolume{Name: "n", Namespace: "team", State: "ready"},
				Detach:       true,
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"PUT /v1/volume/host/register": {
			path: "/v1/volume/host/register?namespace=team",
			body: `{"Volume":{"Name":"n"},"PolicyOverride":false}`,
			rpc:  "HostVolume.Register",
			request: &hostvol.HostVolumeRegisterRequest{
				Volume:       &hostvol.DynamicHostVolume{Name: "n", Namespace: "team"},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		},
		"DELETE /v1/volume/host/{id}": {
			path:    "/v1/volume/host/v?force=true",
			rpc:     "HostVolume.Delete",
			request: &hostvol.HostVolumeDeleteRequest{ID: "v", Force: true},
		},
		"PUT /v1/volume/snapshot-group/{id}": {
			path: "/v1/volume/snapshot-group/g?namespace=team",
			body: `{"Volumes":["v","w"],"Parameters":{"a":"b"},"Secrets":{"k":"v"}}`,
			rpc:  "SnapshotGroup.Create",
			request: &snapgroup.SnapshotGroupCreateRequest{
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
			request: &snapgroup.SnapshotGroupListRequest{PluginID: "p"},
		},
		"PUT /v1/volume/snapshot-schedule/{id}": {
			path: "/v1/volume/snapshot-schedule/nightly",
			body: `{"VolumeID":"v","Crons":["@daily"],"Keep":3,"KeepFor":3600000000000}`,
			rpc:  "SnapshotSchedule.Put",
			request: &snapschedule.SchedulePutRequest{Schedule: &snapschedule.SnapshotSchedule{
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
			request: &snapschedule.SchedulePauseRequest{ScheduleName: "nightly", Paused: true},
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
