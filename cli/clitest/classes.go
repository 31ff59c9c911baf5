package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/class"
	"berth/structs/jobvolume"
	"berth/structs/reclaim"
)

// answerClasses answers the requests about volume classes. There is one, which volumes name, and each that is
// put.
func (w *Cluster) answerClasses() {
	fast := &class.VolumeClass{
		Name:        "fast",
		Description: "On local disks",
		PluginID:    "hostpath",
		Default:     true,
		Parameters:  map[string]string{"type": "image"},
		Reclaim:     class.Delete,
		MountOptions: &structs.CSIMountOptions{
			FSType:     "ext4",
			MountFlags: []string{structs.RedactedFlag},
		},
		AllowedTopologies: []*structs.CSITopology{{Segments: map[string]string{"zone": "a"}}},
	}
	fast.Canonicalize()
	apitest.On(w.Caller, reclaim.Undelete,
		func(_ context.Context, r *reclaim.VolumeUndeleteRequest) (*structs.Empty, error) {
			if r.ID != "later" {
				return nil, NotFound("volume", r.ID)
			}
			return &structs.Empty{}, nil
		})
	all := map[string]*class.VolumeClass{"fast": fast}
	find := func(name string) (*class.VolumeClass, error) {
		if all[name] == nil {
			return nil, structs.NotFoundf("there is no volume class %q", name)
		}
		return all[name], nil
	}
	apitest.Answer(w.Caller, class.List, class.ClassListResponse{Classes: []*class.ClassStub{fast.Stub()}})
	apitest.On(w.Caller, class.Get,
		func(_ context.Context, r *class.ClassGetRequest) (*class.ClassGetResponse, error) {
			row, err := find(r.Name)
			return &class.ClassGetResponse{Class: row}, err
		})
	apitest.On(w.Caller, jobvolume.Spaces, spacesOf)
	apitest.On(w.Caller, class.Put,
		func(_ context.Context, r *class.ClassPutRequest) (*structs.Empty, error) {
			all[r.Class.Name] = r.Class
			return &structs.Empty{}, nil
		})
	apitest.On(w.Caller, class.Remove,
		func(_ context.Context, r *class.ClassDeleteRequest) (*structs.Empty, error) {
			if r.Name == "fast" {
				return nil, structs.Preconditionf(
					`volume class "fast" cannot be deleted while volume default/data names it`)
			}
			_, err := find(r.Name)
			return &structs.Empty{}, err
		})
}

// spacesOf answers with the space of the class "slow" in two places.
func spacesOf(_ context.Context, r *jobvolume.SpacesRequest) (*jobvolume.SpacesResponse, error) {
	resp := &jobvolume.SpacesResponse{}
	if r.Class == "slow" {
		resp.Places = []*jobvolume.Exhaustion{
			{Place: "zone=a", Left: 3 << 30, MaxVolume: 1 << 30, LeftTime: nanosBefore(time.Hour)},
			{Place: "zone=b", Bytes: 10 << 30, Time: nanosBefore(time.Minute)},
		}
	}
	return resp, nil
}

// markedVolume is a volume that is deleted in a day.
func markedVolume() *structs.CSIVolumeDetail {
	v := dataVolume()
	v.ID = "later"
	v.Claims = nil
	v.Reclaim = class.Delete
	v.DeleteAt = nanosBefore(-class.DefaultDeleteAfter)
	v.DeleteCause = reclaim.ByOperator
	return v
}
