package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/storage"
)

// answerSnapshots answers the requests about snapshots. There is one, and each that is taken.
func (w *Cluster) answerSnapshots() {
	w.answerSchedules()
	w.answerGroups()
	w.answerHostVolumes()
	w.answerEvents()
	all := []*storage.VolumeSnapshot{{
		Namespace: "default",
		Name:      "before-upgrade",
		VolumeID:  "data",
		PluginID:  "hostpath",
		Progress: storage.Progress{
			ExternalID:  "snap-7",
			State:       storage.SnapshotReady,
			RequestTime: nanosBefore(0),
			CutTime:     nanosBefore(0),
			ReadyTime:   nanosBefore(0),
		},
		SizeBytes: 1 << 30,
	}}
	apitest.On(w.Caller, storage.SnapshotList,
		func(_ context.Context, r *storage.SnapshotListRequest) (*storage.SnapshotListResponse, error) {
			resp := &storage.SnapshotListResponse{Snapshots: []*storage.VolumeSnapshot{}}
			for _, s := range all {
				if r.VolumeID == "" || r.VolumeID == s.VolumeID {
					resp.Snapshots = append(resp.Snapshots, s)
				}
			}
			return resp, nil
		})
	apitest.On(w.Caller, storage.SnapshotGet,
		func(_ context.Context, r *storage.SnapshotGetRequest) (*storage.SnapshotGetResponse, error) {
			if r.SnapshotName != "before-upgrade" {
				return nil, NotFound("snapshot", r.SnapshotName)
			}
			return &storage.SnapshotGetResponse{Snapshot: all[0]}, nil
		})
	apitest.On(w.Caller, storage.SnapshotCreate,
		func(_ context.Context, r *storage.SnapshotCreateRequest) (*storage.SnapshotCreateResponse, error) {
			ask := r.Snapshots[0]
			if ask.SourceVolumeID != "data" {
				return nil, NotFound("volume", ask.SourceVolumeID)
			}
			s := all[0].Copy()
			s.State = storage.SnapshotReady
			if ask.Name != "" {
				s.Name = ask.Name
			}
			if ask.Name == "slow" {
				s.State = storage.SnapshotPending
			}
			return &storage.SnapshotCreateResponse{Snapshots: []*storage.VolumeSnapshot{s}}, nil
		})
	apitest.On(w.Caller, storage.SnapshotDelete,
		func(_ context.Context, r *storage.SnapshotDeleteRequest) (*structs.Empty, error) {
			if r.SnapshotName == "none" {
				return nil, NotFound("snapshot", r.SnapshotName)
			}
			return &structs.Empty{}, nil
		})
	apitest.Answer(w.Caller, storage.SnapshotExternal, storage.SnapshotExternalResponse{
		Snapshots: []*storage.CSISnapshot{{
			ID:                     "snap-7",
			Name:                   "before-upgrade",
			SourceVolumeID:         "data",
			ExternalSourceVolumeID: "vol-1",
			PluginID:               "hostpath",
			SizeBytes:              1 << 30,
			IsReady:                true,
		}},
		NextToken: "more",
	})
}

// answerGroups answers the requests about group snapshots. There is one, and each that is taken.
func (w *Cluster) answerGroups() {
	group := &storage.GroupSnapshot{
		Namespace: "default",
		Name:      "nightly",
		PluginID:  "hostpath",
		VolumeIDs: []string{"data", "log"},
		Progress: storage.Progress{
			ExternalID:  "group-1",
			State:       storage.SnapshotReady,
			RequestTime: nanosBefore(0),
			CutTime:     nanosBefore(0),
			ReadyTime:   nanosBefore(0),
		},
	}
	var members []*storage.VolumeSnapshot
	for _, id := range group.VolumeIDs {
		members = append(members, &storage.VolumeSnapshot{
			Namespace: "default",
			Name:      group.Member(id),
			VolumeID:  id,
			PluginID:  "hostpath",
			Group:     "nightly",
			Progress:  storage.Progress{State: storage.SnapshotReady},
		})
	}
	apitest.Answer(w.Caller, storage.SnapshotGroupList, storage.SnapshotGroupListResponse{
		Groups: []*storage.GroupSnapshot{group},
	})
	apitest.On(w.Caller, storage.SnapshotGroupGet, func(
		_ context.Context, r *storage.SnapshotGroupGetRequest,
	) (*storage.SnapshotGroupGetResponse, error) {
		if r.GroupName != group.Name {
			return nil, structs.NotFoundf("no group snapshot %q in namespace %q", r.GroupName, "default")
		}
		return &storage.SnapshotGroupGetResponse{Group: group, Snapshots: members}, nil
	})
	apitest.On(w.Caller, storage.SnapshotGroupCreate, func(
		_ context.Context, r *storage.SnapshotGroupCreateRequest,
	) (*storage.SnapshotGroupCreateResponse, error) {
		g := group.Copy()
		g.Name = r.GroupName
		g.VolumeIDs = r.VolumeIDs
		if g.Name == "slow" {
			g.State = storage.SnapshotPending
		}
		return &storage.SnapshotGroupCreateResponse{Group: g, Snapshots: members}, nil
	})
	apitest.On(w.Caller, storage.SnapshotGroupDelete,
		func(_ context.Context, r *storage.SnapshotGroupDeleteRequest) (*structs.Empty, error) {
			if r.GroupName != group.Name {
				return nil, structs.NotFoundf("no group snapshot %q in namespace %q", r.GroupName, "default")
			}
			return &structs.Empty{}, nil
		})
}

// answerSchedules answers the requests about schedules of snapshots. There is one, and each that is put.
func (w *Cluster) answerSchedules() {
	all := map[string]*storage.SnapshotSchedule{"nightly": {
		Namespace:    "default",
		Name:         "nightly",
		VolumeID:     "data",
		Crons:        []string{"0 3 * * *"},
		TimeZone:     "Europe/Berlin",
		Keep:         7,
		Last:         nanosBefore(0),
		LastSnapshot: "nightly-20260102t020000z",
	}}
	find := func(name string) (*storage.SnapshotSchedule, error) {
		if all[name] == nil {
			return nil, structs.NotFoundf("no schedule of snapshots %q in namespace %q", name, "default")
		}
		return all[name], nil
	}
	apitest.Answer(w.Caller, storage.ScheduleList, storage.ScheduleListResponse{
		Schedules: []*storage.SnapshotSchedule{all["nightly"]},
	})
	apitest.On(w.Caller, storage.ScheduleGet,
		func(_ context.Context, r *storage.ScheduleGetRequest) (*storage.ScheduleGetResponse, error) {
			row, err := find(r.ScheduleName)
			return &storage.ScheduleGetResponse{Schedule: row, Next: nanosBefore(0)}, err
		})
	apitest.On(w.Caller, storage.SchedulePut,
		func(_ context.Context, r *storage.SchedulePutRequest) (*structs.Empty, error) {
			all[r.Schedule.Name] = r.Schedule
			return &structs.Empty{}, nil
		})
	apitest.On(w.Caller, storage.SchedulePause,
		func(_ context.Context, r *storage.SchedulePauseRequest) (*structs.Empty, error) {
			_, err := find(r.ScheduleName)
			return &structs.Empty{}, err
		})
	apitest.On(w.Caller, storage.ScheduleDelete,
		func(_ context.Context, r *storage.ScheduleDeleteRequest) (*structs.Empty, error) {
			_, err := find(r.ScheduleName)
			return &structs.Empty{}, err
		})
}
