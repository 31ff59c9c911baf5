package allocrunner

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// deployedAlloc is an allocation of a deployment, healthy after 10 s and unhealthy after a minute.
func deployedAlloc(tasks ...string) *structs.Allocation {
	a := testAlloc(tasks...)
	a.DeploymentID = "d1"
	a.Job.TaskGroups[0].Update = &structs.UpdateStrategy{
		MaxParallel:     1,
		HealthCheck:     structs.HealthChecks,
		MinHealthyTime:  10 * time.Second,
		HealthyDeadline: time.Minute,
	}
	return a
}

// wantHealth checks the last reported health: "", "healthy" or "unhealthy".
func (a *agent) wantHealth(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	u := a.last()
	got := ""
	switch {
	case u.DeploymentStatus.IsHealthy():
		got = "healthy"
	case u.DeploymentStatus.IsUnhealthy():
		got = "unhealthy"
	}
	if got != want {
		t.Errorf("the health is %q, want %q", got, want)
	}
}

// migratedAlloc is an allocation of no deployment. Its group leaves draining nodes with the rule of
// deployedAlloc.
func migratedAlloc(tasks ...string) *structs.Allocation {
	a := deployedAlloc(tasks...)
	g := a.Job.TaskGroups[0]
	g.Migrate = &structs.MigrateStrategy{
		MaxParallel:     1,
		HealthCheck:     g.Update.HealthCheck,
		MinHealthyTime:  g.Update.MinHealthyTime,
		HealthyDeadline: g.Update.HealthyDeadline,
	}
	g.Update = nil
	a.DeploymentID = ""
	return a
}

func TestHealth_IsThatOfTheDeployment(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(deployedAlloc("one"))
		time.Sleep(10 * time.Second)
		a.wantHealth(t, "healthy")
		if u := a.last(); u.DeploymentID != "d1" {
			t.Errorf("the health is that of deployment %q", u.DeploymentID)
		}
	})
}

// A drain waits for the health of successors, which are in no deployment.
func TestHealth_IsDecidedWithoutADeployment(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(migratedAlloc("one", "two"))
		fx.wantRunning(t, "one", "two")
		time.Sleep(9 * time.Second)
		a.wantHealth(t, "")
		time.Sleep(time.Second)
		a.wantHealth(t, "healthy")
		if u := a.last(); u.DeploymentID != "" {
			t.Errorf("the health is that of deployment %q", u.DeploymentID)
		}
	})
}

// The servers have recorded that an allocation is unhealthy. In no deployment, it is healthy when its tasks
// have run for long enough after all.
func TestHealth_RecoversWithoutADeployment(t *testing.T) {
	for deployment, want := range map[string]string{"": "healthy", "d1": "unhealthy"} {
		inVirtualTime(t, func(t *testing.T) {
			fx := newFixture(t)
			a := fx.agent()
			defer a.stop()
			alloc := migratedAlloc("one")
			if deployment != "" {
				alloc = deployedAlloc("one")
				alloc.Job.TaskGroups[0].Update.MinHealthyTime = 50 * time.Second
			} else {
				alloc.Job.TaskGroups[0].Migrate.MinHealthyTime = 50 * time.Second
			}
			r := a.new(alloc)
			time.Sleep(30 * time.Second)
			fx.machine.Exit("alloc1/one", exitResult(1))
			time.Sleep(30 * time.Second) // it has run for 25 s then
			a.wantHealth(t, "unhealthy")
			next := *alloc
			next.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: new(false)}
			err := r.Update(&next)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(24 * time.Second)
			a.wantHealth(t, "unhealthy")
			time.Sleep(time.Second)
			a.wantHealth(t, want)
		})
	}
}

// The servers forget the health of an allocation that they update in place, also if no deployment counts it.
// They are told again, and an agent that restarts remembers it.
func TestHealth_WithoutADeploymentIsThatOfOneVersion(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		alloc := migratedAlloc("one")
		r := a.new(alloc)
		time.Sleep(10 * time.Second)
		a.wantHealth(t, "healthy")
		a.mu.Lock()
		told := len(a.updates)
		a.mu.Unlock()
		next := *alloc
		next.JobVersion++
		if err := r.Update(&next); err != nil {
			t.Fatal(err)
		}
		a.wantHealth(t, "healthy")
		a.mu.Lock()
		if len(a.updates) == told {
			t.Error("the health of the new version is not told")
		}
		a.mu.Unlock()
		a.stop()
		b := fx.agent()
		defer b.stop()
		b.restore()
		b.wantHealth(t, "healthy")
	})
}

