package allocrunner

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/structs"
)

// boundedAlloc may be on the node for an hour.
func boundedAlloc(tasks ...string) *structs.Allocation {
	alloc := testAlloc(tasks...)
	alloc.Job.Type = structs.JobBatch
	alloc.Job.TaskGroups[0].MaxRunDuration = new(time.Hour)
	return alloc
}

// wantExpired waits for the end of the allocation and checks the time from begin to it.
func wantExpired(t *testing.T, a *agent, r *Runner, begin time.Time, want time.Duration) {
	t.Helper()
	<-r.Unwound()
	if took := time.Since(begin); took != want {
		t.Errorf("took %s, want %s", took, want)
	}
	u := a.last()
	if u.ClientStatus != structs.AllocComplete ||
		u.ClientDescription != "allocation exceeded max_run_duration" {
		t.Errorf("got %s, %s", u.ClientStatus, u.ClientDescription)
	}
	events := u.TaskStates["web"].Events
	if !slices.ContainsFunc(events, func(e *structs.TaskEvent) bool {
		return e.Type == structs.TaskEventMaxRunDuration && e.DisplayMessage == lifecycle.Expired.Reason
	}) {
		t.Errorf("no event of %d tells the reason", len(events))
	}
}

func TestMaxRunDuration_EndsTheAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := boundedAlloc("web", "clean")
		alloc.Job.TaskGroups[0].Tasks[1].Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePoststop}
		begin := time.Now()
		wantExpired(t, a, a.new(alloc), begin, time.Hour)
		if slices.Contains(fx.logged(), "up clean") {
			t.Error("the poststop task has run")
		}
	})
}

// The time counts from the arrival on the node, also while no agent runs.
func TestMaxRunDuration_SurvivesARestartOfTheAgent(t *testing.T) {
	for name, c := range map[string]struct{ away, want time.Duration }{
		"before its end": {20 * time.Minute, time.Hour},
		"after its end":  {2 * time.Hour, 150 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				begin := time.Now()
				a.new(boundedAlloc("web"))
				time.Sleep(30 * time.Minute)
				a.stop()
				time.Sleep(c.away)
				b := fx.agent()
				defer b.stop()
				close(b.contacted)
				wantExpired(t, b, b.restore()[0], begin, c.want)
			})
		})
	}
}

// An agent that was killed during the stop does not begin another run of the poststop tasks.
func TestMaxRunDuration_ResumesTheEnd(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		alloc := boundedAlloc("web")
		r := a.new(alloc)
		synctest.Wait()
		err := r.record.save(func(rec *allocRecord) { rec.Expired = true })
		if err != nil { // and then the agent is killed
			t.Fatal(err)
		}
		a.stop()
		b := fx.agent()
		defer b.stop()
		close(b.contacted)
		wantExpired(t, b, b.restore()[0], time.Now(), 0)
	})
}

func TestMaxRunDuration_FollowsAnUpdate(t *testing.T) {
	for name, c := range map[string]struct{ bound, want time.Duration }{
		"longer":  {2 * time.Hour, 2 * time.Hour},
		"shorter": {time.Minute, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				begin := time.Now()
				r := a.new(boundedAlloc("web"))
				time.Sleep(30 * time.Minute)
				next := boundedAlloc("web")
				next.Job.TaskGroups[0].MaxRunDuration = new(c.bound)
				mustUpdate(t, r, next)
				wantExpired(t, a, r, begin, c.want)
			})
		})
	}
}

// An allocation that has completed in time stays as it is.
func TestMaxRunDuration_LeavesACompletedAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(boundedAlloc("web"))
		synctest.Wait()
		fx.machine.Exit("alloc1/web", driver.ExitResult{})
		<-r.Unwound()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if u := r.ClientState(); u.ClientDescription != "All tasks have completed" {
			t.Errorf("got %s, %s", u.ClientStatus, u.ClientDescription)
		}
	})
}
