package volumes

import (
	"context"
	"iter"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// schedulesAtOnce bounds the schedules that are in work at the same time.
	schedulesAtOnce = 8
	// skipped is the time for which a schedule that skips its times tries each of them.
	skipped = time.Minute
)

// ScheduleLoop follows the schedules while this server leads.
//
// It takes the snapshots of schedules at their times, and deletes snapshots that are no longer to be kept. It
// only changes rows: the controllers call the plugins, as for each snapshot. Schedules follow the wall clock,
// and the ages of snapshots count by Clock.
//
// The row of a schedule is the only memory. The log entry of a time moves the row and records the snapshot,
// so each time has at most one, whoever leads. Of the times that pass without a leader the latest is taken.
type ScheduleLoop struct {
	loop.Common
	Retry backoff.Backoff // after steps that failed
}

// Runner returns the loop, to be run.
func (l ScheduleLoop) Runner() workqueue.Runner {
	return workqueue.Runner{
		Name:     "snapshot_schedules",
		Logger:   l.Logger,
		Store:    l.Store,
		Retry:    l.Retry,
		Parallel: workqueue.Always(schedulesAtOnce),
		Topics:   []state.Topic{schema.SnapshotScheduleRows, schema.SnapshotRows},
		All:      allKeys,
		Read:     l.read,
		Keys:     changedKeys,
	}
}

func scheduleKey(ns, name string) workqueue.Key {
	k := workqueue.Key{Topic: schema.SnapshotScheduleRows}
	k.Key[0] = ns
	k.Key[1] = name
	return k
}

func allKeys(tx *state.ReadTx) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		for s := range snapshot.Schedules(tx) {
			if !yield(scheduleKey(s.Namespace, s.Name)) {
				return
			}
		}
	}
}

// changedKeys yields the changed schedule, or the one that has taken the changed snapshot.
func changedKeys(tx *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
	if c.Topic == schema.SnapshotScheduleRows {
		return slices.Values([]workqueue.Key{c})
	}
	row := csi.Snapshot(tx, c.Key[0], c.Key[1])
	if row == nil || row.Schedule == "" {
		return slices.Values([]workqueue.Key(nil))
	}
	return slices.Values([]workqueue.Key{scheduleKey(row.Namespace, row.Schedule)})
}

// read returns the next step of a schedule: a snapshot at a time, or the deletion of one.
func (l ScheduleLoop) read(tx *state.ReadTx, k workqueue.Key) workqueue.Step {
	s := snapshot.Schedule(tx, k.Key[0], k.Key[1])
	if s == nil || s.Paused {
		return workqueue.Step{}
	}

	taking := l.next(tx, s, time.Now())
	keeping := l.keeping(tx, s)
	if keeping.Act == nil || taking.Act != nil && !keeping.Due.Before(taking.Due) {
		return taking
	}
	return keeping
}

// next returns the step that takes the next snapshot, or lets the schedule go on from now. While a clock is
// wrong, or was, it looks again soon: the clock may be set right at any time, and the state knows that later
// than this server.
func (l ScheduleLoop) next(tx *state.ReadTx, s *storage.SnapshotSchedule, now time.Time) workqueue.Step {
	cluster := l.Clock.Now()
	ahead := time.Unix(0, s.Last).Sub(now) > clustertime.Tolerance
	if ahead && clustertime.Future(tx, s.Last, cluster.UnixNano()) {
		return l.goingOn(s)
	}

	step := l.taking(s, now)
	look := now.Add(clustertime.Tolerance)
	if (ahead || clustertime.Far(now.Sub(cluster))) && step.Due.After(look) {
		step.Due = look // the row is read again then, and nothing is taken before its time
	}
	return step
}

// taking returns the step of the next time, the zero value if there is none.
func (l ScheduleLoop) taking(s *storage.SnapshotSchedule, now time.Time) workqueue.Step {
	next, err := s.Next(after(s, now))
	if err != nil || next.IsZero() {
		return workqueue.Step{}
	}
	return workqueue.Step{
		Op:      "take " + next.String(),
		Version: s.ModifyIndex,
		Serial:  s.Namespace + "/" + s.Name,
		Due:     next,
		Act:     func(ctx context.Context) error { return l.take(ctx, s, next) },
	}
}

// goingOn returns the step for a schedule whose last time is in the future: it goes on from now.
func (l ScheduleLoop) goingOn(s *storage.SnapshotSchedule) workqueue.Step {
	return workqueue.Step{
		Op:      "go on",
		Version: s.ModifyIndex,
		Serial:  s.Namespace + "/" + s.Name,
		Act: func(ctx context.Context) error {
			l.Logger.Info("the last time of a schedule of snapshots is in the future: it goes on from now",
				"namespace", s.Namespace, "schedule", s.Name, "last", time.Unix(0, s.Last))
			// It may be the clock of this server that is wrong.
			from := clustertime.GoesOn(l.Store.Read(), time.Now().UnixNano())
			entry := l.entryAt(s, time.Unix(0, from))
			entry.LastError = s.LastError
			_, err := fsm.Propose(ctx, l.Proposer, fsm.SnapshotScheduleRun, entry)
			return err
		},
	}
}

