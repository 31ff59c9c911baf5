package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// scheduleWorld is a state with a ready volume, v, and the schedule s of its snapshots.
type scheduleWorld struct{ store }

func newScheduleWorld(t *testing.T) *scheduleWorld {
	t.Helper()
	w := &scheduleWorld{store{t, state.New()}}
	w.write("", func(tx *mvcc.WriteTx) error {
		return csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{
			testVolume("v", structs.VolumeReady),
		}})
	})
	w.put("", w.wanted(), 100)
	return w
}

func (w *scheduleWorld) wanted() *storage.SnapshotSchedule {
	return &storage.SnapshotSchedule{Name: "s", VolumeID: "v", Crons: []string{"@hourly"}, Keep: 2}
}

func (w *scheduleWorld) put(fault string, s *storage.SnapshotSchedule, now int64) {
	w.t.Helper()
	w.write(fault, func(tx *mvcc.WriteTx) error {
		p := &storage.SchedulePutEntry{Schedule: s}
		p.Now = now
		return snapshot.SchedulePut(tx, p)
	})
}

func (w *scheduleWorld) row() *storage.SnapshotSchedule {
	return snapshot.Schedule(w.Read(), "default", "s")
}

// run records the time at, with a snapshot unless there is a reason.
func (w *scheduleWorld) run(fault string, at int64, reason string) {
	w.t.Helper()
	p := &storage.ScheduleRunEntry{Name: "s", RowIndex: w.row().CreateIndex, At: at, LastError: reason}
	p.Now = max(at, w.row().Last)
	if reason == "" {
		v := csi.Volume(w.Read(), "default", "v")
		p.Snapshot = snapshot.Of(v, w.row().SnapshotAt(time.Unix(0, at)), structs.NewID())
		p.Snapshot.Schedule = "s"
	}
	w.write(fault, func(tx *mvcc.WriteTx) error { return snapshot.ScheduleRun(tx, p) })
}

func (w *scheduleWorld) taken() (names []string) {
	for s := range csi.SnapshotsOf(w.Read(), "default", "v") {
		names = append(names, s.Name)
	}
	return names
}

const hour = int64(time.Hour)

func TestRun_HasNoEffectAtATimeThatIsDone(t *testing.T) {
	w := newScheduleWorld(t)
	w.run("", hour, "")
	w.write("", func(tx *mvcc.WriteTx) error { // the snapshot is deleted; the time stays done
		p := &storage.SnapshotDeleteEntry{Name: w.row().LastSnapshot}
		return snapshot.Delete(tx, p)
	})
	before := *w.row()
	for _, at := range []int64{hour, hour - 1, 0} {
		w.run("", at, "")
		w.run("", at, "late")
	}
	if now := w.row(); now.ModifyIndex != before.ModifyIndex || len(w.taken()) != 0 {
		t.Errorf("the row is %+v, and the snapshots are %v", now, w.taken())
	}
}

// A clock that was ahead has recorded the last time. It counts until that is known, and not after it.
func TestRun_GoesOnAfterATimeInTheFuture(t *testing.T) {
	w := newScheduleWorld(t)
	clocks := func(ahead time.Duration) {
		w.write("", func(tx *mvcc.WriteTx) error {
			schema.ClusterTimes.Put(tx, &cluster.ClusterTime{Time: hour, Ahead: ahead})
			return nil
		})
	}
	from := func(fault string, at int64) {
		w.write(fault, func(tx *mvcc.WriteTx) error {
			p := &storage.ScheduleRunEntry{Name: "s", RowIndex: w.row().CreateIndex, At: at}
			p.Now = hour
			return snapshot.ScheduleRun(tx, p)
		})
	}
	clocks(30 * time.Hour)
	w.run("", 31*hour, "")
	from("", hour)
	if s := w.row(); s.Last != 31*hour {
		t.Errorf("by the clock that is ahead the last time is %d", s.Last)
	}
	clocks(-30 * time.Hour)
	from("", hour)
	if s := w.row(); s.Last != hour || len(w.taken()) != 1 {
		t.Errorf("the row is %+v, and the snapshots are %v", s, w.taken())
	}
	from("needs a snapshot", 2*hour)
	from("", hour-1)
	if s := w.row(); s.Last != hour {
		t.Errorf("later the last time is %d", s.Last)
	}
}

