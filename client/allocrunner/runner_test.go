package allocrunner

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
)

func TestRunner_RunsAnAllocationFromUpToDown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(asBatch(testAlloc("web")))
		synctest.Wait()
		if got := a.last().ClientStatus; got != structs.AllocRunning {
			t.Fatalf("status %s, want running", got)
		}
		fx.failTimes("down b", 1) // keeps the runner at its Downs
		fx.machine.Exit("alloc1/web", ok)
		synctest.Wait()
		if got := a.last().ClientStatus; got != structs.AllocComplete {
			t.Errorf("status %s while hooks go down, want complete", got)
		}
		if isClosed(r.Unwound()) {
			t.Error("unwound although a hook is not down")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !isClosed(r.Unwound()) {
			t.Error("not unwound after the second try")
		}
		equal(t, "hooks", fx.logged(), []string{"up a", "up b", "up web", "started web",
			"stopped (process ended) web",
			"down web", "down b", "down a", "down b"})
		equal(t, "events", eventsOf(a.last().TaskStates["web"]),
			[]string{"Received", "Started", "Terminated"})
		equal(t, "driver", fx.machine.Log(),
			[]string{"start alloc1/web", "destroy alloc1/web"})
		if !exists(filepath.Join(r.Dir(), "alloc", "logs")) {
			t.Error("the logs are gone before the allocation is destroyed")
		}
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
		if exists(r.Dir()) {
			t.Error("the directory is left after Destroy")
		}
		if saved, err := Saved(a.db); err != nil || len(saved) != 0 {
			t.Errorf("records left: %v, %v", saved, err)
		}
	})
}

func TestRunner_PassesOnTheEventsOfDrivers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(asBatch(testAlloc("web", "side")))
		synctest.Wait()
		if !fx.machine.Emit("alloc1/web", driverEvent("image is pulled")) {
			t.Fatal("nobody follows the task")
		}
		synctest.Wait()
		equal(t, "events of web", eventsOf(a.last().TaskStates["web"]), []string{"Received", "Started", "Driver"})
		equal(t, "events of side", eventsOf(a.last().TaskStates["side"]), []string{"Received", "Started"})
		fx.machine.Exit("alloc1/web", ok)
		synctest.Wait()
		if fx.machine.Emit("alloc1/web", driverEvent("late")) {
			t.Error("a task that has ended is followed")
		}
	})
}

func TestRunner_AFailedUpGoesDownInReverse(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.allocs = append(a.allocs, &testHook{fx: fx, name: "c"})
		fx.failTimes("up b", 1)
		fx.failTimes("down b", 2) // a's Down is called in spite of that
		r := a.new(testAlloc("web", "side"))
		synctest.Wait()
		u := a.last()
		if u.ClientStatus != structs.AllocFailed ||
			!strings.Contains(u.ClientDescription, "hook b: up b does not work") {
			t.Errorf("%s: %s", u.ClientStatus, u.ClientDescription)
		}
		for name, s := range u.TaskStates {
			e := s.Events[len(s.Events)-1]
			if !s.Failed || e.Type != structs.TaskEventSetupFailure || !e.FailsTask ||
				!strings.Contains(e.Message, "hook b") {
				t.Errorf("task %s: %+v", name, e)
			}
		}
		time.Sleep(time.Second + 2*time.Second)
		synctest.Wait()
		if !isClosed(r.Unwound()) {
			t.Error("not unwound")
		}
		equal(t, "hooks", fx.logged(),
			[]string{"up a", "up b", "down b", "down a", "down b", "down b"})
		equal(t, "driver", fx.machine.Log(), nil)
	})
}

func TestRunner_StopInterruptsAnUp(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.allocs[1].block = true
		r := a.new(testAlloc("web"))
		synctest.Wait()
		if err := r.Update(stoppedAlloc(testAlloc("web"))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		u := a.last()
		if u.ClientStatus != structs.AllocComplete || !isClosed(r.Unwound()) {
			t.Errorf("status %s, unwound %v", u.ClientStatus, isClosed(r.Unwound()))
		}
		equal(t, "hooks", fx.logged(), []string{"up a", "up b", "down b", "down a"})
		equal(t, "driver", fx.machine.Log(), nil)
	})
}

