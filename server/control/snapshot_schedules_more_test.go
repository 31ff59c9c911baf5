package control

import (
	"strings"
	"testing"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// A snapshot that is kept by its age for days does not hold up the next ones.
func TestSnapshotSchedule_TakesSnapshotsWhileOldOnesWaitForTheirAge(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *storage.SnapshotSchedule) {
			s.Keep = 1
			s.KeepFor = 48 * time.Hour
		})
		defer w.runLoop("controllers")()
		defer w.runLoop("snapshot_schedules")()
		after(5*time.Hour + time.Minute)
		w.wantScheduled(1, 2, 3, 4, 5)
	})
}

func TestSnapshotSchedule_WritesNothingWhileItIsPaused(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(nil)
		put(w, fsm.SnapshotSchedulePause, &storage.SchedulePauseRequest{
			ScheduleName: "s", Paused: true, WriteOptions: now(),
		})
		defer w.runLoop("snapshot_schedules")()
		before := w.log.Len()
		after(10 * time.Hour)
		if n := w.log.Len() - before; n != 0 {
			t.Errorf("%d entries, also rejected ones, of a paused schedule", n)
		}
	})
}

// A reason that lasts is recorded once, and no time is tried again and again.
func TestSnapshotSchedule_SkipsTimesForAReasonThatLasts(t *testing.T) {
	for name, c := range map[string]struct {
		unable  bool // the plugin takes no snapshots
		reason  string
		taken   []int
		entries int
	}{
		"unfinished": {false, "4 earlier snapshots are not ready yet", []int{1, 2, 3, 4}, 5},
		"unable":     {true, `CSI plugin "pl" takes no snapshots`, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.withSchedule(nil)
				if c.unable {
					w.takesNoSnapshots("n1")
				}
				before := w.log.Len()
				defer w.runLoop("snapshot_schedules")()
				after(10*time.Hour + time.Minute)
				w.wantScheduled(c.taken...)
				if s := w.scheduleRow(); !strings.Contains(s.LastError, c.reason) {
					t.Errorf("the row is %+v", s)
				}
				if n := w.log.Len() - before; n != c.entries {
					t.Errorf("%d entries, want %d", n, c.entries)
				}
			})
		})
	}
}

// takesNoSnapshots makes the controller of a node report that it takes no snapshots.
func (w *testEnv) takesNoSnapshots(node string) {
	w.t.Helper()
	tx := w.Store.Read()
	controller := *csi.Instance(tx, "pl", structs.CSIKindController, node)
	info := *controller.ControllerInfo
	info.SupportsCreateDeleteSnapshot = false
	controller.ControllerInfo = &info
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: state.Node(tx, node),
		CSI:  []*structs.CSIPluginInstance{&controller, csi.Instance(tx, "pl", structs.CSIKindNode, node)},
	})
}
