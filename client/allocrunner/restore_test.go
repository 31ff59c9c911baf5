package allocrunner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/driver"
	"berth/structs"
)

func TestRestore_RecoversARunningTaskWithoutARestart(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		if got := w.machine.Running(); len(got) != 1 {
			t.Fatalf("running after the agent stopped: %v", got)
		}
		b := w.agent() // its servers are not reachable
		r := b.restore()[0]
		defer func() { b.stop() }()
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "driver", w.machine.Log(), []string{"start alloc1/web", "recover alloc1/web"})
		equal(t, "hooks", w.logged(), []string{"up a", "up b", "up web", "started web", "stopped (agent stops) web",
			"up a", "up b", "up web", "started web"})
		w.machine.Exit("alloc1/web", exit(1))
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.machine.Task("alloc1/web").Starts; got != 1 {
			t.Errorf("restarted before the servers were contacted")
		}
		close(b.contacted)
		synctest.Wait()
		if got := w.machine.Task("alloc1/web").Starts; got != 2 {
			t.Errorf("%d starts after the servers were contacted", got)
		}
		r.Destroy()
		<-r.Ended()
	})
}

func TestRestore_TakesATaskThatIsNotFoundYetForRunning(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		tries := 0
		w.machine.Before = func(p string) error {
			if p == "recover alloc1/web" {
				if tries++; tries <= 3 {
					return errors.New("the supervisor does not answer")
				}
			}
			return nil
		}
		b := w.agent()
		defer b.stop()
		close(b.contacted)
		b.restore()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning || len(w.machine.Running()) != 1 {
			t.Errorf("status %s, running %v", u.ClientStatus, w.machine.Running())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "driver", w.machine.Log(), []string{"start alloc1/web", "recover alloc1/web"})
		equal(t, "events", eventsOf(b.last().TaskStates["web"]), []string{"Received", "Started", "Restored"})
	})
}

func TestRestore_StopsATaskThatIsStillSought(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		w.machine.Before = func(p string) error {
			if p == "recover alloc1/web" {
				return errors.New("the supervisor does not answer")
			}
			return nil
		}
		b := w.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		r.Stop("enough")
		<-r.Unwound()
		if got := w.machine.Held(); len(got) > 0 || b.last().ClientStatus != structs.AllocComplete {
			t.Errorf("held %v, status %s", got, b.last().ClientStatus)
		}
	})
}

func TestRestore_ReportsAnEndWithoutTheAgent(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(batch(testAlloc("web")))
		synctest.Wait()
		a.stop()
		w.machine.Exit("alloc1/web", ok)
		b := w.agent()
		defer b.stop()
		r := b.restore()[0]
		<-r.Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

func TestRestore_AfterARebootWaitsForTheServers(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		w.machine.Reboot()
		w.log = nil
		b := w.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocPending {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "hooks", w.logged(), nil)
		close(b.contacted)
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "hooks", w.logged(), []string{"up a", "up b", "up web", "started web"})
		r.Destroy()
		<-r.Ended()
	})
}

func TestRestore_AKillEndsTheWaitForTheServers(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		w.machine.Reboot()
		b := w.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		if err := r.Update(stopped(testAlloc("web"))); err != nil {
			t.Fatal(err)
		}
		<-r.Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocComplete || w.machine.Task("alloc1/web").Starts != 0 || hookLeft(w) != "" {
			t.Errorf("status %s, left up: %s", u.ClientStatus, hookLeft(w))
		}
	})
}

// hookLeft names a hook that is up.
func hookLeft(w *fixture) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.up {
		return name
	}
	return ""
}

func TestRestore_FinishesAnEarlierStop(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		w.failTimes("down b", 1000)
		w.failTimes("down web", 1)
		if err := r.Update(stopped(testAlloc("web"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		a.stop()
		w.failTimes("down b", 1)
		w.log = nil
		b := w.agent()
		defer b.stop()
		r = b.restore()[0]
		<-r.Unwound()
		equal(t, "hooks", w.logged(), []string{"down b", "down b"})
		if u := b.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

func TestRestore_ContinuesAnEarlierSetUp(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.allocs[1].block = true
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		b := w.agent()
		defer b.stop()
		close(b.contacted)
		r := b.restore()[0]
		synctest.Wait()
		equal(t, "hooks", w.logged(), []string{"up a", "up b", "up a", "up b", "up web", "started web"})
		r.Destroy()
		<-r.Ended()
	})
}

func TestRestore_RetriesAHookBesideARunningTask(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		w.failTimes("up b", 3)
		w.failTimes("up web", 2)
		w.log = nil
		b := w.agent()
		defer b.stop()
		b.restore()
		time.Sleep(time.Minute)
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning || w.machine.Task("alloc1/web").Starts != 1 {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "hooks", w.logged(), []string{"up a", "up b", "up a", "up b", "up a", "up b", "up a", "up b",
			"up web", "up web", "up web", "started web"})
	})
}