// entryAt returns the entry of a time of a schedule.
func (l ScheduleLoop) entryAt(s *storage.SnapshotSchedule, at time.Time) *storage.ScheduleRunEntry {
	entry := &storage.ScheduleRunEntry{
		Name:     s.Name,
		RowIndex: s.CreateIndex,
		At:       at.UnixNano(),
	}
	entry.Namespace = s.Namespace
	entry.Now = l.Clock.Now().UnixNano()
	return entry
}

// after returns the time that the next one follows. The row of a schedule that skips its times does not move:
// a time that was skipped for a minute is over.
func after(s *storage.SnapshotSchedule, now time.Time) time.Time {
	last := time.Unix(0, s.Last)
	if s.LastError == "" {
		return last
	}
	over := now.Add(-skipped)
	if over.After(last) {
		return over
	}
	return last
}

// take records the snapshot of a time, or the reason why there is none. The same reason is not recorded
// again.
func (l ScheduleLoop) take(ctx context.Context, s *storage.SnapshotSchedule, next time.Time) error {
	now := time.Now()
	at, err := s.Latest(next, now)
	if err != nil {
		return err
	}
	entry := l.entryAt(s, at)
	entry.Snapshot, err = snapshotOf(l.Store.Read(), s, at)
	if err != nil {
		entry.LastError = structs.Cut(err.Error(), structs.MaxReason)
		if entry.LastError == s.LastError {
			return nil
		}
		l.Logger.Warn("scheduled snapshot is skipped", "namespace", s.Namespace, "schedule", s.Name, "error", err)
	}
	_, err = fsm.Propose(ctx, l.Proposer, fsm.SnapshotScheduleRun, entry)
	return err
}

// snapshotOf returns the row of the snapshot of a time. The error is the reason why there can be none.
func snapshotOf(
	tx *state.ReadTx, s *storage.SnapshotSchedule, at time.Time,
) (*storage.VolumeSnapshot, error) {
	v := csi.Volume(tx, s.Namespace, s.VolumeID)
	if v == nil {
		return nil, structs.NotFoundf("no volume %q in namespace %q", s.VolumeID, s.Namespace)
	}

	row := snapshot.Of(v, s.SnapshotAt(at), structs.NewID())
	row.Schedule = s.Name
	row.Parameters = s.Parameters
	if s.SecretsFrom != "" {
		row.SecretsFrom = s.SecretsFrom
		row.SealedSecrets = nil
	}
	err := snapshot.CheckAble(tx, v)
	if err == nil {
		err = snapshot.CheckScheduleRun(tx, s, row)
	}
	if err != nil {
		return nil, err
	}
	return row, nil
}

// keeping returns the step that deletes snapshots, the zero value if none is to be deleted by time.
func (l ScheduleLoop) keeping(tx *state.ReadTx, s *storage.SnapshotSchedule) workqueue.Step {
	expired, next := snapshot.Expired(tx, s, l.Clock.Now())
	if len(expired) > 0 {
		next = time.Time{}
	} else if next.IsZero() {
		return workqueue.Step{}
	} else {
		next = l.Clock.Timer(next)
	}

	step := workqueue.Step{
		Op:      "keep",
		Version: s.ModifyIndex,
		Serial:  s.Namespace + "/" + s.Name,
		Due:     next,
		Act:     func(ctx context.Context) error { return l.remove(ctx, s) },
	}
	if len(expired) > 0 {
		step.Op = "delete " + expired[0].Name
		step.Version = expired[0].ModifyIndex
	}
	return step
}

// remove begins the deletion of the snapshots that are no longer to be kept. One that another request changes
// meanwhile is decided on again.
func (l ScheduleLoop) remove(ctx context.Context, s *storage.SnapshotSchedule) error {
	expired, _ := snapshot.Expired(l.Store.Read(), s, l.Clock.Now())
	for _, row := range expired {
		entry := &storage.SnapshotDeleteEntry{Name: row.Name, RowIndex: row.CreateIndex}
		entry.Namespace = row.Namespace
		entry.Now = l.Clock.Now().UnixNano()
		_, err := fsm.Propose(ctx, l.Proposer, fsm.SnapshotDelete, entry)
		if err != nil && !structs.IsKind(err, structs.KindNotFound) {
			return err
		}
	}
	return nil
}
