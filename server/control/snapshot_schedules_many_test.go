package control

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// TestSnapshotSchedules_OfManyVolumes runs hours of 1,000 schedules with a snapshot each hour, all of which
// keep one, in virtual time. The loop, the log and the rows use less than 1 % of a core: about a hundredth of
// that, so a busy machine and the race detector change nothing.
func TestSnapshotSchedules_OfManyVolumes(t *testing.T) {
	const schedules = 1000
	const span = 3 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		w.withSnapshots()
		for i := range schedules {
			v := aVolume(fmt.Sprint("v", i), structs.VolumeReady)
			w.addVolume(v)
			put(w, fsm.SnapshotSchedulePut, &storage.SchedulePutEntry{
				Schedule: &storage.SnapshotSchedule{
					Name:     fmt.Sprint("s", i),
					VolumeID: v.ID,
					Crons:    []string{fmt.Sprintf("%d * * * *", i%60)},
					Keep:     1,
				},
				WriteOptions: now(),
			})
		}
		defer w.runLoop("controllers")()
		defer w.runLoop("snapshot_schedules")()

		before := cpu(t)
		after(span)
		used := cpu(t) - before
		share := used.Seconds() / span.Seconds()
		t.Logf("%d schedules use %.4f %% of a core, with the calls of the plugins: %s", schedules, 100*share, used)

		if share > 0.01 {
			t.Error("this is more than 1 %")
		}

		taken := 0
		for i := range schedules {
			for range csi.SnapshotsOf(w.Store.Read(), "default", fmt.Sprint("v", i)) {
				taken++
			}
		}
		if taken != schedules {
			t.Errorf("%d snapshots are kept, want %d", taken, schedules)
		}
	})
}

// cpu returns the time that the process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
