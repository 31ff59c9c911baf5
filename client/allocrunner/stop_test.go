package allocrunner

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/hooks"
	"berth/structs"
)

// The order to stop passes through several goroutines at different speeds. A goroutine that learns of the
// connection to the servers must not act before their orders.
func TestRestore_StopsBeforeItContinues(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		fx.machine.Reboot()
		b := fx.agent()
		defer b.stop()
		saved, err := Saved(b.db)
		if err != nil || len(saved) != 1 {
			t.Fatal(saved, err)
		}
		r, err := Restore(b.deps, saved[0])
		if err != nil {
			t.Fatal(err)
		}
		r.record.tasks[0].Reattach(b.ctx)
		up, cancel := lifecycle.WhileWanted(b.ctx, r.orders.Stopping)
		defer cancel()
		var begins bool
		b.wg.Go(func() { begins = r.awaitMaySetUp(up) })
		b.wg.Go(func() { r.record.tasks[0].Run(b.ctx) })
		synctest.Wait()
		r.Stop("it is not wanted") // no goroutine gives the order to the task: Run was not called
		if up.Err() == nil {
			t.Error("the context of the set-up has not ended when Stop returns")
		}
		close(b.contacted)
		r.phases.Reach(lifecycle.HooksUp)
		synctest.Wait()
		if running := fx.machine.Running(); begins || len(running) > 0 {
			t.Errorf("sets up %v, runs %q, after it was ordered to stop", begins, running)
		}
	})
}

func TestRunner_StartsNothingWhileTheLeaderStops(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		alloc := testAlloc("lead", "side")
		alloc.Job.TaskGroups[0].Tasks[0].Leader = true
		a.new(alloc)
		synctest.Wait()
		a.stop()
		var stubborn atomic.Bool
		stubborn.Store(true)
		fx.machine.Before = func(p string) error {
			if p == "stop alloc1/lead" && stubborn.Load() {
				return errors.New("it does not listen")
			}
			return nil
		}
		fx.machine.Exit("alloc1/side", exitResult(1))
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		time.Sleep(time.Minute)
		r.Destroy()
		close(b.contacted)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fx.machine.Running(); !slices.Equal(got, []string{"alloc1/lead"}) ||
			fx.machine.Task("alloc1/side").Starts != 1 {
			t.Errorf("running %v, the other task was started %d times", got, fx.machine.Task("alloc1/side").Starts)
		}
		stubborn.Store(false)
		<-r.Reached(lifecycle.Ended)
		if got := fx.machine.Held(); len(got) > 0 {
			t.Errorf("held %v", got)
		}
	})
}

// noteStops makes the hooks of tasks stoppingHooks, and notes the stops of processes in their log.
func (a *agent) noteStops(h *testHook) {
	a.deps.TaskHooks = func(*hooks.AllocEnv, *structs.Task) []hooks.Task {
		return []hooks.Task{stoppingHook{taskHook{h}}}
	}
	a.fx.machine.Before = func(point string) error {
		if strings.HasPrefix(point, "stop ") {
			a.fx.note(point)
		}
		return nil
	}
}

func TestStop_CallsTheHooksBeforeItStopsTheProcess(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		a.noteStops(&testHook{fx: fx, name: "web"})
		close(a.contacted)
		r := a.new(testAlloc("web"))
		synctest.Wait()
		begin := len(fx.logged())
		r.Stop("it is not wanted")
		synctest.Wait()
		want := []string{"stopping web", "stop alloc1/web", "stopped (process ended) web"}
		if got := fx.logged()[begin:]; !slices.Equal(got[:min(3, len(got))], want) {
			t.Errorf("got %q, want first %q", got, want)
		}
		a.stop()
	})
}

func TestStop_AwaitsNoHookOfALostAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		a.noteStops(&testHook{fx: fx, name: "web", awaits: true})
		close(a.contacted)
		r := a.new(testAlloc("web"))
		synctest.Wait()
		r.Stop("it is not wanted")
		synctest.Wait()
		if running := fx.machine.Running(); len(running) != 1 {
			t.Errorf("running beside a hook that has not ended: %q", running)
		}
		r.Lose("its volume was lost")
		synctest.Wait()
		if running := fx.machine.Running(); len(running) > 0 {
			t.Errorf("running after the loss: %q", running)
		}
		a.stop()
	})
}
