package allocrunner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/store"
	"berth/structs"
)

// afterAgent is the fixture of an agent that has ended after it has run an allocation.
func afterAgent(t *testing.T, alloc *structs.Allocation) *fixture {
	t.Helper()
	fx := newFixture(t)
	a := fx.agent()
	a.new(alloc)
	synctest.Wait()
	a.stop()
	return fx
}

// failRecoveries makes the driver fail n times to find the task web of a former agent.
func (fx *fixture) failRecoveries(n int) {
	fx.machine.Before = func(point string) error {
		if point != "recover alloc1/web" || n == 0 {
			return nil
		}
		n--
		return errors.New("the supervisor does not answer")
	}
}

func TestRestore_RecoversARunningTaskWithoutARestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		if got := fx.machine.Running(); len(got) != 1 {
			t.Fatalf("running after the agent stopped: %v", got)
		}
		b := fx.agent() // its servers are not reachable
		r := b.restore()[0]
		defer func() { b.stop() }()
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "driver", fx.machine.Log(),
			[]string{"start alloc1/web", "recover alloc1/web"})
		equal(t, "hooks", fx.logged(), []string{"up a", "up b", "up web", "started web",
			"stopped (agent stops) web", "up a", "up b", "up web", "started web"})
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := fx.machine.Task("alloc1/web").Starts; got != 1 {
			t.Errorf("restarted before the servers were contacted")
		}
		close(b.contacted)
		synctest.Wait()
		if got := fx.machine.Task("alloc1/web").Starts; got != 2 {
			t.Errorf("%d starts after the servers were contacted", got)
		}
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestore_TakesATaskThatIsNotFoundYetForRunning(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.failRecoveries(3)
		b := fx.agent()
		defer b.stop()
		close(b.contacted)
		b.restore()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		u := b.last()
		if u.ClientStatus != structs.AllocRunning || len(fx.machine.Running()) != 1 {
			t.Errorf("status %s, running %v", u.ClientStatus, fx.machine.Running())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "driver", fx.machine.Log(),
			[]string{"start alloc1/web", "recover alloc1/web"})
		equal(t, "events", eventsOf(b.last().TaskStates["web"]),
			[]string{"Received", "Started", "Restored"})
	})
}

// The plugin of a driver may be missing for a while: its tasks run on, with their volumes.
func TestRestore_KeepsATaskWhoseDriverIsMissing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.log = nil
		b := fx.agent()
		b.deps.Drivers = drivertest.Set{}
		close(b.contacted)
		r := b.restore()[0]
		time.Sleep(time.Minute)
		r.Stop("enough")
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(fx.machine.Running()) != 1 || r.phases.Has(lifecycle.Ended) ||
			slices.Contains(fx.logged(), "down a") {
			t.Errorf("running %v, hooks %q", fx.machine.Running(), fx.logged())
		}
		b.stop()
		c := fx.agent()
		defer func() { c.stop() }()
		close(c.contacted)
		r = c.restore()[0]
		synctest.Wait()
		if u := c.last(); u.ClientStatus != structs.AllocRunning || fx.machine.Task("alloc1/web").Starts != 1 {
			t.Errorf("status %s, tasks %v", u.ClientStatus, fx.machine.Log())
		}
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestore_StopsATaskThatIsStillSought(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.failRecoveries(1000)
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		r.Stop("enough")
		<-r.Unwound()
		got := fx.machine.Held()
		if len(got) > 0 || b.last().ClientStatus != structs.AllocComplete {
			t.Errorf("held %v, status %s", got, b.last().ClientStatus)
		}
	})
}

// A task whose plugin does not run when its allocation is stopped has its kill_timeout once the plugin runs.
func TestRestore_StopsATaskInOrderThatIsFoundAfterTheStop(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.failRecoveries(1)
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		r.Stop("enough")
		<-r.Unwound()
		equal(t, "driver", fx.machine.Log(),
			[]string{"start alloc1/web", "recover alloc1/web", "stop alloc1/web", "destroy alloc1/web"})
	})
}

