package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/defaults"
)

// lead runs the loop of periodic jobs for a while, as one leader does.
func (w *testEnv) lead(d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { periodicLoop{w.Deps}.run(ctx) })
	wg.Wait()
}

func (w *testEnv) addPeriodic(id, cron string, edit func(*structs.PeriodicConfig)) {
	w.t.Helper()
	job := &structs.Job{
		ID:       id,
		Type:     structs.JobBatch,
		Periodic: &structs.PeriodicConfig{Enabled: true, Spec: cron},
		TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Count: 1,
			Tasks: []*structs.Task{{Name: "t", Driver: "exec"}},
		}},
	}
	edit(job.Periodic)
	defaults.Canonicalize(job)
	err := propose(w.t.Context(), w.Deps, fsm.JobRegister, &structs.JobRegisterRequest{
		Job:          job,
		WriteOptions: w.stamp("default"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// launches returns the times of the children of a job in seconds after begin.
func (w *testEnv) launches(id string, begin time.Time) (seconds []int64) {
	for child := range state.ChildJobs(w.Store.Read(), "default", id) {
		var at int64
		_, err := fmt.Sscanf(child.ID, id+"/periodic-%d", &at)
		if err != nil {
			w.t.Error(err)
		}
		seconds = append(seconds, at-begin.Unix())
	}
	slices.Sort(seconds)
	return seconds
}

func (w *testEnv) checkLaunches(id string, begin time.Time, want ...int64) {
	w.t.Helper()
	got := w.launches(id, begin)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s was launched at %v, want %v", id, got, want)
	}
}

func anySchedule(*structs.PeriodicConfig) {}

// Each time has one child, although the leader changes in the middle of the launches, and with a pause.
func TestPeriodicLoop_LaunchesEachTimeOnceOverLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		begin := time.Now()
		w.addPeriodic("p", "* * * * * * *", anySchedule)
		w.lead(3*time.Second + 500*time.Millisecond)
		w.lead(time.Second)
		time.Sleep(4 * time.Second) // nobody leads
		w.lead(2 * time.Second)
		w.checkLaunches("p", begin, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	})
}

// A day whose midnight the time zone skips has its launch, and the evening before has none.
func TestPeriodicLoop_LaunchesOnceAroundASkippedMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		time.Sleep(time.Until(time.Date(2000, 3, 25, 20, 59, 0, 0, time.UTC)))
		begin := time.Now()
		w.addPeriodic("p", "0 23 26 * *", func(p *structs.PeriodicConfig) { p.TimeZone = "Asia/Beirut" })
		w.lead(24 * time.Hour)
		w.checkLaunches("p", begin, int64((23*time.Hour + time.Minute).Seconds()))
	})
}

// Of launches that were missed for long, one makes up for all.
func TestPeriodicLoop_MakesUpOnceForMissedLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		begin := time.Now()
		w.addPeriodic("p", "* * * * *", anySchedule)
		w.addPeriodic("off", "* * * * *", func(p *structs.PeriodicConfig) { p.Enabled = false })
		w.lead(61 * time.Second)
		time.Sleep(9 * time.Minute) // until 601 s
		w.lead(time.Minute)
		w.checkLaunches("p", begin, 60, 601, 660)
		w.checkLaunches("off", begin)
	})
}

// launchAt records a launch of a job, without a child.
func (w *testEnv) launchAt(id string, at time.Time) {
	w.t.Helper()
	put(w, fsm.PeriodicLaunch, &structs.PeriodicLaunchRequest{
		ParentID:       id,
		JobModifyIndex: state.Job(w.Store.Read(), "default", id).JobModifyIndex,
		Launch:         at.UnixNano(),
		WriteOptions:   w.stamp("default"),
	})
}

// A leader whose clock was ahead has launched the job: its schedule goes on from now, and makes up for
// nothing.
func TestPeriodicLoop_GoesOnAfterALaunchInTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		begin := time.Now()
		w.addPeriodic("p", "* * * * *", anySchedule)
		time.Sleep(330 * time.Second)
		w.launchAt("p", time.Now().Add(30*time.Hour))
		before := w.log.Len()
		w.lead(20 * time.Second)
		if n := w.log.Len() - before; n != 1 {
			t.Errorf("the schedule goes on with %d entries", n)
		}
		w.lead(time.Minute)
		w.checkLaunches("p", begin, 360)
		w.launchAt("p", begin.Add(420*time.Second)) // by a clock that is a little ahead: it is not launched again
		w.lead(2 * time.Minute)
		w.checkLaunches("p", begin, 360, 480)
	})
}

// The clock of the leader is behind, so it goes on from the cluster time. If most servers have that clock,
// the cluster time is ahead: it goes on from the clock.
func TestPeriodicLoop_GoesOnFromTheLaterClockThatIsRight(t *testing.T) {
	now := time.Now().Truncate(time.Hour)
	const behind = 30 * time.Hour
	for agreed, want := range map[int64]time.Time{0: now, now.UnixNano(): now.Add(-behind)} {
		w := newTestEnv(t)
		row := cluster.ClusterTime{Time: now.UnixNano(), Ahead: -behind, Agreed: agreed}
		put(w, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{Clock: row})
		w.addPeriodic("p", "@yearly", anySchedule)
		w.launchAt("p", now.Add(5*time.Hour))
		due, _ := periodicLoop{w.Deps}.dueLaunches(w.Store.Read(), instant{now.Add(-behind), now})
		if len(due) != 1 || !due[0].goesOn || !due[0].at.Equal(want) {
			t.Errorf("agreed since %d: due is %+v, want to go on from %s", agreed, due, want)
		}
	}
}

// A clock that is wrong may be set right at any time. Its timers would be for other times. The last launch is
// of now by that clock: it is not in the future, although the state does not know the clock yet.
func TestPeriodicLoop_LooksAgainSoonByAWrongClock(t *testing.T) {
	w := newTestEnv(t)
	w.addPeriodic("p", "@yearly", anySchedule)
	now := time.Now()
	for _, ahead := range []time.Duration{30 * time.Hour, -30 * time.Hour} {
		due, next := periodicLoop{w.Deps}.dueLaunches(w.Store.Read(), instant{now, now.Add(-ahead)})
		if len(due) > 0 || !next.Equal(now.Add(clustertime.Tolerance)) {
			t.Errorf("by a clock that is %s ahead %v is due, and the next look is at %s", ahead, due, next)
		}
	}
}

func TestPeriodicLoop_SkipsOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		begin := time.Now()
		w.addPeriodic("p", "* * * * *", func(p *structs.PeriodicConfig) { p.ProhibitOverlap = true })
		w.lead(150 * time.Second)
		w.checkLaunches("p", begin, 60)
		for child := range state.ChildJobs(w.Store.Read(), "default", "p") {
			err := propose(t.Context(), w.Deps, fsm.JobDeregister, &structs.JobDeregisterRequest{
				JobID:        child.ID,
				Purge:        true,
				WriteOptions: w.stamp("default"),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		w.lead(20 * time.Second) // the skipped launch at 120 s is not made up for
		w.checkLaunches("p", begin)
		w.lead(time.Minute)
		w.checkLaunches("p", begin, 180)
	})
}

// A launch that the log does not take is repeated.
func TestPeriodicLoop_RepeatsAFailedLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t)
		begin := time.Now()
		w.addPeriodic("p", "* * * * *", anySchedule)
		w.log.Fail(structs.Unavailablef("no leader"))
		w.lead(62 * time.Second)
		w.checkLaunches("p", begin)
		w.log.Fail(nil)
		w.lead(3 * time.Second)
		w.checkLaunches("p", begin, 60)
	})
}
