package clitest

import (
	"context"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/storage"
)

// answerClasses answers the requests about volume classes. There is one, which volumes name, and each that is
// put.
func (w *Cluster) answerClasses() {
	fast := &storage.VolumeClass{
		Name:        "fast",
		Description: "On local disks",
		PluginID:    "hostpath",
		Default:     true,
		Parameters:  map[string]string{"type": "image"},
		Reclaim:     storage.ReclaimDelete,
		MountOptions: &structs.CSIMountOptions{
			FSType:     "ext4",
			MountFlags: []string{structs.RedactedFlag},
		},
		AllowedTopologies: []*structs.CSITopology{{Segments: map[string]string{"zone": "a"}}},
	}
	fast.Canonicalize()
	apitest.On(w.Caller, storage.VolumeUndelete,
		func(_ context.Context, r *storage.VolumeUndeleteRequest) (*structs.Empty, error) {
			if r.ID != "later" {
				return nil, NotFound("volume", r.ID)
			}
			return &structs.Empty{}, nil
		})
	all := map[string]*storage.VolumeClass{"fast": fast}
	find := func(name string) (*storage.VolumeClass, error) {
		if all[name] == nil {
			return nil, structs.NotFoundf("there is no volume class %q", name)
		}
		return all[name], nil
	}
	apitest.Answer(w.Caller, storage.ClassList,
		storage.ClassListResponse{Classes: []*storage.ClassStub{fast.Stub()}})
	apitest.On(w.Caller, storage.ClassGet,
		func(_ context.Context, r *storage.ClassGetRequest) (*storage.ClassGetResponse, error) {
			row, err := find(r.Name)
			return &storage.ClassGetResponse{Class: row}, err
		})
	apitest.On(w.Caller, storage.Spaces, spacesOf)
	apitest.On(w.Caller, storage.ClassPut,
		func(_ context.Context, r *storage.ClassPutRequest) (*structs.Empty, error) {
			all[r.Class.Name] = r.Class
			return &structs.Empty{}, nil
		})
	apitest.On(w.Caller, storage.ClassDelete,
		func(_ context.Context, r *storage.ClassDeleteRequest) (*structs.Empty, error) {
			if r.Name == "fast" {
				return nil, structs.Preconditionf(
					`volume class "fast" cannot be deleted while volume default/data names it`)
			}
			_, err := find(r.Name)
			return &structs.Empty{}, err
		})
}

// spacesOf answers with the space of the class "slow" in two places.
func spacesOf(_ context.Context, r *storage.SpacesRequest) (*storage.SpacesResponse, error) {
	resp := &storage.SpacesResponse{}
	if r.Class == "slow" {
		resp.Places = []*storage.Exhaustion{
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
	v.Reclaim = storage.ReclaimDelete
	v.DeleteAt = nanosBefore(-storage.DefaultDeleteAfter)
	v.DeleteCause = storage.DeletedByOperator
	return v
}