func TestRestore_KeepsASetUpFailure(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		w.failTimes("up b", 1)
		w.failTimes("down a", 1000)
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		w.fail = map[string]func() error{}
		b := w.agent()
		defer b.stop()
		r := b.restore()[0]
		<-r.Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocFailed || !strings.Contains(u.ClientDescription, "hook b") {
			t.Errorf("%s: %s", u.ClientStatus, u.ClientDescription)
		}
	})
}

// crash is the world as it was at one point of an agent's life, if the agent was killed there.
type crash struct {
	point string
	w     *fixture
}

// crashes runs a life and keeps the world of each point at which something was done to it or was about to
// be, store included.
func crashes(t *testing.T, life func(t *testing.T, w *fixture)) []crash {
	var all []crash
	outer := t
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		keep := func(point string) { all = append(all, crash{point, w.clone(outer)}) }
		w.after = func(p string) { keep("after " + p) }
		w.machine.After = func(p string) { keep("after " + p) }
		w.machine.Before = func(p string) error { keep("before " + p); return nil }
		life(t, w)
	})
	return all
}

// clone copies the world as an agent that is killed leaves it, for the test t.
func (w *fixture) clone(t *testing.T) *fixture {
	dir := t.TempDir()
	src, err := os.Open(filepath.Join(w.dir, "client.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(filepath.Join(dir, "client.db"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &fixture{t: t, dir: dir, machine: w.machine.Clone(), up: maps.Clone(w.up), fail: map[string]func() error{}}
}

// TestRestore_AfterAKillAtAnyPoint kills the agent between every record, act and mark of a whole life and lets
// another take over: a process that ran is not started again, one that ended is not left, and after the
// allocation is stopped nothing is.
func TestRestore_AfterAKillAtAnyPoint(t *testing.T) {
	all := crashes(t, func(t *testing.T, w *fixture) {
		a := w.agent()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		w.machine.Exit("alloc1/web", exit(1)) // and again, by the policy
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.Destroy()
		<-r.Ended()
		a.stop()
	})
	if len(all) < 15 {
		t.Fatalf("only %d points", len(all))
	}
	for i, c := range all {
		t.Run(fmt.Sprintf("%02d %s", i, strings.ReplaceAll(c.point, "/", "-")), func(t *testing.T) {
			inTime(t, func(t *testing.T) { afterCrash(t, c.w) })
		})
	}
}

func afterCrash(t *testing.T, w *fixture) {
	w.t, w.machine = t, w.machine.Clone() // its channels belong to this test's time
	before := w.machine.Task("alloc1/web")
	ran := len(w.machine.Running()) == 1
	a := w.agent()
	defer a.stop()
	rs := a.restore()
	if len(rs) == 0 {
		if len(w.machine.Held()) > 0 || hookLeft(w) != "" {
			t.Errorf("nothing on record, but left are %v, %s", w.machine.Held(), hookLeft(w))
		}
		return
	}
	synctest.Wait()
	if got := w.machine.Task("alloc1/web"); got.Starts != before.Starts {
		t.Errorf("started before the servers were contacted: %d starts, were %d", got.Starts, before.Starts)
	}
	if ran && len(w.machine.Running()) != 1 && rs[0].ClientState().ClientStatus == structs.AllocRunning {
		t.Error("a running process was lost")
	}
	close(a.contacted)
	time.Sleep(time.Minute)
	synctest.Wait()
	if ran {
		if got := w.machine.Task("alloc1/web"); got.Starts != before.Starts {
			t.Errorf("a running process was restarted: %d starts, were %d", got.Starts, before.Starts)
		}
	}
	rs[0].Destroy()
	<-rs[0].Ended()
	if len(w.machine.Held()) > 0 || hookLeft(w) != "" {
		t.Errorf("left: %v, %s; machine %v", w.machine.Held(), hookLeft(w), w.machine.Log())
	}
	if saved, err := Saved(a.db); err != nil || len(saved) > 0 || exists(rs[0].Dir()) {
		t.Errorf("records left: %v, %v", saved, err)
	}
	conflict := slices.ContainsFunc(a.last().TaskStates["web"].Events, func(e *structs.TaskEvent) bool {
		return strings.Contains(e.Message, "twice")
	})
	if conflict {
		t.Error("a task was started beside what was left of its last run")
	}
}

func TestRestore_FindsATaskWithoutARecordedHandle(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		r, err := New(a.deps, testAlloc("web"))
		if err != nil {
			t.Fatal(err)
		}
		d, _ := a.deps.Drivers.Driver("fake")
		if err := r.tasks[0].saveRecord(func(rec *taskRecord) { rec.Starting = true }); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(context.Background(), &driver.TaskConfig{ID: "alloc1/web"}); err != nil {
			t.Fatal(err)
		}
		a.stop()
		b := w.agent()
		b.restore()
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning || w.machine.Task("alloc1/web").Starts != 1 {
			t.Errorf("status %s", u.ClientStatus)
		}
		b.stop()
	})
}

