package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/storage"
)

// hostClaim is the only claim on a sticky host volume.
var hostClaim = &storage.TaskGroupHostVolumeClaim{
	ID:            "d4d4d4d4-0000-4000-8000-000000000001",
	Namespace:     "default",
	JobID:         "web",
	TaskGroupName: "g",
	AllocID:       "a1a1a1a1-0000-4000-8000-000000000001",
	VolumeID:      "c0c0c0c0-0000-4000-8000-000000000001",
	VolumeName:    "cache",
}

func listHostClaims(_ context.Context, r *storage.ClaimListRequest) (*storage.ClaimListResponse, error) {
	matches := func(asked, value string) bool { return asked == "" || asked == value }
	resp := &storage.ClaimListResponse{}
	if matches(r.JobID, hostClaim.JobID) && matches(r.TaskGroup, hostClaim.TaskGroupName) &&
		matches(r.VolumeName, hostClaim.VolumeName) {
		resp.Claims = append(resp.Claims, hostClaim)
	}
	return resp, nil
}

// answerHostVolumes answers the requests about dynamic host volumes. There is one, and each that is created.
func (w *Cluster) answerHostVolumes() {
	cache := &storage.DynamicHostVolume{
		ID:            "c0c0c0c0-0000-4000-8000-000000000001",
		Namespace:     "default",
		Name:          "cache",
		PluginID:      "hostpath",
		NodeID:        "e1e1e1e1-0000-4000-8000-000000000001",
		NodePool:      "default",
		CapacityBytes: 64 << 20,
		State:         storage.HostVolumeReady,
		CreateTime:    nanosBefore(0),
		ModifyTime:    nanosBefore(0),
	}
	apitest.On(w.Caller, storage.HostVolumeList,
		func(context.Context, *storage.HostVolumeListRequest) (*storage.HostVolumeListResponse, error) {
			return &storage.HostVolumeListResponse{
				Volumes: []*storage.DynamicHostVolumeStub{cache.Stub()},
			}, nil
		})
	apitest.On(w.Caller, storage.HostVolumeGet,
		func(context.Context, *storage.HostVolumeGetRequest) (*storage.HostVolumeGetResponse, error) {
			return &storage.HostVolumeGetResponse{
				Volume: &storage.DynamicHostVolumeDetail{
					DynamicHostVolume: *cache,
					Allocations: []*structs.AllocListStub{{
						ID: hostClaim.AllocID, JobID: "web", TaskGroup: "g", ClientStatus: structs.AllocRunning,
					}},
				},
			}, nil
		})
	apitest.On(w.Caller, storage.HostVolumeClaimList, listHostClaims)
	apitest.On(w.Caller, storage.HostVolumeClaimDelete,
		func(_ context.Context, r *storage.ClaimDeleteRequest) (*structs.Empty, error) {
			if r.ClaimID != hostClaim.ID {
				return nil, structs.NotFoundf("no claim %q", r.ClaimID)
			}
			return &structs.Empty{}, nil
		})
	apitest.On(w.Caller, storage.HostVolumeCreate,
		func(_ context.Context, r *storage.HostVolumeCreateRequest) (*storage.HostVolumeCreateResponse, error) {
			made := *cache
			made.Name = r.Volume.Name
			if r.Detach {
				made.State = storage.HostVolumePending
			}
			return &storage.HostVolumeCreateResponse{Volume: &made}, nil
		})
	apitest.On(w.Caller, storage.HostVolumeDelete,
		func(_ context.Context, r *storage.HostVolumeDeleteRequest) (*structs.Empty, error) {
			if r.Force {
				return nil, structs.Preconditionf("force is for a node that is gone")
			}
			return &structs.Empty{}, nil
		})
}