func TestHealth_NeedsTheMinimumTimeWithoutARestart(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(deployedAlloc("one", "two"))
		fx.wantRunning(t, "one", "two")
		time.Sleep(9 * time.Second)
		a.wantHealth(t, "")
		fx.machine.Exit("alloc1/one", exitResult(1))
		time.Sleep(5 * time.Second) // until the restart
		fx.wantRunning(t, "one", "two")
		time.Sleep(9 * time.Second)
		a.wantHealth(t, "")
		time.Sleep(time.Second)
		a.wantHealth(t, "healthy")
	})
}

func TestHealth_EndsWithTheDeadline(t *testing.T) {
	for _, alloc := range []*structs.Allocation{deployedAlloc("one"), migratedAlloc("one")} {
		inVirtualTime(t, func(t *testing.T) {
			fx := newFixture(t)
			a := fx.agent()
			defer a.stop()
			alloc.Job.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "p"} // never healthy
			a.new(alloc)
			fx.wantRunning(t, "one")
			time.Sleep(59 * time.Second)
			a.wantHealth(t, "")
			time.Sleep(time.Second)
			a.wantHealth(t, "unhealthy")
		})
	}
}

// Once it is known, the health stays: what happens later is not the fault of the deployment.
func TestHealth_StaysOnceItIsKnown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.new(deployedAlloc("one", "two"))
		fx.wantRunning(t, "one", "two")
		fx.machine.Exit("alloc1/one", ok)
		time.Sleep(20 * time.Second)
		fx.machine.Exit("alloc1/one", exitResult(1))
		a.wantHealth(t, "healthy")
	})
}

// An operator decides instead of the node.
func TestHealth_IsLeftToTheOperator(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := deployedAlloc("one")
		alloc.Job.TaskGroups[0].Update.HealthCheck = structs.HealthManual
		a.new(alloc)
		time.Sleep(time.Hour)
		a.wantHealth(t, "")
	})
}

// The next deployment of an allocation that is updated in place decides anew. An agent that restarts
// remembers the decision.
func TestHealth_IsThatOfOneDeployment(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		alloc := deployedAlloc("one")
		r := a.new(alloc)
		time.Sleep(10 * time.Second)
		a.wantHealth(t, "healthy")
		next := *alloc
		next.DeploymentID = "d2"
		if err := r.Update(&next); err != nil {
			t.Fatal(err)
		}
		a.wantHealth(t, "healthy")
		if u := a.last(); u.DeploymentID != "d2" {
			t.Errorf("the health is still that of deployment %s", u.DeploymentID)
		}
		a.stop()
		b := fx.agent()
		defer b.stop()
		b.restore()
		b.wantHealth(t, "healthy")
	})
}

// A task may end while the health is reported. The servers would keep the state before that for ever if it
// came last.
func TestHealth_IsReportedBeforeNewerStates(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		var runner atomic.Pointer[Runner]
		var reports atomic.Int64
		var newer sync.WaitGroup
		note := a.deps.Changed
		a.deps.Changed = func(u *structs.AllocClientUpdate) {
			if u.DeploymentStatus.IsHealthy() && reports.Add(1) == 1 {
				newer.Go(func() { runner.Load().notifyChanged() })
				for range 100_000 {
					runtime.Gosched()
				}
				if n := reports.Load(); n > 1 {
					t.Errorf("%d newer states have overtaken that with the health", n-1)
				}
			}
			note(u)
		}
		runner.Store(a.new(deployedAlloc("one")))
		time.Sleep(10 * time.Second)
		a.wantHealth(t, "healthy")
		newer.Wait()
		if reports.Load() == 0 {
			t.Error("no report has the health")
		}
	})
}
