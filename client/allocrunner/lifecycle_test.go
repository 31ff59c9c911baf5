package allocrunner

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/structs"
)

// lifecycleAlloc is an allocation with a task of each kind, after the names of which it is. The main task is
// called main.
func lifecycleAlloc() *structs.Allocation {
	alloc := testAlloc("after", "late", "beside", "main", "side", "first")
	for name, l := range map[string]structs.TaskLifecycle{
		"first":  {Hook: structs.LifecyclePrestart},
		"side":   {Hook: structs.LifecyclePrestart, Sidecar: true},
		"late":   {Hook: structs.LifecyclePoststart},
		"beside": {Hook: structs.LifecyclePoststart, Sidecar: true},
		"after":  {Hook: structs.LifecyclePoststop},
	} {
		alloc.Job.TaskGroups[0].Task(name).Lifecycle = &l
	}
	return alloc
}

// wantRunning checks the names of the tasks that run, in any order.
func (fx *fixture) wantRunning(t *testing.T, names ...string) {
	t.Helper()
	synctest.Wait()
	want := make([]string, 0, len(names))
	for _, name := range names {
		want = append(want, "alloc1/"+name)
	}
	slices.Sort(want)
	equal(t, "running", fx.machine.Running(), want)
}

// toMain runs an allocation of lifecycleAlloc until its main task and all sidecars run.
func (fx *fixture) toMain(t *testing.T) {
	t.Helper()
	fx.wantRunning(t, "first", "side")
	fx.machine.Exit("alloc1/first", ok)
	fx.wantRunning(t, "side", "main", "late", "beside")
	fx.machine.Exit("alloc1/late", ok)
	fx.wantRunning(t, "side", "main", "beside")
}

func TestLifecycle_RunsTheTasksInOrder(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(asBatch(lifecycleAlloc()))
		fx.toMain(t)
		fx.machine.Exit("alloc1/main", ok)
		fx.wantRunning(t, "after")
		if u := a.last(); u.ClientStatus != structs.AllocRunning || isClosed(r.Unwound()) {
			t.Errorf("the allocation is %s while its poststop task runs", u.ClientStatus)
		}
		fx.machine.Exit("alloc1/after", ok)
		<-r.Unwound()
		if u := a.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("the allocation is %s", u.ClientStatus)
		}
		for _, name := range []string{"side", "beside"} {
			equal(t, "events of "+name, eventsOf(a.last().TaskStates[name]),
				[]string{"Received", "Started", "Main Tasks Dead", "Killing", "Killed"})
		}
		for _, task := range a.last().TaskStates {
			if task.Restarts != 0 || task.Failed {
				t.Errorf("a task has the state %+v", task)
			}
		}
	})
}

func TestLifecycle_APrestartSidecarHasToRunBeforeTheMainTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(lifecycleAlloc())
		fx.wantRunning(t, "first", "side")
		fx.machine.Exit("alloc1/side", ok) // a sidecar starts again also after a success
		fx.wantRunning(t, "first")
		fx.machine.Exit("alloc1/first", ok)
		fx.wantRunning(t)
		time.Sleep(5 * time.Second)
		fx.wantRunning(t, "side", "main", "late", "beside")
		fx.machine.Exit("alloc1/late", ok)
		fx.machine.Exit("alloc1/main", ok) // a service does likewise, and the others run on
		fx.wantRunning(t, "side", "beside")
		time.Sleep(5 * time.Second)
		fx.wantRunning(t, "side", "main", "beside")
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestLifecycle_AFailedPrestartTaskFailsTheAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(lifecycleAlloc())
		fx.wantRunning(t, "first", "side")
		fx.machine.Exit("alloc1/first", exitResult(1))
		time.Sleep(5 * time.Second) // it is restarted once
		fx.wantRunning(t, "first", "side")
		fx.machine.Exit("alloc1/first", exitResult(1))
		fx.wantRunning(t, "after") // which cleans up after it
		fx.machine.Exit("alloc1/after", ok)
		<-r.Unwound()
		if u := a.last(); u.ClientStatus != structs.AllocFailed || fx.machine.Task("alloc1/main").Starts != 0 {
			t.Errorf("the allocation is %s, main was started %d times",
				u.ClientStatus, fx.machine.Task("alloc1/main").Starts)
		}
	})
}

