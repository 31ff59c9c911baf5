package allocrunner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/structs"
)

func (fx *fixture) wantStarts(t *testing.T, starts map[string]int) {
	t.Helper()
	for name, want := range starts {
		if got := fx.machine.Task("alloc1/" + name).Starts; got != want {
			t.Errorf("%s was started %d times, want %d", name, got, want)
		}
	}
}

func TestRestartTasks_DoesNotCountForThePolicy(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web", "side"))
		synctest.Wait()
		for range 3 { // the policy allows one
			if err := r.RestartTasks("web"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // it does not wait for the delay of the policy
		}
		fx.wantRunning(t, "web", "side")
		fx.wantStarts(t, map[string]int{"web": 4, "side": 1})
		s := a.last().TaskStates["web"]
		equal(t, "events", eventsOf(s)[6:],
			[]string{"Restart Signaled", "Terminated", "Restarting", "Started"})
		if s.Restarts != 3 {
			t.Errorf("%d restarts", s.Restarts)
		}
		fx.machine.Exit("alloc1/web", exitResult(1))
		fx.wantRunning(t, "side")
		if err := r.RestartTasks(""); err != nil { // all that run
			t.Fatal(err)
		}
		synctest.Wait()
		fx.wantRunning(t, "side")
		fx.wantStarts(t, map[string]int{"web": 4, "side": 2})
		time.Sleep(5 * time.Second)
		fx.wantRunning(t, "web", "side")
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

// A user may ask for it before the agent watches a process that an earlier agent started.
func TestRestartTasks_RightAfterARestartOfTheAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		b := fx.agent()
		defer b.stop()
		close(b.contacted)
		r := b.restore()[0]
		err := r.RestartTasks("web")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fx.wantStarts(t, map[string]int{"web": 2})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestartTasks_WaitsForTheShutdownDelay(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := testAlloc("web")
		alloc.Job.TaskGroups[0].Tasks[0].ShutdownDelay = 10 * time.Second
		r := a.new(alloc)
		synctest.Wait()
		if err := r.RestartTasks("web"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		fx.wantStarts(t, map[string]int{"web": 1})
		time.Sleep(time.Second)
		synctest.Wait()
		fx.wantStarts(t, map[string]int{"web": 2})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestartAll_BeginsWithThePrestartTasks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(lifecycleAlloc())
		fx.toMain(t)
		for range 2 {
			begin := len(a.updates)
			if err := r.RestartAll(); err != nil {
				t.Fatal(err)
			}
			fx.toMain(t)
			for _, u := range a.updates[begin:] {
				if u.ClientStatus == structs.AllocComplete || u.ClientStatus == structs.AllocFailed {
					t.Fatalf("the restarting allocation was reported as %s", u.ClientStatus)
				}
			}
		}
		fx.wantStarts(t, map[string]int{"first": 3, "side": 3, "main": 3, "late": 3, "beside": 3, "after": 0})
		if s := a.last().TaskStates["main"]; s.Restarts != 2 || s.Failed {
			t.Errorf("main is %+v", s)
		}
		r.Stop("enough")
		fx.wantRunning(t, "after")
		fx.machine.Exit("alloc1/after", ok)
		<-r.Unwound()
		if err := r.RestartAll(); !structs.IsKind(err, structs.KindConflict) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// An agent that ends while all tasks stop leaves the rest to the next one.
func TestRestartAll_ContinuesWithTheNextAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		r := a.new(lifecycleAlloc())
		fx.toMain(t)
		fx.machine.Before = func(p string) error {
			if p == "stop alloc1/beside" {
				return errors.New("it does not listen")
			}
			return nil
		}
		if err := r.RestartAll(); err != nil {
			t.Fatal(err)
		}
		fx.wantRunning(t, "beside")
		a.stop()
		fx.machine.Before = nil
		b := fx.agent()
		defer b.stop()
		close(b.contacted)
		r = b.restore()[0]
		fx.toMain(t)
		fx.wantStarts(t, map[string]int{"first": 2, "side": 2, "main": 2, "late": 2, "beside": 2, "after": 0})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestartAll_GivesWayToAStop(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := lifecycleAlloc()
		delay := 10 * time.Second
		alloc.Job.TaskGroups[0].ShutdownDelay = &delay
		r := a.new(alloc)
		fx.toMain(t)
		if err := r.RestartAll(); err != nil {
			t.Fatal(err)
		}
		r.Stop("enough")
		time.Sleep(delay)
		fx.wantRunning(t, "after")
		fx.machine.Exit("alloc1/after", ok)
		<-r.Unwound()
		if u := a.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("the allocation is %s", u.ClientStatus)
		}
		fx.wantStarts(t, map[string]int{"first": 1, "main": 1, "after": 1})
	})
}

func TestSignalTasks_SignalsTheTasksThatRun(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web", "side", "bad"))
		synctest.Wait()
		fx.machine.Exit("alloc1/bad", exitResult(1)) // waits for its restart
		synctest.Wait()
		for _, tc := range []struct{ task, signal string }{{"", "hup"}, {"web", "SIGUSR1"}} {
			if err := r.SignalTasks(t.Context(), tc.task, tc.signal); err != nil {
				t.Error(err)
			}
		}
		signals := slices.DeleteFunc(fx.machine.Log(), func(call string) bool {
			return !strings.HasPrefix(call, "signal ")
		})
		equal(t, "signals", signals,
			[]string{"signal SIGHUP alloc1/web", "signal SIGHUP alloc1/side", "signal SIGUSR1 alloc1/web"})
		equal(t, "events", eventsOf(a.last().TaskStates["side"]), []string{"Received", "Started", "Signaling"})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestControl_RejectsWhatItCannotDo(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web", "bad"))
		signal := func(task, signal string) error { return r.SignalTasks(t.Context(), task, signal) }
		wantKind := func(name string, err error, kind structs.Kind, text string) {
			t.Helper()
			if !structs.IsKind(err, kind) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", name, err)
			}
		}
		synctest.Wait()
		fx.machine.Exit("alloc1/bad", exitResult(1))
		synctest.Wait()
		wantKind("unknown task", r.RestartTasks("none"), structs.KindInvalid, "expected one of: web, bad")
		wantKind("unknown task", signal("none", "HUP"), structs.KindInvalid, "expected one of: web, bad")
		wantKind("unknown signal", signal("web", "none"), structs.KindInvalid, `"none" is not a signal`)
		wantKind("no signal", signal("", ""), structs.KindInvalid, "is not a signal")
		wantKind("pending task", r.RestartTasks("bad"), structs.KindConflict, `"bad" of allocation alloc1 is pending`)
		wantKind("pending task", signal("bad", "HUP"), structs.KindConflict, `"bad" of allocation alloc1 is pending`)
		r.Stop("enough")
		<-r.Unwound()
		wantKind("no task runs", r.RestartTasks(""), structs.KindConflict, "no running task")
		wantKind("no task runs", signal("", "HUP"), structs.KindConflict, "no running task")
		wantKind("the end", r.RestartAll(), structs.KindConflict, "alloc1 is complete")
	})
}
