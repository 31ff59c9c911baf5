package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/boottime"
	"berth/server/clock"
	"berth/server/control/loop"
	"berth/server/control/volumes"
	"berth/server/control/workqueue"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// withSchedule gives the environment a schedule of hourly snapshots of the volume "v", at most two.
func (w *testEnv) withSchedule(change func(*storage.SnapshotSchedule)) *snapshotStore {
	w.t.Helper()
	store := w.withSnapshots()
	s := &storage.SnapshotSchedule{Name: "s", VolumeID: "v", Crons: []string{"@hourly"}, Keep: 2}
	if change != nil {
		change(s)
	}
	put(w, fsm.SnapshotSchedulePut, &storage.SchedulePutEntry{Schedule: s, WriteOptions: now()})
	return store
}

func (w *testEnv) scheduleRow() *storage.SnapshotSchedule {
	return snapshot.Schedule(w.Store.Read(), "default", "s")
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
		w.withSchedule(func(s *storage.SnapshotSchedule) { s.KeepFor = 48 * time.Hour })
		defer w.runLoop("snapshot_schedules")()
		after(time.Minute)
		before := w.log.Len()
		after(58 * time.Minute)
		if n := w.log.Len() - before; n != 0 {
			t.Errorf("%d entries before the first time", n)
		}
	})
}

func TestSnapshotSchedule_TakesTheLatestOfMissedTimesOnce(t *testing.T) {
	for name, miss := range map[string]func(w *testEnv){
		"no leader": func(w *testEnv) { after(5*time.Hour + time.Minute) },
		"paused": func(w *testEnv) {
			pause := func(paused bool) {
				put(w, fsm.SnapshotSchedulePause, &storage.SchedulePauseRequest{
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
				plugin := w.withSchedule(func(s *storage.SnapshotSchedule) { s.Keep = 9 })
				defer w.runLoop("controllers")()
				for range 3 {
					first := &dyingLeader{testEnv: w, before: killed.before, lost: killed.lost}
					first.ctx, first.die = context.WithCancel(t.Context())
					volumes.ScheduleLoop{
						Common: loop.Common{Store: w.Store, Proposer: first, Logger: w.Logger},
						Retry:  w.Config.Retry,
					}.Runner().Run(first.ctx)

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
		index, answer, err = l.log.Propose(ctx, entry)
	}
	if l.lost {
		return 0, nil, structs.Timeoutf("leadership lost")
	}
	return index, answer, err
}

// Two servers may act for a moment: the rows decide.
func TestSnapshotSchedule_TakesEachTimeOnceWithTwoLeaders(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSchedule(func(s *storage.SnapshotSchedule) { s.Keep = 9 })
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
		w.withSchedule(func(s *storage.SnapshotSchedule) { s.VolumeID = "later" })
		defer w.runLoop("snapshot_schedules")()
		before := w.log.Len()
		after(10*time.Hour + 30*time.Minute)
		if s := w.scheduleRow(); !strings.Contains(s.LastError, `no volume "later"`) {
			t.Errorf("the row is %+v", s)
		}
		if n := w.log.Len() - before; n != 1 {
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

// runAt records a time of the schedule that has no snapshot.
func (w *testEnv) runAt(at time.Time) {
	w.t.Helper()
	put(w, fsm.SnapshotScheduleRun, &storage.ScheduleRunEntry{
		Name: "s", RowIndex: w.scheduleRow().CreateIndex, LastError: "r",
		At: at.UnixNano(), WriteOptions: now(),
	})
}

// A leader whose clock was ahead has recorded the last time: the schedule goes on from now, and makes up for
// nothing.
func TestSnapshotSchedule_GoesOnAfterATimeInTheFuture(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *storage.SnapshotSchedule) { s.Keep = 9 })
		after(3*time.Hour + 30*time.Minute)
		w.runAt(time.Now().Add(300 * day))
		defer w.runLoop("snapshot_schedules")()
		before := w.log.Len()
		after(29 * time.Minute)
		w.wantScheduled()
		if n := w.log.Len() - before; n != 1 || w.scheduleRow().LastError != "r" {
			t.Errorf("%d entries, and the row is %+v", n, w.scheduleRow())
		}
		after(2 * time.Minute)
		w.wantScheduled(4)
		after(time.Hour)
		w.wantScheduled(4, 5)
	})
}

// A time that a clock within the tolerance has taken early is not taken again.
func TestSnapshotSchedule_TakesNothingTwiceForAClockThatIsALittleAhead(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(nil)
		after(time.Hour - clustertime.Tolerance)
		w.runAt(time.Now().Add(clustertime.Tolerance))
		defer w.runLoop("snapshot_schedules")()
		after(5 * time.Minute)
		w.wantScheduled()
		after(time.Hour)
		w.wantScheduled(2)
	})
}

// The clock of a leader was set right, and the state knows it later than the loop: the schedule goes on.
func TestSnapshotSchedule_GoesOnWhenTheStateKnowsThatTheClockIsRight(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		row := func() *cluster.ClusterTime { return clustertime.Of(w.Store.Read()) }
		w.Clock = clock.New(boottime.Monotonic(), row)
		ahead := func(d time.Duration) {
			p := &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: time.Now().UnixNano(), Ahead: d}}
			if old := row(); old != nil {
				p.RowIndex = old.ModifyIndex
			}
			put(w, fsm.ClusterTimeSet, p)
		}
		ahead(day)
		w.withSchedule(nil)
		w.runAt(time.Now().Add(5 * time.Hour))
		defer w.runLoop("snapshot_schedules")()
		after(10 * time.Minute)
		ahead(0)
		after(time.Hour)
		w.wantScheduled(1)
	})
}

