package allocrunner

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/structs"
)

// delayedAlloc has a task and a group with a shutdown_delay of an hour each.
func delayedAlloc() *structs.Allocation {
	alloc := testAlloc("web")
	g := alloc.Job.TaskGroups[0]
	delay := time.Hour
	g.ShutdownDelay = &delay
	g.Tasks[0].ShutdownDelay = delay
	return alloc
}

// stopped is an allocation as the servers have stopped it, in a hurry or not.
func stopped(alloc *structs.Allocation, hurry bool) *structs.Allocation {
	a := alloc.Copy()
	a.DesiredStatus = structs.AllocDesiredStop
	a.NoShutdownDelay = hurry
	return a
}

func mustUpdate(t *testing.T, r *Runner, alloc *structs.Allocation) {
	t.Helper()
	if err := r.Update(alloc); err != nil {
		t.Fatal(err)
	}
}

// wantEndAfter checks the time that the allocation takes from now to its end. The task has its kill timeout.
func (fx *fixture) wantEndAfter(t *testing.T, r *Runner, want time.Duration) {
	t.Helper()
	begin := time.Now()
	<-r.Unwound()
	if took := time.Since(begin); took != want {
		t.Errorf("took %s, want %s", took, want)
	}
	if got := fx.machine.Task("alloc1/web"); got.Signal == "SIGKILL" || got.Timeout == 0 {
		t.Errorf("stopped with %s and %s", got.Signal, got.Timeout)
	}
}

func TestRunner_SkipsTheShutdownDelays(t *testing.T) {
	for name, c := range map[string]struct {
		hurry bool
		after time.Duration // the delay that has passed at the order to hurry
		want  time.Duration
	}{
		"not at all":                      {false, 0, 2 * time.Hour},
		"from the beginning":              {true, 0, 0},
		"during the delay of the group":   {true, 30 * time.Minute, 0},
		"during the delay of the task":    {true, 90 * time.Minute, 0},
		"an hour and a half without need": {false, 90 * time.Minute, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				alloc := delayedAlloc()
				r := a.new(alloc)
				synctest.Wait()
				if c.after > 0 {
					mustUpdate(t, r, stopped(alloc, false))
					time.Sleep(c.after)
				}
				mustUpdate(t, r, stopped(alloc, c.hurry))
				fx.wantEndAfter(t, r, c.want)
			})
		})
	}
}

// The scheduler stops it later. Until then its tasks may restart, and wait for their delay.
func TestRunner_HurriesOnlyToStop(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := delayedAlloc()
		r := a.new(alloc)
		synctest.Wait()
		marked := alloc.Copy()
		marked.NoShutdownDelay = true
		mustUpdate(t, r, marked)
		if err := r.RestartTasks("web"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		fx.wantStarts(t, map[string]int{"web": 1})
		fx.wantRunning(t, "web")
		mustUpdate(t, r, stopped(alloc, true)) // ends the delay of the restart, too
		fx.wantEndAfter(t, r, 0)
	})
}

func TestRestore_SkipsTheShutdownDelays(t *testing.T) {
	for name, hurry := range map[string]bool{"hurry": true, "time": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				alloc := delayedAlloc()
				r := a.new(alloc)
				synctest.Wait()
				err := r.record.save(func(rec *allocRecord) { rec.Alloc = stopped(alloc, hurry) })
				if err != nil { // and then the agent is killed
					t.Fatal(err)
				}
				a.stop()
				b := fx.agent()
				defer b.stop()
				close(b.contacted)
				want := 2 * time.Hour
				if hurry {
					want = 0
				}
				fx.wantEndAfter(t, b.restore()[0], want)
			})
		})
	}
}

func TestShutdownDelay_OfAProcess(t *testing.T) {
	fx := newFixture(t)
	fx.shortenDir()
	a := fx.realAgent()
	alloc := processes(delayedAlloc())
	r := a.new(alloc)
	defer func() {
		r.Lose("the test ends") // also without the clause that it holds
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
		a.stop()
	}()
	log := processLog{t, filepath.Join(r.Dir(), "alloc", "data")}
	log.await("web begins", 1)
	awaitState(r, t, structs.TaskRunning, "web")
	mustUpdate(t, r, stopped(alloc, false))
	if err := r.SignalTasks(t.Context(), "web", "USR1"); err != nil { // it runs on in the delay
		t.Error(err)
	}
	log.await("web sees USR1", 1)
	mustUpdate(t, r, stopped(alloc, true))
	log.await("web ends", 1)
}