func TestRestore_ReportsAnEndWithoutTheAgent(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, asBatch(testAlloc("web")))
		fx.machine.Exit("alloc1/web", ok)
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		<-r.Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

func TestRestore_AfterARebootWaitsForTheServers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.machine.Reboot()
		fx.log = nil
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocPending {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "hooks", fx.logged(), nil)
		close(b.contacted)
		synctest.Wait()
		if u := b.last(); u.ClientStatus != structs.AllocRunning {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "hooks", fx.logged(),
			[]string{"up a", "up b", "up web", "started web"})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestore_AKillEndsTheWaitForTheServers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.machine.Reboot()
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		synctest.Wait()
		if err := r.Update(stoppedAlloc(testAlloc("web"))); err != nil {
			t.Fatal(err)
		}
		<-r.Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocComplete || fx.machine.Task("alloc1/web").Starts != 0 ||
			hooksLeft(fx) != "" {
			t.Errorf("status %s, left up: %s", u.ClientStatus, hooksLeft(fx))
		}
	})
}

// hooksLeft names a hook that is up.
func hooksLeft(fx *fixture) string {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	for name := range fx.up {
		return name
	}
	return ""
}

func TestRestore_FinishesAnEarlierStop(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		fx.failTimes("down b", 1000)
		fx.failTimes("down web", 1)
		if err := r.Update(stoppedAlloc(testAlloc("web"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		a.stop()
		fx.failTimes("down b", 1)
		fx.log = nil
		b := fx.agent()
		defer b.stop()
		r = b.restore()[0]
		<-r.Unwound()
		equal(t, "hooks", fx.logged(), []string{"down b", "down b"})
		if u := b.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

func TestRestore_ContinuesAnEarlierSetUp(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		a.allocs[1].block = true
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		b := fx.agent()
		defer b.stop()
		close(b.contacted)
		r := b.restore()[0]
		synctest.Wait()
		equal(t, "hooks", fx.logged(),
			[]string{"up a", "up b", "up a", "up b", "up web", "started web"})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

func TestRestore_RetriesAHookWhileTheTaskRuns(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := afterAgent(t, testAlloc("web"))
		fx.failTimes("up b", 3)
		fx.failTimes("up web", 2)
		fx.log = nil
		b := fx.agent()
		defer b.stop()
		b.restore()
		time.Sleep(time.Minute)
		synctest.Wait()
		u := b.last()
		if u.ClientStatus != structs.AllocRunning || fx.machine.Task("alloc1/web").Starts != 1 {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "hooks", fx.logged(), []string{"up a", "up b", "up a", "up b", "up a", "up b", "up a", "up b",
			"up web", "up web", "up web", "started web"})
	})
}

func TestRestore_KeepsASetUpFailure(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		fx.failTimes("up b", 1)
		fx.failTimes("down a", 1000)
		a.new(testAlloc("web"))
		synctest.Wait()
		a.stop()
		fx.fail = map[string]func() error{}
		b := fx.agent()
		defer b.stop()
		r := b.restore()[0]
		<-r.Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocFailed ||
			!strings.Contains(u.ClientDescription, "hook b") {
			t.Errorf("%s: %s", u.ClientStatus, u.ClientDescription)
		}
	})
}

// A task has put a link in the place of a directory. The allocation runs on, and fails with its task, beside
// an agent or between two of them.
func TestRestore_FailsWithoutADirectoryWhenTheTaskEnds(t *testing.T) {
	for _, between := range []bool{false, true} {
		inVirtualTime(t, func(t *testing.T) {
			fx := afterAgent(t, testAlloc("web"))
			b := fx.agent()
			close(b.contacted)
			data := filepath.Join(b.deps.Dir, "alloc1/alloc/data")
			err := errors.Join(os.Remove(data), os.Symlink("/none", data))
			if err != nil {
				t.Fatal(err)
			}
			r := b.restore()[0]
			time.Sleep(time.Hour)
			synctest.Wait()
			if u := b.last(); u.ClientStatus != structs.AllocRunning {
				t.Errorf("while its task runs, it is %s", u.ClientStatus)
			}
			if between {
				b.stop()
			}
			fx.machine.Exit("alloc1/web", exitResult(1))
			if between {
				b = fx.agent()
				close(b.contacted)
				r = b.restore()[0]
			}
			defer func() { b.stop() }()
			<-r.Unwound()
			u := b.last()
			if u.ClientStatus != structs.AllocFailed ||
				!strings.Contains(u.ClientDescription, "alloc/data is not a directory") {
				t.Errorf("between two agents %t: it is %s: %s", between, u.ClientStatus, u.ClientDescription)
			}
		})
	}
}

// The agent is killed after it has recorded the end of a task, before it has recorded that the task is dead.
func TestRestore_StartsNoTaskAgainWhoseEndIsRecorded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		alloc := testAlloc("web")
		alloc.Job.Type = structs.JobBatch
		_, err := New(a.deps, alloc)
		if err != nil {
			t.Fatal(err)
		}
		err = editRecord(a.db, "web", func(rec *savedTask) {
			rec.State.State = structs.TaskRunning
			rec.Ran = true
			rec.Ended = &driver.ExitResult{}
		})
		if err != nil {
			t.Fatal(err)
		}
		a.stop()
		b := fx.agent()
		defer b.stop()
		<-b.restore()[0].Unwound()
		if u := b.last(); u.ClientStatus != structs.AllocComplete || fx.machine.Task("alloc1/web").Starts != 0 {
			t.Errorf("status %s after %d starts", u.ClientStatus, fx.machine.Task("alloc1/web").Starts)
		}
	})
}

