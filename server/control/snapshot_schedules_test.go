package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fsm"
	"berth/server/control/snaptimes"
	"berth/state/csi"
	"berth/state/csi/snapschedules"
	"berth/structs"
	"berth/structs/snapschedule"
	"berth/structs/snapshot"
)

// withSchedule gives the environment a schedule of hourly snapshots of the volume "v", at most two.
func (w *testEnv) withSchedule(change func(*snapschedule.SnapshotSchedule)) *snapshotStore {
	w.t.Helper()
	store := w.withSnapshots()
	s := &snapschedule.SnapshotSchedule{Name: "s", VolumeID: "v", Crons: []string{"@hourly"}, Keep: 2}
	if change != nil {
		change(s)
	}
	put(w, fsm.SnapshotSchedulePut, &snapschedule.SchedulePutEntry{Schedule: s, WriteOptions: now()})
	return store
}

func (w *testEnv) scheduleRow() *snapschedule.SnapshotSchedule {
	return snapschedules.Schedule(w.Store.Read(), "default", "s")
}

// scheduled returns the names of the snapshots that the schedule has taken.
func (w *testEnv) scheduled() (names []string) {
	for s := range csi.SnapshotsOf(w.Store.Read(), "default", "v") {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// The virtual clock begins at midnight of 2000-01-01.
func hourly(hours ...int) (names []string) {
	for _, h := range hours {
		names = append(names, fmt.Sprintf("s-20000101t%02d0000z", h))
	}
	return names
}

func (w *testEnv) wantScheduled(hours ...int) {
	w.t.Helper()
	if got := w.scheduled(); !slices.Equal(got, hourly(hours...)) {
		w.t.Errorf("the snapshots are %v, want %v", got, hourly(hours...))
	}
}

func TestSnapshotSchedule_TakesSnapshotsAndKeepsTheNewest(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSchedule(nil)
		defer w.runLoop("controllers")()
		defer w.runLoop("snapshot_schedules")()
		after(59 * time.Minute)
		w.wantScheduled()
		after(2 * time.Minute)
		w.wantScheduled(1)
		after(4 * time.Hour)
		w.wantScheduled(4, 5)
		if ids := plugin.ids(); !slices.Equal(ids, []string{"snap-4", "snap-5"}) {
			t.Errorf("the plugin has %v", ids)
		}
		if s := w.scheduleRow(); s.LastSnapshot != "s-20000101t050000z" || s.LastError != "" {
			t.Errorf("the row is %+v", s)
		}
		w.check()
	})
}

// Nothing is read or written between two times.
func TestSnapshotSchedule_SleepsUntilTheNextTime(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *snapschedule.SnapshotSchedule) { s.KeepFor = 48 * time.Hour })
		defer w.runLoop("snapshot_schedules")()
		after(time.Minute)
		before := w.entryCount()
		after(58 * time.Minute)
		if n := w.entryCount() - before; n != 0 {
			t.Errorf("%d entries before the first time", n)
		}
	})
}

func TestSnapshotSchedule_TakesTheLatestOfMissedTimesOnce(t *testing.T) {
	for name, miss := range map[string]func(w *testEnv){
		"no leader": func(w *testEnv) { after(5*time.Hour + time.Minute) },
		"paused": func(w *testEnv) {
			pause := func(paused bool) {
				put(w, fsm.SnapshotSchedulePause, &snapschedule.SchedulePauseRequest{
					ScheduleName: "s", Paused: paused, WriteOptions: now(),
				})
			}
			pause(true)
			stop := w.runLoop("snapshot_schedules")
			after(5*time.Hour + time.Minute)
			stop()
			w.wantScheduled()
			pause(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.withSchedule(nil)
				miss(w)
				defer w.runLoop("snapshot_schedules")()
				after(time.Minute)
				w.wantScheduled(5)
			})
		})
	}
}

// A leader is lost before its entry, after it without the answer, or at once after it.
func TestSnapshotSchedule_TakesEachTimeOnceOverChangesOfTheLeader(t *testing.T) {
	for name, killed := range map[string]struct{ before, lost bool }{
		"before the entry":           {true, true},
		"without the answer":         {false, true},
		"the answer is the last act": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withSchedule(func(s *snapschedule.SnapshotSchedule) { s.Keep = 9 })
				defer w.runLoop("controllers")()
				for range 3 {
					first := &dyingLeader{testEnv: w, before: killed.before, lost: killed.lost}
					first.ctx, first.die = context.WithCancel(t.Context())
					snaptimes.New(snaptimes.Deps{
						Store: w.Store, Proposer: first, Logger: w.Logger, Retry: w.Config.Retry,
					}).Run(first.ctx)

					stop := w.runLoop("snapshot_schedules")
					after(30 * time.Minute)
					stop()
				}
				w.wantScheduled(1, 2, 3)
				if n := len(plugin.ids()); n != 3 {
					t.Errorf("the plugin has %d snapshots", n)
				}
			})
		})
	}
}