// The order to stop passes through several goroutines at different speeds. A goroutine that learns of the
// connection to the servers must not act before their orders.
func TestRestore_HearsAStopBeforeTheServers(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		w.machine.Reboot()
		b := w.agent()
		defer b.stop()
		saved, err := Saved(b.db)
		if err != nil || len(saved) != 1 {
			t.Fatal(saved, err)
		}
		r, err := Restore(b.deps, saved[0])
		if err != nil {
			t.Fatal(err)
		}
		r.tasks[0].reattach(b.ctx)
		up, cancel := r.whileWanted(b.ctx)
		defer cancel()
		var begins, starts bool
		b.wg.Go(func() { begins = r.awaitMaySetUp(up) })
		b.wg.Go(func() { starts = r.tasks[0].awaitMayStart(b.ctx) })
		synctest.Wait()
		r.Stop("it is not wanted") // no goroutine gives the order to the task: Run was not called
		if up.Err() == nil {
			t.Error("setting up is not cut off when Stop returns")
		}
		close(b.contacted)
		close(r.ready)
		synctest.Wait()
		if begins || starts {
			t.Errorf("sets up %v, starts %v, after it was ordered to stop", begins, starts)
		}
	})
}

// lateContext has ended, but has not notified its waiters yet.
type lateContext struct{ context.Context }

func (lateContext) Done() <-chan struct{} { return make(chan struct{}) }
func (lateContext) Err() error            { return context.Canceled }

func TestHooks_KnowThatTheAgentStops(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		defer a.stop()
		r, err := New(a.deps, testAlloc("web"))
		if err != nil {
			t.Fatal(err)
		}
		r.tasks[0].startHooks(lateContext{a.ctx})()
		equal(t, "hooks", w.logged(), []string{"started web", "stopped (agent stops) web"})
	})
}

func TestRunner_StartsNothingBesideAStoppingLeader(t *testing.T) {
	inTime(t, func(t *testing.T) {
		w := newFixture(t)
		a := w.agent()
		alloc := testAlloc("lead", "side")
		alloc.Job.TaskGroups[0].Tasks[0].Leader = true
		a.new(alloc)
		synctest.Wait()
		a.stop()
		var stubborn atomic.Bool
		stubborn.Store(true)
		w.machine.Before = func(p string) error {
			if p == "stop alloc1/lead" && stubborn.Load() {
				return errors.New("it does not listen")
			}
			return nil
		}
		w.machine.Exit("alloc1/side", exit(1))
		b := w.agent()
		defer b.stop()
		r := b.restore()[0]
		time.Sleep(time.Minute)
		r.Destroy()
		close(b.contacted)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.machine.Running(); !slices.Equal(got, []string{"alloc1/lead"}) || w.machine.Task("alloc1/side").Starts != 1 {
			t.Errorf("running %v, the other task was started %d times", got, w.machine.Task("alloc1/side").Starts)
		}
		stubborn.Store(false)
		<-r.Ended()
		if got := w.machine.Held(); len(got) > 0 {
			t.Errorf("held %v", got)
		}
	})
}
