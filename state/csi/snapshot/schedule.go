package snapshot

import (
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/clustertime"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// Schedule returns a schedule by its name, nil if there is none.
func Schedule(tx mvcc.Reader, ns, name string) *storage.SnapshotSchedule {
	return schema.SnapshotSchedules.Get(tx, ns, name)
}

// Schedules yields the schedules by namespace and name.
func Schedules(tx mvcc.Reader) iter.Seq[*storage.SnapshotSchedule] {
	return schema.SnapshotSchedules.Scan(tx)
}

// SchedulesFrom yields the schedules of a namespace whose name begins with prefix, from a namespace and name
// on.
func SchedulesFrom(tx *mvcc.ReadTx, ns, prefix string, at mvcc.Page) iter.Seq[*storage.SnapshotSchedule] {
	rows := schema.SnapshotSchedules.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(s *storage.SnapshotSchedule) bool {
		return strings.HasPrefix(s.Name, prefix)
	})
}

// ScheduleNotFound is the error for a schedule that does not exist.
func ScheduleNotFound(ns, name string) error {
	return structs.NotFoundf("no schedule of snapshots %q in namespace %q",
		structs.Cut(name, structs.MaxQuoted), ns)
}

// SchedulePut creates or changes a schedule. One with other times than before begins anew, and so does one
// whose last time is in the future, because a clock was set back: it would wait until then.
func SchedulePut(tx *mvcc.WriteTx, p *storage.SchedulePutEntry) error {
	if p.Schedule == nil {
		return structs.Invalidf("there is no schedule of snapshots")
	}
	s := p.Schedule.Copy()
	s.Namespace = p.RequestNamespace()
	s.Canonicalize()
	err := validate.SnapshotSchedule(s)
	if err != nil {
		return err
	}

	now := clustertime.Wall(tx, p.Now)
	old := Schedule(tx, s.Namespace, s.Name)
	if old == nil {
		old = &storage.SnapshotSchedule{Last: now}
		err = namespace.Check(tx, s.Namespace)
		if err == nil {
			err = checkScheduleCount(tx, s.Namespace)
		}
	} else if old.VolumeID != s.VolumeID {
		err = structs.Conflictf("schedule %q is one of volume %q; choose another name, or delete it: %s", s.Name,
			old.VolumeID, structs.CommandLine(s.Namespace, "volume snapshot schedule delete", s.Name))
	}
	if err != nil {
		return err
	}

	s.Last = min(old.Last, now)
	s.LastSnapshot = old.LastSnapshot
	s.LastError = old.LastError
	if !slices.Equal(s.Crons, old.Crons) || s.TimeZone != old.TimeZone {
		s.Last = now
	}
	schema.SnapshotSchedules.Put(tx, s)
	return nil
}

// checkScheduleCount bounds the rows of a namespace.
func checkScheduleCount(tx mvcc.Reader, ns string) error {
	count := 0
	for range schema.SnapshotSchedules.Scan(tx, ns) {
		count++
	}
	if count < storage.MaxSchedules {
		return nil
	}
	return structs.Preconditionf("namespace %q has %d schedules of snapshots, the most that the servers store; "+
		"delete some of them first", ns, count)
}

// SchedulePause pauses or resumes a schedule. The error is not-found.
func SchedulePause(tx *mvcc.WriteTx, p *storage.SchedulePauseRequest) error {
	s := Schedule(tx, p.RequestNamespace(), p.ScheduleName)
	if s == nil {
		return ScheduleNotFound(p.RequestNamespace(), p.ScheduleName)
	}
	if s.Paused == p.Paused {
		return nil
	}
	s = s.Copy()
	s.Paused = p.Paused
	schema.SnapshotSchedules.Put(tx, s)
	return nil
}

// ScheduleDelete deletes a schedule. Its snapshots stay. The error is not-found.
func ScheduleDelete(tx *mvcc.WriteTx, p *storage.ScheduleDeleteRequest) error {
	s := Schedule(tx, p.RequestNamespace(), p.ScheduleName)
	if s == nil {
		return ScheduleNotFound(p.RequestNamespace(), p.ScheduleName)
	}
	schema.SnapshotSchedules.Delete(tx, s)
	return nil
}

// CheckScheduleRun returns the reason why a schedule cannot take a snapshot now.
func CheckScheduleRun(tx mvcc.Reader, s *storage.SnapshotSchedule, row *storage.VolumeSnapshot) error {
	unfinished := 0
	for other := range schema.SnapshotsBySchedule.Scan(tx, s.Namespace, s.Name) {
		if s.Owns(other) && other.Next() == storage.OpSnapshotCreate && other.Name != row.Name {
			unfinished++
		}
	}
	if unfinished >= storage.MaxScheduleUnfinished {
		return structs.Preconditionf("schedule %q: %d earlier snapshots are not ready yet", s.Name, unfinished)
	}
	return CheckPut(tx, row)
}

// ScheduleRun records a time of a schedule, with the snapshot to take or with the reason why there is none. A
// time that is not after the last one has no effect: another leader has recorded it. If the last one is in
// the future (clustertime.Future), a time without both is that from which the schedule goes on.
func ScheduleRun(tx *mvcc.WriteTx, p *storage.ScheduleRunEntry) error {
	s := Schedule(tx, p.RequestNamespace(), p.Name)
	if s == nil || s.CreateIndex != p.RowIndex {
		return ScheduleNotFound(p.RequestNamespace(), p.Name)
	}
	goesOn := clustertime.Future(tx, s.Last, p.Now)
	switch {
	case s.Paused:
		return structs.Conflictf("schedule %q is paused", s.Name)
	case p.At <= s.Last && !goesOn:
		return nil
	case p.Snapshot == nil && p.LastError == "" && !goesOn:
		return structs.Invalidf("schedule %q: a time needs a snapshot, or a reason why there is none", s.Name)
	}

	row := p.Snapshot
	s = s.Copy()
	s.Last = p.At
	s.LastError = structs.Cut(p.LastError, structs.MaxReason)
	if row != nil {
		if row.Namespace != s.Namespace || row.VolumeID != s.VolumeID || row.Schedule != s.Name {
			return structs.Invalidf("schedule %q: the snapshot is not one of its own", s.Name)
		}
		err := CheckScheduleRun(tx, s, row)
		if err == nil {
			err = Put(tx, &storage.SnapshotPutEntry{
				Snapshots:    []*storage.VolumeSnapshot{row},
				WriteOptions: p.WriteOptions,
			})
		}
		if err != nil {
			return err
		}
		s.LastSnapshot = row.Name
		s.LastError = ""
	}
	schema.SnapshotSchedules.Put(tx, s)
	return nil
}

// CheckSchedules checks the invariants of the rows.
func CheckSchedules(c *schema.Report) {
	schema.CheckIndexes(c, schema.SnapshotSchedules)
	for s := range Schedules(c) {
		c.Want(s.VolumeID != "" && len(s.Crons) > 0 && s.Keep > 0, "schedule of snapshots %s/%s: a part is missing",
			s.Namespace, s.Name)
	}
}
