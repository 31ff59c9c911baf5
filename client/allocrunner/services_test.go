package allocrunner

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// serviceAlloc is deployedAlloc with a task that has a service with a script as its check.
func serviceAlloc() *structs.Allocation {
	a := deployedAlloc("web")
	a.Job.TaskGroups[0].Tasks[0].Services = []*structs.Service{{
		Name: "web",
		Checks: []*structs.ServiceCheck{{
			Name:     "look",
			Type:     structs.CheckScript,
			Command:  "look",
			TaskName: "web",
			Interval: time.Second,
			Timeout:  time.Second,
			OnUpdate: structs.OnUpdateRequireHealthy,
		}},
	}}
	return a
}

// withFailingScripts is a fixture in which the scripts in all tasks end with a code, at first with 2.
func withFailingScripts(t *testing.T) (fx *fixture, code *atomic.Int64) {
	fx = newFixture(t)
	code = &atomic.Int64{}
	code.Store(2)
	fx.machine.Command = func(context.Context, string, *driver.ExecConfig) (*driver.ExitResult, error) {
		return &driver.ExitResult{ExitCode: int(code.Load())}, nil
	}
	return fx, code
}

// wantServices checks the number of services in the last report.
func (a *agent) wantServices(t *testing.T, when string, want int) {
	t.Helper()
	synctest.Wait()
	if got := len(a.last().Services); got != want {
		t.Errorf("%s: the report has %d services, want %d", when, got, want)
	}
}

func TestServices_CountForTheHealth(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx, code := withFailingScripts(t)
		a := fx.agent()
		defer a.stop()
		a.new(serviceAlloc())
		time.Sleep(20*time.Second + time.Millisecond)
		a.wantHealth(t, "")
		code.Store(0) // seen in second 21
		time.Sleep(10 * time.Second)
		a.wantHealth(t, "")
		time.Sleep(time.Second)
		a.wantHealth(t, "healthy")
	})
}

func TestServices_CountForTheHealthWithoutADeployment(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx, _ := withFailingScripts(t)
		a := fx.agent()
		defer a.stop()
		alloc := serviceAlloc()
		alloc.Job.TaskGroups[0].Migrate = migratedAlloc().Job.TaskGroups[0].Migrate
		alloc.DeploymentID = ""
		a.new(alloc)
		time.Sleep(59 * time.Second)
		a.wantHealth(t, "")
		time.Sleep(time.Second + time.Millisecond)
		a.wantHealth(t, "unhealthy")
	})
}

// Without a deployment, an allocation whose checks pass again becomes healthy after its deadline, too. Its
// health is reported when it changes, and an agent that restarts goes on.
func TestServices_MendTheHealthWithoutADeployment(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		inVirtualTime(t, func(t *testing.T) {
			fx, code := withFailingScripts(t)
			a := fx.agent()
			defer func() { a.stop() }()
			alloc := serviceAlloc()
			alloc.Job.TaskGroups[0].Migrate = migratedAlloc().Job.TaskGroups[0].Migrate
			alloc.DeploymentID = ""
			r := a.new(alloc)
			time.Sleep(time.Minute + time.Millisecond)
			a.wantHealth(t, "unhealthy")
			at := r.record.health().At
			time.Sleep(time.Hour)
			a.wantHealth(t, "unhealthy")
			if !r.record.health().At.Equal(at) {
				t.Error("the same health is decided on again")
			}
			if restarts {
				a.stop()
				a = fx.agent()
				a.restore()
			}
			code.Store(0) // seen within a second
			time.Sleep(9 * time.Second)
			a.wantHealth(t, "unhealthy")
			time.Sleep(3 * time.Second)
			a.wantHealth(t, "healthy")
			code.Store(1)
			time.Sleep(time.Hour)
			a.wantHealth(t, "healthy")
		})
	}
}

