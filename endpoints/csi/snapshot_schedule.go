package csi

import (
	"context"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/storage"
)

// SnapshotSchedules serves the methods of schedules of snapshots. A loop of the leader follows the rows.
type SnapshotSchedules struct{ *core.Server }

// List lists the schedules of a namespace.
func (SnapshotSchedules) List(
	tx *state.ReadTx, req *storage.ScheduleListRequest, resp *storage.ScheduleListResponse,
) (err error) {
	l := query.List[storage.SnapshotSchedule, storage.SnapshotSchedule]{
		Key:  func(s *storage.SnapshotSchedule) []string { return []string{s.Namespace, s.Name} },
		Stub: func(s, stub *storage.SnapshotSchedule) { *stub = *s },
		Keep: func(s *storage.SnapshotSchedule) bool {
			return req.VolumeID == "" || s.VolumeID == req.VolumeID
		},
	}
	rows := snapshot.SchedulesFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Schedules, err = l.Page(rows, req, resp)
	return err
}

// Get reads a schedule, with its next time. The error is not-found.
func (SnapshotSchedules) Get(
	tx *state.ReadTx, req *storage.ScheduleGetRequest, resp *storage.ScheduleGetResponse,
) error {
	s := snapshot.Schedule(tx, req.RequestNamespace(), req.ScheduleName)
	if s == nil {
		return snapshot.ScheduleNotFound(req.RequestNamespace(), req.ScheduleName)
	}
	resp.Schedule = s
	next, err := s.Next(time.Unix(0, s.Last))
	if err == nil && !next.IsZero() && !s.Paused {
		resp.Next = next.UnixNano()
	}
	return nil
}

// Put creates or changes a schedule.
func (p SnapshotSchedules) Put(
	ctx context.Context, req *storage.SchedulePutRequest, _ *structs.Empty,
) (uint64, error) {
	return fsm.Propose(ctx, p.Raft, fsm.SnapshotSchedulePut, &storage.SchedulePutEntry{
		Schedule:     req.Schedule,
		WriteOptions: req.WriteOptions,
	})
}