func stoppedAlloc(a *structs.Allocation) *structs.Allocation {
	a.DesiredStatus, a.AllocModifyIndex = structs.AllocDesiredStop, 2
	return a
}

func TestRunner_AFailedTaskFailsItsSiblings(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web", "side"))
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(3))
		synctest.Wait()
		s := a.last().TaskStates["web"]
		if s.State != structs.TaskPending || s.Restarts != 1 {
			t.Errorf("after the first failure: %+v", s)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := fx.machine.Task("alloc1/web").Starts; got != 2 {
			t.Fatalf("%d starts, want 2", got)
		}
		fx.machine.Exit("alloc1/web", exitResult(3))
		synctest.Wait()
		u := a.last()
		if u.ClientStatus != structs.AllocFailed || !isClosed(r.Unwound()) {
			t.Errorf("status %s", u.ClientStatus)
		}
		equal(t, "events of the failed", eventsOf(u.TaskStates["web"]),
			[]string{"Received", "Started", "Terminated", "Restarting", "Started", "Terminated", "Not Restarting"})
		equal(t, "events of its sibling", eventsOf(u.TaskStates["side"]),
			[]string{"Received", "Started", "Sibling Task Failed", "Killing", "Killed"})
		if len(fx.machine.Held()) > 0 {
			t.Errorf("held: %v", fx.machine.Held())
		}
	})
}

func TestRunner_StopsTheLeaderFirstWithTheTasksSignal(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := testAlloc("follower", "leader")
		g := alloc.Job.TaskGroups[0]
		delay := 10 * time.Second
		g.ShutdownDelay = &delay
		leader := g.Tasks[1]
		leader.Leader = true
		leader.KillSignal = "int" // as valid as SIGINT
		leader.ShutdownDelay = 3 * time.Second
		r := a.new(alloc)
		synctest.Wait()
		begin := time.Now()
		r.Stop("enough")
		time.Sleep(12 * time.Second)
		synctest.Wait()
		if got := fx.machine.Running(); len(got) != 2 {
			t.Errorf("running before the delays are over: %v", got)
		}
		<-r.Unwound()
		if took := time.Since(begin); took != 13*time.Second {
			t.Errorf("took %s, want 13s", took)
		}
		log := fx.machine.Log()
		equal(t, "order", log[2:], []string{"stop alloc1/leader", "destroy alloc1/leader", "stop alloc1/follower",
			"destroy alloc1/follower"})
		if got := fx.machine.Task("alloc1/leader"); got.Signal != "SIGINT" || got.Timeout != 7*time.Second {
			t.Errorf("signal %s, timeout %s", got.Signal, got.Timeout)
		}
		if u := a.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

func TestRunner_StopEndsTheWaitForARestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(time.Second)
		synctest.Wait()
		r.Stop("enough")
		synctest.Wait()
		if u := a.last(); u.ClientStatus != structs.AllocComplete || !isClosed(r.Unwound()) ||
			fx.machine.Task("alloc1/web").Starts != 1 {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

func TestRunner_TheLeadersEndEndsTheOthers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := asBatch(testAlloc("main", "side"))
		alloc.Job.TaskGroups[0].Tasks[0].Leader = true
		r := a.new(alloc)
		synctest.Wait()
		fx.machine.Exit("alloc1/main", ok)
		<-r.Unwound()
		equal(t, "events", eventsOf(a.last().TaskStates["side"]), []string{"Received", "Started",
			"Leader Task Dead", "Killing", "Killed"})
		if u := a.last(); u.ClientStatus != structs.AllocComplete {
			t.Errorf("status %s", u.ClientStatus)
		}
	})
}