func TestServices_DoNotCountForTheHealthByTasks(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx, _ := withFailingScripts(t)
		a := fx.agent()
		defer a.stop()
		alloc := serviceAlloc()
		alloc.Job.TaskGroups[0].Update.HealthCheck = structs.HealthTaskStates
		a.new(alloc)
		time.Sleep(10*time.Second + time.Millisecond)
		a.wantHealth(t, "healthy")
	})
}

func TestServices_FollowAnotherVersionOfTheJob(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		r := a.new(serviceAlloc())
		a.wantServices(t, "of the first version", 1)
		alloc := serviceAlloc()
		alloc.Job.TaskGroups[0].Tasks[0].Services[0].Tags = []string{"of-${NOMAD_TASK_NAME}"}
		if err := r.Update(alloc); err != nil {
			t.Fatal(err)
		}
		a.wantServices(t, "of the second version", 1)
		if tags := a.last().Services[0].Tags; !slices.Equal(tags, []string{"of-web"}) {
			t.Errorf("the tags of the second version are %q", tags)
		}
	})
}

func TestServices_AreWithdrawnBeforeTheDelays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := serviceAlloc()
		g := alloc.Job.TaskGroups[0]
		delay := 10 * time.Second
		g.ShutdownDelay = &delay
		g.Tasks[0].ShutdownDelay = delay
		r := a.new(alloc)
		a.wantServices(t, "while it runs", 1)
		if err := r.RestartTasks("web"); err != nil {
			t.Fatal(err)
		}
		a.wantServices(t, "in the delay of the task", 0)
		fx.wantRunning(t, "web")
		time.Sleep(delay)
		a.wantServices(t, "after the restart", 1)
		if err := r.RestartAll(); err != nil {
			t.Fatal(err)
		}
		a.wantServices(t, "in the delay of the group", 0)
		fx.wantRunning(t, "web")
		time.Sleep(2 * delay)
		a.wantServices(t, "after the restart of all tasks", 1)
		r.Stop("enough")
		a.wantServices(t, "in the delay of a stop", 0)
		fx.wantRunning(t, "web")
	})
}

func TestServices_EndWithTheProcess(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(serviceAlloc())
		a.wantServices(t, "while it runs", 1)
		fx.machine.Exit("alloc1/web", exitResult(1))
		a.wantServices(t, "after the exit", 0)
		time.Sleep(6 * time.Second)
		a.wantServices(t, "after the restart", 1)
	})
}

func TestCheckRestart_RestartsTheTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx, code := withFailingScripts(t)
		a := fx.agent()
		defer a.stop()
		alloc := serviceAlloc()
		grace := 2 * time.Second
		check := alloc.Job.TaskGroups[0].Tasks[0].Services[0].Checks[0]
		check.CheckRestart = &structs.CheckRestart{Limit: 2, Grace: &grace}
		a.new(alloc)
		time.Sleep(4 * time.Second)
		code.Store(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		said := eventMessages(a.last().TaskStates["web"])
		if got := fx.machine.Task("alloc1/web").Starts; got != 2 {
			t.Errorf("%d starts, want 2: %s", got, said)
		}
		if want := `healthcheck: check "look" unhealthy`; !strings.Contains(said, want) {
			t.Errorf("the events have no %q: %s", want, said)
		}
	})
}

func TestServices_OfARestoredTaskAreInTheFirstReport(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		a.new(serviceAlloc())
		a.wantServices(t, "while it runs", 1)
		a.stop()
		a.wantServices(t, "at the end of the agent", 1)
		b := fx.agent()
		b.allocs[0].block = true // the hooks of the allocation are not up for long
		b.restore()
		synctest.Wait()
		offered := false
		for _, u := range b.updates {
			offered = offered || len(u.Services) == 1
			if u.ClientStatus == structs.AllocRunning && offered != (len(u.Services) == 1) {
				t.Errorf("a report of the restored agent lacks the service: %+v", u)
			}
		}
		if !offered {
			t.Error("the restored agent does not offer the service before the hooks are up")
		}
		close(b.contacted)
		fx.machine.Exit("alloc1/web", exitResult(1))
		b.wantServices(t, "after the exit, before the hooks are up", 0)
		b.stop()
	})
}
