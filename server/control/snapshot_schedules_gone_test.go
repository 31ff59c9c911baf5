package control

import (
	"slices"
	"sync"
	"testing"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs/storage"
)

// duringFirstCut calls change once, while the plugin takes the first snapshot. The plugin answers this call
// after an hour, when the next time of the schedule has come.
func (w *testEnv) duringFirstCut(plugin *snapshotStore, change func()) {
	var once sync.Once
	plugin.before = func(c nodeCall) {
		if c.method != createSnapshot {
			return
		}
		once.Do(func() {
			change()
			after(time.Hour)
		})
	}
}

func (w *testEnv) deleteSchedule() {
	w.t.Helper()
	put(w, fsm.SnapshotScheduleDelete, &storage.ScheduleDeleteRequest{
		ScheduleName: "s", WriteOptions: now(),
	})
}

func TestSnapshotSchedule_KeepsTheSnapshotThatIsTakenDuringItsDeletion(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSchedule(func(s *storage.SnapshotSchedule) { s.Keep = 1 })
		w.duringFirstCut(plugin, w.deleteSchedule)
		defer w.runLoop("controllers")()
		defer w.runLoop("snapshot_schedules")()
		after(5*time.Hour + time.Minute)
		w.wantScheduled(1)
		row := csi.Snapshot(w.Store.Read(), "default", hourly(1)[0])
		if row == nil || row.State != storage.SnapshotReady || row.ExternalID != "snap-1" {
			t.Errorf("the row is %+v", row)
		}
		if ids := plugin.ids(); !slices.Equal(ids, []string{"snap-1"}) {
			t.Errorf("the plugin has %v", ids)
		}
		w.check()
	})
}

// The snapshot of the deleted schedule is none of the new one: it neither counts nor is it deleted.
func TestSnapshotSchedule_LeavesTheSnapshotThatIsTakenWhileItsNameChangesHands(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSchedule(func(s *storage.SnapshotSchedule) { s.Keep = 1 })
		w.duringFirstCut(plugin, func() {
			w.deleteSchedule()
			again := &storage.SnapshotSchedule{Name: "s", VolumeID: "v", Crons: []string{"@hourly"}, Keep: 1}
			put(w, fsm.SnapshotSchedulePut, &storage.SchedulePutEntry{Schedule: again, WriteOptions: now()})
		})
		defer w.runLoop("controllers")()
		defer w.runLoop("snapshot_schedules")()
		after(5*time.Hour + time.Minute)
		w.wantScheduled(1, 5)
		if ids := plugin.ids(); !slices.Equal(ids, []string{"snap-1", "snap-5"}) {
			t.Errorf("the plugin has %v", ids)
		}
		if s := w.scheduleRow(); s.LastSnapshot != hourly(5)[0] || s.LastError != "" {
			t.Errorf("the row is %+v", s)
		}
		w.check()
	})
}
