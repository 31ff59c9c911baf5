package snapshot_test

import (
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/storage"
)

func TestPut_KeepsTheLastSnapshot(t *testing.T) {
	w := newScheduleWorld(t)
	w.run("", hour, "")
	last := w.row().LastSnapshot
	w.put("", w.wanted(), 2*hour)
	if got := w.row().LastSnapshot; got != last || last == "" {
		t.Errorf("after a change the last snapshot is %q, want %q", got, last)
	}
}

func TestPut_BeginsAnewInAnotherTimeZone(t *testing.T) {
	w := newScheduleWorld(t)
	w.run("", hour, "away")
	zoned := w.wanted()
	zoned.TimeZone = "Asia/Tokyo"
	w.put("", zoned, 3*hour)
	if s := w.row(); s.Last != 3*hour {
		t.Errorf("a schedule with the times of another zone begins at %d", s.Last)
	}
}

// TestPut_IsRejectedByTheLog: an entry is checked again when it is applied.
func TestPut_IsRejectedByTheLog(t *testing.T) {
	w := newScheduleWorld(t)
	wrong := w.wanted()
	wrong.Crons = []string{"at noon"}
	w.put("at noon", wrong, hour)
	w.write(`namespace "gone"`, func(tx *mvcc.WriteTx) error {
		p := &storage.SchedulePutEntry{Schedule: w.wanted()}
		p.Namespace = "gone"
		return snapshot.SchedulePut(tx, p)
	})
}

// TestRun_RejectsWhatIsNotItsOwn: a time without a result, and the snapshot of another schedule.
func TestRun_RejectsWhatIsNotItsOwn(t *testing.T) {
	w := newScheduleWorld(t)
	run := func(fault, schedule string) {
		t.Helper()
		p := &storage.ScheduleRunEntry{Name: "s", RowIndex: w.row().CreateIndex, At: hour}
		p.Now = hour
		if schedule != "" {
			v := csi.Volume(w.Read(), "default", "v")
			p.Snapshot = snapshot.Of(v, w.row().SnapshotAt(time.Unix(0, hour)), structs.NewID())
			p.Snapshot.Schedule = schedule
		}
		w.write(fault, func(tx *mvcc.WriteTx) error { return snapshot.ScheduleRun(tx, p) })
	}
	run("a time needs a snapshot, or a reason", "")
	run("is not one of its own", "other")
	if w.row().Last == hour || len(w.taken()) != 0 {
		t.Errorf("the row is %+v, and the snapshots are %v", w.row(), w.taken())
	}
}

func TestRun_WithASnapshotHasNoReason(t *testing.T) {
	w := newScheduleWorld(t)
	p := &storage.ScheduleRunEntry{Name: "s", RowIndex: w.row().CreateIndex, At: hour, LastError: "late"}
	p.Now = hour
	v := csi.Volume(w.Read(), "default", "v")
	p.Snapshot = snapshot.Of(v, w.row().SnapshotAt(time.Unix(0, hour)), structs.NewID())
	p.Snapshot.Schedule = "s"
	w.write("", func(tx *mvcc.WriteTx) error { return snapshot.ScheduleRun(tx, p) })
	if s := w.row(); s.LastError != "" || s.LastSnapshot == "" {
		t.Errorf("the row is %+v", s)
	}
}

// Snapshots that an earlier schedule of the name has not finished do not hold up this one, nor does the
// snapshot that is asked for again.
func TestCheckRun_CountsOnlyOtherSnapshotsOfTheSchedule(t *testing.T) {
	w := newScheduleWorld(t)
	for i := range storage.MaxScheduleUnfinished {
		w.run("", int64(i+1)*hour, "")
	}
	last := csi.Snapshot(w.Read(), "default", w.row().LastSnapshot)
	err := snapshot.CheckScheduleRun(w.Read(), w.row(), last)
	if err != nil {
		t.Errorf("a snapshot that is asked for again: %v", err)
	}

	w.write("", func(tx *mvcc.WriteTx) error {
		return snapshot.ScheduleDelete(tx, &storage.ScheduleDeleteRequest{ScheduleName: "s"})
	})
	w.put("", w.wanted(), 9*hour)
	w.run("", 10*hour, "")
}