func TestRestore_FindsATaskWithoutARecordedHandle(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		_, err := New(a.deps, testAlloc("web"))
		if err != nil {
			t.Fatal(err)
		}
		d, _ := a.deps.Drivers.Driver("fake")
		if err := editRecord(a.db, "web", func(rec *savedTask) {
			rec.Starting = true
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Start(context.Background(), &driver.TaskConfig{ID: "alloc1/web"}); err != nil {
			t.Fatal(err)
		}
		a.stop()
		b := fx.agent()
		b.restore()
		synctest.Wait()
		u := b.last()
		if u.ClientStatus != structs.AllocRunning || fx.machine.Task("alloc1/web").Starts != 1 {
			t.Errorf("status %s", u.ClientStatus)
		}
		if s := u.TaskStates["web"]; !s.StartedAt.Equal(time.Now()) {
			t.Errorf("the task runs since %s, and its start was found at %s", s.StartedAt, time.Now())
		}
		b.stop()
	})
}

// Each start of a task has the environment of its hooks: the first one, one by the restart policy, and one by
// the next agent.
func TestTaskHooks_SetTheEnvironmentOfEachStart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		alloc := testAlloc("web")
		policy := alloc.Job.TaskGroups[0].RestartPolicy
		policy.Attempts = 5
		a.new(alloc)
		starts := 0
		wantEnv := func() {
			t.Helper()
			synctest.Wait()
			starts++
			task := fx.machine.Task("alloc1/web")
			env := task.Config.Env
			if task.Starts != starts || env["HOOK"] != "web" || env["NOMAD_TASK_NAME"] != "web" {
				t.Errorf("start %d has the environment %q", task.Starts, env)
			}
		}
		wantEnv()
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(policy.Delay)
		wantEnv()
		a.stop()
		b := fx.agent()
		defer func() { b.stop() }()
		close(b.contacted)
		r := b.restore()[0]
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(policy.Delay)
		wantEnv()
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}

// savedTask is the record of a task in the store.
type savedTask struct {
	State    *structs.TaskState
	Starting bool
	Handle   *driver.Handle
	Begun    []string
	History  lifecycle.History
	Ran      bool
	Ended    *driver.ExitResult
}

// editRecord edits the record of a task of alloc1.
func editRecord(db *store.DB, task string, edit func(*savedTask)) error {
	table := store.NewTable[savedTask]("alloc_tasks")
	rec, err := table.Get(db, store.Key("alloc1", task))
	if err != nil {
		return err
	}
	edit(rec)
	return table.Put(db, store.Key("alloc1", task), rec)
}
