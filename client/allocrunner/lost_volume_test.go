package allocrunner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// A task that uses a lost volume is killed at once, in spite of its kill timeout, and also while it is being
// stoppedAlloc.
func TestRunner_KillsTasksOfALostVolumeAtOnce(t *testing.T) {
	for name, stopping := range map[string]bool{"running": false, "being stopped": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				alloc := testAlloc("web", "db")
				g := alloc.Job.TaskGroups[0]
				delay := time.Hour
				g.ShutdownDelay = &delay
				g.Tasks[0].ShutdownDelay, g.Tasks[0].KillTimeout = time.Hour, time.Hour
				r := a.new(alloc)
				synctest.Wait()
				begin := time.Now()
				if stopping {
					r.Stop("the job was stopped")
					time.Sleep(time.Second)
					begin = time.Now()
				}
				r.Lose("volume data was taken away")
				<-r.Unwound()
				if took := time.Since(begin); took != 0 {
					t.Errorf("the task wrote for another %s", took)
				}
				got := fx.machine.Task("alloc1/web")
				if got.Signal != "SIGKILL" || got.Timeout != 0 {
					t.Errorf("stopped with %s and %s", got.Signal, got.Timeout)
				}
				if len(fx.up) > 0 {
					t.Errorf("still up: %v", fx.up)
				}
				if u := a.last(); !stopping && (u.ClientStatus != structs.AllocFailed ||
					!strings.Contains(u.ClientDescription, "taken away")) {
					t.Errorf("%s: %s", u.ClientStatus, u.ClientDescription)
				}
			})
		})
	}
}

// The order survives a restart of the agent, and a task that has not started does not start.
func TestRunner_KeepsALostVolumeLost(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		block := make(chan struct{})
		fx.fail["up b"] = func() error { <-block; return context.Canceled }
		r := a.new(testAlloc("web"))
		synctest.Wait()
		// And then the agent is killed.
		r.record.saveFailure(failure{reason: "volume data was taken away", lost: true})
		a.cancel()
		close(block)
		a.stop()
		fx.fail = map[string]func() error{}
		b := fx.agent()
		defer b.stop()
		r = b.restore()[0]
		<-r.Unwound()
		u := b.last()
		if u.ClientStatus != structs.AllocFailed || fx.machine.Task("alloc1/web").Starts != 0 {
			t.Errorf("%s, started %d times", u.ClientStatus, fx.machine.Task("alloc1/web").Starts)
		}
	})
}
