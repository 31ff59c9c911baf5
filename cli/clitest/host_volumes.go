package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/hostvol"
)

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
				Volume: &hostvol.DynamicHostVolumeDetail{DynamicHostVolume: *cache},
			}, nil
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