// A reason names the place and the remedy, so it is longer than a quotation. It has a bound all the same.
func TestRun_KeepsTheWholeReason(t *testing.T) {
	w := newScheduleWorld(t)
	reason := strings.Repeat("r", structs.MaxReason)
	w.run("", hour, reason)
	if got := w.row().LastError; got != reason {
		t.Errorf("a reason of %d bytes has %d", len(reason), len(got))
	}
	w.run("", 2*hour, reason+"r")
	if got := w.row().LastError; got != structs.Cut(reason+"r", structs.MaxReason) {
		t.Errorf("a longer reason has %d bytes", len(got))
	}
}

func TestRun_RecordsASnapshotWithItsTimeOrTheReason(t *testing.T) {
	w := newScheduleWorld(t)
	w.run("", hour, "the volume is away")
	if s := w.row(); s.Last != hour || s.LastError != "the volume is away" || s.LastSnapshot != "" {
		t.Errorf("after a time without a snapshot the row is %+v", s)
	}
	w.run("", 2*hour, "")
	const name = "s-19700101t020000z"
	if s := w.row(); s.Last != 2*hour || s.LastError != "" || s.LastSnapshot != name {
		t.Errorf("after a snapshot the row is %+v", s)
	}
	if !slices.Equal(w.taken(), []string{name}) {
		t.Errorf("the snapshots are %v", w.taken())
	}
}

func TestRun_IsRejectedWithoutAChange(t *testing.T) {
	w := newScheduleWorld(t)
	for i := range storage.MaxScheduleUnfinished {
		w.run("", int64(i+1)*hour, "")
	}
	w.run("4 earlier snapshots are not ready yet", 9*hour, "")

	w.pause(true)
	before := w.row().ModifyIndex
	w.run("is paused", 9*hour, "late")
	w.write("no schedule of snapshots", func(tx *mvcc.WriteTx) error { // of an earlier schedule of the name
		p := &storage.ScheduleRunEntry{Name: "s", RowIndex: 1, At: 9 * hour, LastError: "r"}
		return snapshot.ScheduleRun(tx, p)
	})
	if w.row().ModifyIndex != before {
		t.Errorf("the row is %+v", w.row())
	}
}

func (w *scheduleWorld) pause(paused bool) {
	w.t.Helper()
	w.write("", func(tx *mvcc.WriteTx) error {
		return snapshot.SchedulePause(tx, &storage.SchedulePauseRequest{ScheduleName: "s", Paused: paused})
	})
}

func TestPut_KeepsTheTimesOfTheSameSchedule(t *testing.T) {
	w := newScheduleWorld(t)
	w.run("", hour, "away")
	same := w.wanted()
	same.Keep = 5
	same.Last = 7
	same.LastError = "made up"
	w.put("", same, 2*hour)
	if s := w.row(); s.Last != hour || s.LastError != "away" || s.Keep != 5 {
		t.Errorf("after another keep the row is %+v", s)
	}

	w.put("", w.wanted(), hour/2)
	if s := w.row(); s.Last != hour/2 {
		t.Errorf("after a clock was set back the last time is %d", s.Last)
	}

	other := w.wanted()
	other.Crons = []string{"@daily"}
	w.put("", other, 3*hour)
	if s := w.row(); s.Last != 3*hour {
		t.Errorf("a schedule with other times begins at %d", s.Last)
	}

	moved := w.wanted()
	moved.VolumeID = "w"
	w.put(`is one of volume "v"`, moved, hour)
}

func TestPut_BoundsTheSchedulesOfANamespace(t *testing.T) {
	w := newScheduleWorld(t)
	w.write("", func(tx *mvcc.WriteTx) error {
		for i := range storage.MaxSchedules - 1 {
			s := w.wanted()
			s.Namespace = "default"
			s.Name = fmt.Sprint("n", i)
			schema.SnapshotSchedules.Put(tx, s)
		}
		return nil
	})
	w.put("", w.wanted(), 1)
	beyond := w.wanted()
	beyond.Name = "beyond"
	w.put("delete some of them first", beyond, 1)
}

// snapshotsOf stores snapshots of the schedule, the oldest first, each with its state and age in hours.
func (w *scheduleWorld) snapshotsOf(now time.Time, rows ...storage.VolumeSnapshot) {
	for i, s := range rows {
		s.Namespace = "default"
		s.Name = fmt.Sprint("t", i)
		s.VolumeID = "v"
		s.PluginID = "p"
		if s.Schedule == "" {
			s.Schedule = "s"
		}
		if s.State != storage.SnapshotFailed {
			s.ExternalID = "ext-" + s.Name
		}
		s.RequestTime = now.Add(-time.Duration(s.RequestTime) * time.Hour).UnixNano()
		w.write("", func(tx *mvcc.WriteTx) error {
			schema.Snapshots.Put(tx, &s)
			return nil
		})
	}
}