func TestLifecycle_AStopEndsSidecarsAfterMainTasks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := lifecycleAlloc()
		alloc.Job.TaskGroups[0].Tasks = append(alloc.Job.TaskGroups[0].Tasks, &structs.Task{
			Name:        "lead",
			Driver:      "fake",
			KillTimeout: 7 * time.Second,
			Leader:      true,
		})
		r := a.new(alloc)
		fx.wantRunning(t, "first", "side")
		fx.machine.Exit("alloc1/first", ok)
		fx.wantRunning(t, "side", "main", "late", "beside", "lead")
		fx.machine.Exit("alloc1/late", ok)
		fx.wantRunning(t, "side", "main", "beside", "lead")
		r.Stop("enough")
		fx.wantRunning(t, "after")
		var stops []string
		for _, call := range fx.machine.Log() {
			if name, isStop := strings.CutPrefix(call, "stop alloc1/"); isStop {
				stops = append(stops, name)
			}
		}
		slices.Sort(stops[2:]) // the sidecars are stopped together
		equal(t, "order", stops, []string{"lead", "main", "beside", "side"})
		fx.machine.Exit("alloc1/after", ok)
		<-r.Unwound()
	})
}

func TestLifecycle_NoPoststopTaskRunsWithoutNeed(t *testing.T) {
	for name, end := range map[string]func(fx *fixture, r *Runner){
		"a lost volume":            func(_ *fixture, r *Runner) { r.Lose("it is gone") },
		"an abandoned allocation":  func(_ *fixture, r *Runner) { r.Abandon("it has ended") },
		"a stop before any start":  func(_ *fixture, r *Runner) { r.Stop("enough") },
		"a failed allocation hook": func(fx *fixture, _ *Runner) { fx.note("fails") },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				switch name {
				case "a stop before any start":
					a.allocs[1].block = true
				case "a failed allocation hook":
					fx.failTimes("up b", 1)
				}
				r := a.new(lifecycleAlloc())
				synctest.Wait()
				end(fx, r)
				<-r.Unwound()
				if got := fx.machine.Task("alloc1/after").Starts; got != 0 {
					t.Errorf("the poststop task was started %d times", got)
				}
			})
		})
	}
}

// The next agent goes on where the last one was: it starts no task again that has completed or runs.
func TestLifecycle_ContinuesWithTheNextAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		r := a.new(asBatch(lifecycleAlloc()))
		next := func() {
			t.Helper()
			synctest.Wait()
			a.stop()
			a = fx.agent()
			close(a.contacted)
			r = a.restore()[0]
		}
		defer func() { a.stop() }()
		next()
		fx.wantRunning(t, "first", "side")
		fx.machine.Exit("alloc1/first", ok)
		next()
		fx.wantRunning(t, "side", "main", "late", "beside")
		next()
		fx.machine.Exit("alloc1/late", ok)
		next()
		fx.wantRunning(t, "side", "main", "beside")
		fx.machine.Exit("alloc1/main", ok)
		next()
		fx.wantRunning(t, "after")
		next()
		fx.wantRunning(t, "after")
		fx.machine.Exit("alloc1/after", ok)
		<-r.Unwound()
		if u := a.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("the allocation is %s", u.ClientStatus)
		}
		for _, name := range []string{"first", "side", "main", "late", "beside", "after"} {
			if got := fx.machine.Task("alloc1/" + name).Starts; got != 1 {
				t.Errorf("%s was started %d times", name, got)
			}
		}
	})
}

// An end that happens while no agent runs has the same consequences.
func TestLifecycle_ContinuesAfterAnEndWithoutAnAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		r := a.new(asBatch(lifecycleAlloc()))
		fx.wantRunning(t, "first", "side")
		for _, step := range []struct{ ends, then string }{
			{"first", "side main late beside"}, {"late", "side main beside"},
			{"main", "after"}, {"after", ""},
		} {
			a.stop()
			fx.machine.Exit("alloc1/"+step.ends, ok)
			a = fx.agent()
			close(a.contacted)
			r = a.restore()[0]
			fx.wantRunning(t, strings.Fields(step.then)...)
		}
		<-r.Unwound()
		a.stop()
	})
}

// The poststop tasks of an allocation that was being stopped need its hooks again.
func TestLifecycle_SetsUpHooksForALatePoststopTask(t *testing.T) {
	for _, broken := range []bool{false, true} {
		inVirtualTime(t, func(t *testing.T) {
			fx := newFixture(t)
			a := fx.agent()
			r := a.new(lifecycleAlloc())
			fx.toMain(t)
			if err := r.Update(stoppedAlloc(lifecycleAlloc())); err != nil {
				t.Fatal(err)
			}
			fx.wantRunning(t, "after")
			fx.machine.Exit("alloc1/after", exitResult(1)) // and again, by the policy
			synctest.Wait()
			a.stop()
			a = fx.agent()
			a.allocs[1].block = broken
			close(a.contacted)
			r = a.restore()[0]
			defer func() { a.stop() }()
			if !broken {
				fx.wantRunning(t, "after")
				fx.machine.Exit("alloc1/after", ok)
			}
			<-r.Unwound()
			s := a.last().TaskStates["after"]
			if s.Failed != broken || hooksLeft(fx) != "" {
				t.Errorf("broken %t: the task is %+v, left is %q", broken, s, hooksLeft(fx))
			}
		})
	}
}