// dyingLeader loses its leadership with its first entry.
type dyingLeader struct {
	*testEnv
	ctx          context.Context
	die          func()
	before, lost bool
}

func (l *dyingLeader) Propose(ctx context.Context, entry []byte) (index uint64, answer any, err error) {
	defer l.die()
	if !l.before {
		index, answer, err = l.testEnv.Propose(ctx, entry)
	}
	if l.lost {
		return 0, nil, structs.Timeoutf("leadership lost")
	}
	return index, answer, err
}

// Two servers may act for a moment: the rows decide.
func TestSnapshotSchedule_TakesEachTimeOnceWithTwoLeaders(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSchedule(func(s *snapschedule.SnapshotSchedule) { s.Keep = 9 })
		defer w.runLoop("controllers")()
		defer w.runLoop("snapshot_schedules")()
		defer w.runLoop("snapshot_schedules")()
		after(3*time.Hour + time.Minute)
		w.wantScheduled(1, 2, 3)
		if n := len(plugin.ids()); n != 3 {
			t.Errorf("the plugin has %d snapshots", n)
		}
	})
}

func TestSnapshotSchedule_SkipsAVolumeThatIsAwayWithOneEntry(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *snapschedule.SnapshotSchedule) { s.VolumeID = "later" })
		defer w.runLoop("snapshot_schedules")()
		before := w.entryCount()
		after(10*time.Hour + 30*time.Minute)
		if s := w.scheduleRow(); !strings.Contains(s.LastError, `no volume "later"`) {
			t.Errorf("the row is %+v", s)
		}
		if n := w.entryCount() - before; n != 1 {
			t.Errorf("%d entries for the same reason", n)
		}

		// A time that was skipped is over: the next one is taken.
		w.addVolume(aVolume("later", structs.VolumeReady))
		after(29 * time.Minute)
		if s := w.scheduleRow(); s.LastSnapshot != "" {
			t.Errorf("before the next time the row is %+v", s)
		}
		after(2 * time.Minute)
		if s := w.scheduleRow(); s.LastError != "" || s.LastSnapshot != "s-20000101t110000z" {
			t.Errorf("after the volume has come the row is %+v", s)
		}
	})
}

// The last time is later than the clock: nothing is taken again, and the schedule goes on after it.
func TestSnapshotSchedule_WaitsAfterAClockWasSetBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(nil)
		row := w.scheduleRow()
		put(w, fsm.SnapshotScheduleRun, &snapschedule.ScheduleRunEntry{
			Name: "s", RowIndex: row.CreateIndex, LastError: "r",
			At: time.Now().Add(3 * time.Hour).UnixNano(), WriteOptions: now(),
		})
		defer w.runLoop("snapshot_schedules")()
		after(3*time.Hour + time.Minute)
		w.wantScheduled()
		after(time.Hour)
		w.wantScheduled(4)
	})
}

func TestSnapshotSchedule_FollowsItsTimeZone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *snapschedule.SnapshotSchedule) {
			s.Crons = []string{"0 3 * * *"}
			s.TimeZone = "Europe/Berlin"
		})
		defer w.runLoop("snapshot_schedules")()
		after(24 * time.Hour)
		w.wantScheduled(2)
	})
}

func TestSnapshotSchedule_CarriesItsParametersAndSecrets(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *snapschedule.SnapshotSchedule) {
			s.Parameters = map[string]string{"a": "b"}
			s.SecretsFrom = "nomad/volumes/default/other"
		})
		defer w.runLoop("snapshot_schedules")()
		after(time.Hour + time.Minute)
		row := csi.Snapshot(w.Store.Read(), "default", hourly(1)[0])
		if row == nil || row.Parameters["a"] != "b" || row.SecretsFrom != "nomad/volumes/default/other" ||
			row.SealedSecrets != nil || row.State != snapshot.Creating {
			t.Errorf("the row is %+v", row)
		}
	})
}
