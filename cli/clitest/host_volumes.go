package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/hostuse"
	"berth/structs/hostvol"
)

// hostClaim is the only claim on a sticky host volume.
var hostClaim = &hostuse.TaskGroupHostVolumeClaim{
	ID:            "d4d4d4d4-0000-4000-8000-000000000001",
	Namespace:     "default",
	JobID:         "web",
	TaskGroupName: "g",
	AllocID:       "a1a1a1a1-0000-4000-8000-000000000001",
	VolumeID:      "c0c0c0c0-0000-4000-8000-000000000001",
	VolumeName:    "cache",
}

func listHostClaims(_ context.Context, r *hostuse.ClaimListRequest) (*hostuse.ClaimListResponse, error) {
	matches := func(asked, value string) bool { return asked == "" || asked == value }
	resp := &hostuse.ClaimListResponse{}
	if matches(r.JobID, hostClaim.JobID) && matches(r.TaskGroup, hostClaim.TaskGroupName) &&
		matches(r.VolumeName, hostClaim.VolumeName) {
		resp.Claims = append(resp.Claims, hostClaim)
	}
	return resp, nil
}

// answerHostVolumes answers the requests about dynamic host volumes. There is one, and each that is created.
func (w *Cluster) answerHostVolumes() {
	cache := &hostvol.DynamicHostVolume{
		ID:            "c0c0c0c0-0000-4000-8000-000000000001",
		Namespace:     "default",
		Name:          "cache",
		PluginID:      "hostpath",
		NodeID:        "e1e1e1e1-0000-4000-8000-000000000001",
		NodePool:      "default",
		CapacityBytes: 64 << 20,
		State:         hostvol.Ready,
		CreateTime:    nanosBefore(0),
		ModifyTime:    nanosBefore(0),
	}
	apitest.On(w.Caller, hostvol.List,
		func(context.Context, *hostvol.HostVolumeListRequest) (*hostvol.HostVolumeListResponse, error) {
			return &hostvol.HostVolumeListResponse{
				Volumes: []*hostvol.DynamicHostVolumeStub{cache.Stub()},
			}, nil
		})
	apitest.On(w.Caller, hostvol.Get,
		func(context.Context, *hostvol.HostVolumeGetRequest) (*hostvol.HostVolumeGetResponse, error) {
			return &hostvol.HostVolumeGetResponse{
				Volume: &hostvol.DynamicHostVolumeDetail{
					DynamicHostVolume: *cache,
					Allocations: []*structs.AllocListStub{{
						ID: hostClaim.AllocID, JobID: "web", TaskGroup: "g", ClientStatus: structs.AllocRunning,
					}},
				},
			}, nil
		})
	apitest.On(w.Caller, hostuse.ClaimList, listHostClaims)
	apitest.On(w.Caller, hostuse.ClaimDelete,
		func(_ context.Context, r *hostuse.ClaimDeleteRequest) (*structs.Empty, error) {
			if r.ClaimID != hostClaim.ID {
				return nil, structs.NotFoundf("no claim %q", r.ClaimID)
			}
			return &structs.Empty{}, nil
		})
	apitest.On(w.Caller, hostvol.Create,
		func(_ context.Context, r *hostvol.HostVolumeCreateRequest) (*hostvol.HostVolumeCreateResponse, error) {
			made := *cache
			made.Name = r.Volume.Name
			if r.Detach {
				made.State = hostvol.Pending
			}
			return &hostvol.HostVolumeCreateResponse{Volume: &made}, nil
		})
	apitest.On(w.Caller, hostvol.Remove,
		func(_ context.Context, r *hostvol.HostVolumeDeleteRequest) (*structs.Empty, error) {
			if r.Force {
				return nil, structs.Preconditionf("force is for a node that is gone")
			}
			return &structs.Empty{}, nil
		})
}