// A plugin is a service: its supervisor has it restarted under the task's restart policy.
func TestDuty_A14_AHookMayRestartItsTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(testAlloc("web"))
		synctest.Wait()
		a.tasks["web"].control.Emit(&structs.TaskEvent{
			Type:    structs.TaskEventPluginHealthy,
			Message: "hello",
		})
		a.tasks["web"].control.Restart("not healthy in time")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		equal(t, "events", eventsOf(a.last().TaskStates["web"]), []string{"Received", "Started",
			"Plugin became healthy",
			"Restart Signaled", "Terminated", "Restarting", "Started"})
		equal(t, "hooks", fx.logged(), []string{"up a", "up b", "up web", "started web",
			"stopped (process ended) web", "up web", "started web"})
	})
}

func TestTask_DropsARestartRequestOfAnEndedProcess(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(1))
		synctest.Wait()
		r.record.tasks[0].Control.Restart("too late")
		time.Sleep(time.Minute)
		synctest.Wait()
		got := fx.machine.Task("alloc1/web")
		if got.Starts != 2 || got.Result != nil {
			t.Errorf("%d starts, %v", got.Starts, got.Result)
		}
	})
}

func TestTask_AFailedStartIsFinalOrRetried(t *testing.T) {
	for _, tc := range []struct {
		name   string
		break_ func(fx *fixture, alloc *structs.Allocation)
		starts int
		events []string
	}{
		{"a config that is wrong",
			func(_ *fixture, a *structs.Allocation) { a.Job.TaskGroups[0].Tasks[0].Config["invalid"] = 1 },
			0, []string{"Received", "Driver Failure", "Not Restarting"}},
		{"a driver that does not exist",
			func(_ *fixture, a *structs.Allocation) { a.Job.TaskGroups[0].Tasks[0].Driver = "none" },
			0, []string{"Received", "Driver Failure", "Not Restarting"}},
		{"a user that is denied",
			func(_ *fixture, a *structs.Allocation) { a.Job.TaskGroups[0].Tasks[0].User = "${NOMAD_TASK_NAME}" },
			0, []string{"Received", "Setup Failure", "Not Restarting"}},
		{"a start that fails", func(fx *fixture, _ *structs.Allocation) {
			fx.machine.Before = func(p string) error {
				if strings.HasPrefix(p, "start") {
					return errors.New("no memory")
				}
				return nil
			}
		}, 0, []string{"Received", "Driver Failure", "Restarting", "Driver Failure", "Not Restarting"}},
		{"a hook that fails once", func(fx *fixture, _ *structs.Allocation) { fx.failTimes("up web", 1) },
			1, []string{"Received", "Task hook failed", "Restarting", "Started"}},
		{"a hook that names its event", func(fx *fixture, _ *structs.Allocation) {
			fx.fail["up web"] = func() error {
				return &hooks.Failure{Event: "Failed Artifact Download", Err: structs.Invalidf("no such source")}
			}
		}, 0, []string{"Received", "Failed Artifact Download", "Not Restarting"}},
		{"a hook that fails for good", func(fx *fixture, _ *structs.Allocation) {
			fx.fail["up web"] = func() error {
				return &hooks.Failure{Event: "Setup Failure", Final: true, Err: structs.Timeoutf("no answer")}
			}
		}, 0, []string{"Received", "Setup Failure", "Not Restarting"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				alloc := testAlloc("web")
				tc.break_(fx, alloc)
				r := a.new(alloc)
				time.Sleep(time.Minute)
				synctest.Wait()
				equal(t, "events", eventsOf(a.last().TaskStates["web"]), tc.events)
				if got := fx.machine.Task("alloc1/web").Starts; got != tc.starts {
					t.Errorf("%d starts, want %d", got, tc.starts)
				}
				if tc.starts == 0 && (!isClosed(r.Unwound()) || len(fx.up) > 0) {
					t.Errorf("unwound %v, up %v", isClosed(r.Unwound()), fx.up)
				}
			})
		})
	}
}