// The clock of the leader is behind, so it goes on from the cluster time. If most servers have that clock,
// the cluster time is ahead: it goes on from the clock.
func TestSnapshotSchedule_GoesOnFromTheLaterClockThatIsRight(t *testing.T) {
	for _, most := range []bool{false, true} {
		virtual(t, func(t *testing.T, w *testEnv) {
			wall := time.Now()
			later := wall.Add(day)
			w.Clock = clock.Wall(func() time.Time { return later })
			row := cluster.ClusterTime{Time: later.UnixNano(), Ahead: -day}
			want := later
			if most {
				row.Agreed = row.Time
				want = wall
			}
			put(w, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{Clock: row})
			w.withSchedule(nil)
			w.runAt(later.Add(time.Hour))
			defer w.runLoop("snapshot_schedules")()
			after(time.Minute)
			if last := time.Unix(0, w.scheduleRow().Last); last.Sub(want).Abs() > time.Minute {
				t.Errorf("most servers have the clock of the leader %t: it goes on from %s, want %s", most, last, want)
			}
		})
	}
}

// A clock that is wrong may be set right at any time. Its timers would be for other times. The last time is
// of now by that clock: it is not in the future, although the state does not know the clock yet.
func TestSnapshotSchedule_LooksAgainSoonByAWrongClock(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(nil)
		now := time.Now()
		w.runAt(now)
		soon := now.Add(clustertime.Tolerance)
		for ahead, want := range map[time.Duration]time.Time{
			0: now.Truncate(time.Hour).Add(time.Hour), 30 * time.Hour: soon, -30 * time.Hour: soon,
		} {
			wrong := clock.Wall(func() time.Time { return now.Add(-ahead) })
			schedules := volumes.ScheduleLoop{Common: loop.Common{Store: w.Store, Clock: wrong}}.Runner()
			key := workqueue.Key{Topic: schema.SnapshotScheduleRows, Key: [3]string{"default", "s"}}
			step := schedules.Read(w.Store.Read(), key)
			if step.Op == "go on" || !step.Due.Equal(want) {
				t.Errorf("by a clock that is %s ahead the next step is %s at %s", ahead, step.Op, step.Due)
			}
		}
	})
}

func TestSnapshotSchedule_FollowsItsTimeZone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSchedule(func(s *storage.SnapshotSchedule) {
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
		w.withSchedule(func(s *storage.SnapshotSchedule) {
			s.Parameters = map[string]string{"a": "b"}
			s.SecretsFrom = "nomad/volumes/default/other"
		})
		defer w.runLoop("snapshot_schedules")()
		after(time.Hour + time.Minute)
		row := csi.Snapshot(w.Store.Read(), "default", hourly(1)[0])
		if row == nil || row.Parameters["a"] != "b" || row.SecretsFrom != "nomad/volumes/default/other" ||
			row.SealedSecrets != nil || row.State != storage.SnapshotCreating {
			t.Errorf("the row is %+v", row)
		}
	})
}
