package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/snapgroup"
	"berth/structs/snapschedule"
	"berth/structs/snapshot"
)

// answerSnapshots answers the requests about snapshots. There is one, and each that is taken.
func (w *Cluster) answerSnapshots() {
	w.answerSchedules()
	w.answerGroups()
	w.answerHostVolumes()
	w.answerEvents()
	all := []*snapshot.VolumeSnapshot{{
		Namespace: "default",
		Name:      "before-upgrade",
		VolumeID:  "data",
		PluginID:  "hostpath",
		Progress: snapshot.Progress{
			ExternalID:  "snap-7",
			State:       snapshot.Ready,
			RequestTime: nanosBefore(0),
			CutTime:     nanosBefore(0),
			ReadyTime:   nanosBefore(0),
		},
		SizeBytes: 1 << 30,
	}}
	apitest.On(w.Caller, snapshot.List,
		func(_ context.Context, r *snapshot.SnapshotListRequest) (*snapshot.SnapshotListResponse, error) {
			resp := &snapshot.SnapshotListResponse{Snapshots: []*snapshot.VolumeSnapshot{}}
			for _, s := range all {
				if r.VolumeID == "" || r.VolumeID == s.VolumeID {
					resp.Snapshots = append(resp.Snapshots, s)
				}
			}
			return resp, nil
		})
	apitest.On(w.Caller, snapshot.Get,
		func(_ context.Context, r *snapshot.SnapshotGetRequest) (*snapshot.SnapshotGetResponse, error) {
			if r.SnapshotName != "before-upgrade" {
				return nil, NotFound("snapshot", r.SnapshotName)
			}
			return &snapshot.SnapshotGetResponse{Snapshot: all[0]}, nil
		})
	apitest.On(w.Caller, snapshot.Create,
		func(_ context.Context, r *snapshot.SnapshotCreateRequest) (*snapshot.SnapshotCreateResponse, error) {
			ask := r.Snapshots[0]
			if ask.SourceVolumeID != "data" {
				return nil, NotFound("volume", ask.SourceVolumeID)
			}
			s := all[0].Copy()
			s.State = snapshot.Ready
			if ask.Name != "" {
				s.Name = ask.Name
			}
			if ask.Name == "slow" {
				s.State = snapshot.Pending
			}
			return &snapshot.SnapshotCreateResponse{Snapshots: []*snapshot.VolumeSnapshot{s}}, nil
		})
	apitest.On(w.Caller, snapshot.Delete,
		func(_ context.Context, r *snapshot.SnapshotDeleteRequest) (*structs.Empty, error) {
			if r.SnapshotName == "none" {
				return nil, NotFound("snapshot", r.SnapshotName)
			}
			return &structs.Empty{}, nil
		})
	apitest.Answer(w.Caller, snapshot.External, snapshot.SnapshotExternalResponse{
		Snapshots: []*snapshot.CSISnapshot{{
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
	group := &snapgroup.GroupSnapshot{
		Namespace: "default",
		Name:      "nightly",
		PluginID:  "hostpath",
		VolumeIDs: []string{"data", "log"},
		Progress: snapshot.Progress{
			ExternalID:  "group-1",
			State:       snapshot.Ready,
			RequestTime: nanosBefore(0),
			CutTime:     nanosBefore(0),
			ReadyTime:   nanosBefore(0),
		},
	}
	var members []*snapshot.VolumeSnapshot
	for _, id := range group.VolumeIDs {
		members = append(members, &snapshot.VolumeSnapshot{
			Namespace: "default",
			Name:      group.Member(id),
			VolumeID:  id,
			PluginID:  "hostpath",
			Group:     "nightly",
			Progress:  snapshot.Progress{State: snapshot.Ready},
		})
	}
	apitest.Answer(w.Caller, snapgroup.List, snapgroup.SnapshotGroupListResponse{
		Groups: []*snapgroup.GroupSnapshot{group},
	})
	apitest.On(w.Caller, snapgroup.Get, func(
		_ context.Context, r *snapgroup.SnapshotGroupGetRequest,
	) (*snapgroup.SnapshotGroupGetResponse, error) {
		if r.GroupName != group.Name {
			return nil, structs.NotFoundf("no group snapshot %q in namespace %q", r.GroupName, "default")
		}
		return &snapgroup.SnapshotGroupGetResponse{Group: group, Snapshots: members}, nil
	})
	apitest.On(w.Caller, snapgroup.Create, func(
		_ context.Context, r *snapgroup.SnapshotGroupCreateRequest,
	) (*snapgroup.SnapshotGroupCreateResponse, error) {
		g := group.Copy()
		g.Name = r.GroupName
		g.VolumeIDs = r.VolumeIDs
		if g.Name == "slow" {
			g.State = snapshot.Pending
		}
		return &snapgroup.SnapshotGroupCreateResponse{Group: g, Snapshots: members}, nil
	})
	apitest.On(w.Caller, snapgroup.Delete,
		func(_ context.Context, r *snapgroup.SnapshotGroupDeleteRequest) (*structs.Empty, error) {
			if r.GroupName != group.Name {
				return nil, structs.NotFoundf("no group snapshot %q in namespace %q", r.GroupName, "default")
			}
			return &structs.Empty{}, nil
		})
}

// answerSchedules answers the requests about schedules of snapshots. There is one, and each that is put.
func (w *Cluster) answerSchedules() {
	all := map[string]*snapschedule.SnapshotSchedule{"nightly": {
		Namespace:    "default",
		Name:         "nightly",
		VolumeID:     "data",
		Crons:        []string{"0 3 * * *"},
		TimeZone:     "Europe/Berlin",
		Keep:         7,
		Last:         nanosBefore(0),
		LastSnapshot: "nightly-20260102t020000z",
	}}
	find := func(name string) (*snapschedule.SnapshotSchedule, error) {
		if all[name] == nil {
			return nil, structs.NotFoundf("no schedule of snapshots %q in namespace %q", name, "default")
		}
		return all[name], nil
	}
	apitest.Answer(w.Caller, snapschedule.List, snapschedule.ScheduleListResponse{
		Schedules: []*snapschedule.SnapshotSchedule{all["nightly"]},
	})
	apitest.On(w.Caller, snapschedule.Get,
		func(_ context.Context, r *snapschedule.ScheduleGetRequest) (*snapschedule.ScheduleGetResponse, error) {
			row, err := find(r.ScheduleName)
			return &snapschedule.ScheduleGetResponse{Schedule: row, Next: nanosBefore(0)}, err
		})
	apitest.On(w.Caller, snapschedule.Put,
		func(_ context.Context, r *snapschedule.SchedulePutRequest) (*structs.Empty, error) {
			all[r.Schedule.Name] = r.Schedule
			return &structs.Empty{}, nil
		})
	apitest.On(w.Caller, snapschedule.Pause,
		func(_ context.Context, r *snapschedule.SchedulePauseRequest) (*structs.Empty, error) {
			_, err := find(r.ScheduleName)
			return &structs.Empty{}, err
		})
	apitest.On(w.Caller, snapschedule.Remove,
		func(_ context.Context, r *snapschedule.ScheduleDeleteRequest) (*structs.Empty, error) {
			_, err := find(r.ScheduleName)
			return &structs.Empty{}, err
		})
}