func TestTask_DestroysRemainsBeforeAStart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(testAlloc("web"))
		synctest.Wait()
		tries := 0
		fx.machine.Before = func(p string) error {
			if p == "destroy alloc1/web" {
				tries++
				if tries <= 3 {
					return errors.New("busy")
				}
			}
			return nil
		}
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(time.Minute)
		synctest.Wait()
		equal(t, "driver", fx.machine.Log(),
			[]string{"start alloc1/web", "destroy alloc1/web", "start alloc1/web"})
		if tries != 4 {
			t.Errorf("%d tries to destroy", tries)
		}
	})
}

func TestRunner_AnUpdateInPlaceDoesNotRestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		next := testAlloc("web")
		next.AllocModifyIndex, next.JobVersion = 5, 1
		next.Job.TaskGroups[0].Tasks[0].Config["command"] = "new ${NOMAD_TASK_NAME}"
		if err := r.Update(next); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := fx.machine.Task("alloc1/web"); got.Starts != 1 || r.Alloc().AllocModifyIndex != 5 {
			t.Errorf("%d starts at index %d", got.Starts, r.Alloc().AllocModifyIndex)
		}
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := fx.machine.Task("alloc1/web"); got.Starts != 2 || got.Config.Config["command"] != "new web" {
			t.Errorf("the next start: got %d, %v", got.Starts, got.Config.Config)
		}
	})
}

func TestVolumeMounts_MountTheAllocationsVolumes(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.allocs[0].setup = func(env *hooks.AllocEnv) {
			env.SetVolume("data", hooks.VolumeMount{HostPath: "/host/data"})
			env.SetVolume("ro", hooks.VolumeMount{HostPath: "/host/ro", ReadOnly: true})
			env.SetVolume("disk", hooks.VolumeMount{HostPath: "/host/disk", Device: true})
		}
		alloc := testAlloc("web")
		alloc.Job.TaskGroups[0].Tasks[0].VolumeMounts = []*structs.VolumeMount{
			{Volume: "data", Destination: "/srv/${NOMAD_ALLOC_INDEX}", PropagationMode: "host-to-task"},
			{Volume: "data", Destination: "local/view", ReadOnly: true},
			{Volume: "ro", Destination: "/ro"}, {Volume: "disk", Destination: "/dev/disk0"},
		}
		a.new(alloc)
		synctest.Wait()
		want := []driver.Mount{
			{HostPath: "/host/data", TaskPath: "/srv/0", Propagation: "host-to-task", Volume: "data"},
			{HostPath: "/host/data", TaskPath: "/local/view", ReadOnly: true, Volume: "data"},
			{HostPath: "/host/ro", TaskPath: "/ro", ReadOnly: true, Volume: "ro"},
			{HostPath: "/host/disk", TaskPath: "/dev/disk0", Device: true, Volume: "disk"},
		}
		cfg := fx.machine.Task("alloc1/web").Config
		if !slices.Equal(cfg.Mounts, want) {
			t.Errorf("mounts:\n got %+v\nwant %+v", cfg.Mounts, want)
		}
		if cfg.Env["HOOK"] != "web" {
			t.Error("the driver does not get the environment of a hook")
		}
	})
}

func TestVolumeMounts_FailWithoutTheirVolume(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := testAlloc("web")
		alloc.Job.TaskGroups[0].Tasks[0].VolumeMounts = []*structs.VolumeMount{{Volume: "nope", Destination: "/x"}}
		r := a.new(alloc)
		<-r.Unwound()
		s := a.last().TaskStates["web"]
		e := s.Events[len(s.Events)-1]
		if !s.Failed || !strings.Contains(e.Message, `no volume "nope"`) {
			t.Errorf("%+v", e)
		}
	})
}

func TestRunner_DescribesAPendingAllocationByItsProgress(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.allocs[0].block = true
		r := a.new(testAlloc("web"))
		synctest.Wait()
		r.SetProgress("volume v: waits for its writer")
		if u := a.last(); u.ClientStatus != structs.AllocPending ||
			u.ClientDescription != "volume v: waits for its writer" {
			t.Errorf("%s: %s", u.ClientStatus, u.ClientDescription)
		}
	})
}

func driverEvent(message string) *structs.TaskEvent {
	return &structs.TaskEvent{Type: structs.TaskEventDriver, Message: message}
}