func TestExpired_KeepsTheNewestAndTheYoung(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ready := func(age int64) storage.VolumeSnapshot {
		return storage.VolumeSnapshot{Progress: storage.Progress{State: storage.SnapshotReady, RequestTime: age}}
	}
	in := func(state string) storage.VolumeSnapshot {
		return storage.VolumeSnapshot{Progress: storage.Progress{State: state}}
	}
	foreign := ready(99)
	foreign.Schedule = "other"
	remains := in(storage.SnapshotFailed) // the plugin deletes what it has cut
	remains.ExternalID = "ext-remains"
	former := ready(9)
	former.VolumeIndex = 1
	rejected := ready(9)
	rejected.LastError = &structs.OperationError{Time: now.UnixNano()}
	type list = []storage.VolumeSnapshot
	for name, c := range map[string]struct {
		keepFor time.Duration
		rows    list
		want    []string
		next    time.Duration
	}{
		"the newest by number":   {0, list{ready(4), ready(3), ready(2), ready(1)}, []string{"t1", "t0"}, 0},
		"the clock was set back": {0, list{ready(1), ready(2), ready(3)}, []string{"t0"}, 0},
		"also the young": {
			3 * time.Hour, list{ready(4), ready(2), ready(1), ready(0)}, []string{"t0"}, time.Hour},
		"others do not count":  {0, list{foreign, ready(2), in(storage.SnapshotPending), ready(1)}, nil, 0},
		"of an earlier volume": {0, list{former, former, ready(3), ready(2), ready(1)}, []string{"t2"}, 0},
		"unfinished ones stay": {
			0, list{in(storage.SnapshotPending), in(storage.SnapshotDeleting), ready(1), ready(0)}, nil, 0},
		"failed ones but the last": {
			0, list{in(storage.SnapshotFailed), in(storage.SnapshotFailed)}, []string{"t0"}, 0},
		"failed with remains":   {0, list{remains, ready(0)}, nil, 0},
		"failed before a ready": {0, list{in(storage.SnapshotFailed), ready(0)}, []string{"t0"}, 0},
		"deletion was rejected": {0, list{rejected, ready(1), ready(0)}, nil, 10 * time.Minute},
	} {
		w := newScheduleWorld(t)
		same := w.wanted()
		same.KeepFor = c.keepFor
		w.put("", same, 1)
		w.snapshotsOf(now, c.rows...)
		w.expired(name, now, c.want, c.next)
		w.pause(true)
		w.expired(name+", paused", now, nil, 0)
	}
}

// expired checks the snapshots to delete, and the time until there may be more, 0 for none.
func (w *scheduleWorld) expired(name string, now time.Time, want []string, next time.Duration) {
	w.t.Helper()
	rows, at := snapshot.Expired(w.Read(), w.row(), now)
	var got []string
	for _, r := range rows {
		got = append(got, r.Name)
	}
	if !slices.Equal(got, want) || (next == 0) != at.IsZero() || next != 0 && !at.Equal(now.Add(next)) {
		w.t.Errorf("%s: got %v and %s, want %v and %s", name, got, at, want, next)
	}
}

func TestExpired_LeavesTheSnapshotsOfAnEarlierSchedule(t *testing.T) {
	w := newScheduleWorld(t)
	now := time.Unix(1_000_000, 0)
	old := storage.VolumeSnapshot{Progress: storage.Progress{State: storage.SnapshotReady, RequestTime: 9}}
	w.snapshotsOf(now, old, old, old, old)
	w.write("", func(tx *mvcc.WriteTx) error {
		return snapshot.ScheduleDelete(tx, &storage.ScheduleDeleteRequest{ScheduleName: "s"})
	})
	w.put("", w.wanted(), 1)
	w.expired("of another schedule with the name", now, nil, 0)
}

func TestExpired_WaitsForARestore(t *testing.T) {
	w := newScheduleWorld(t)
	now := time.Unix(1_000_000, 0)
	ready := storage.VolumeSnapshot{Progress: storage.Progress{State: storage.SnapshotReady, RequestTime: 9}}
	w.snapshotsOf(now, ready, ready, ready)
	w.write("", func(tx *mvcc.WriteTx) error {
		schema.Volumes.Put(tx, &structs.CSIVolume{
			Namespace: "default", ID: "restored",
			CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", SnapshotID: "ext-t0"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeCreating},
		})
		return nil
	})
	w.expired("while a volume is made from it", now, nil, time.Minute)
}
