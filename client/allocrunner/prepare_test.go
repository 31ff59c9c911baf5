package allocrunner

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/hooks"
	"berth/structs"
)

// slowHook makes the second hook of the allocation say that it is nearly up, and take a second after that.
func (a *agent) slowHook() {
	a.allocs[1].setup = func(env *hooks.AllocEnv) {
		env.NearlyUp()
		env.NearlyUp() // for another volume
		time.Sleep(time.Second)
	}
}

func TestPrepare_BesideTheLastHook(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.slowHook()
		r := a.new(testAlloc("web"))
		synctest.Wait()
		equal(t, "driver before the hook is up", fx.machine.Log(), []string{"prepare alloc1/web"})
		if got := a.last().ClientStatus; got == structs.AllocRunning {
			t.Error("the allocation runs before its hooks are up")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		fx.machine.Exit("alloc1/web", exitResult(1))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
		equal(t, "driver", fx.machine.Log(), []string{
			"prepare alloc1/web", "start alloc1/web", "destroy alloc1/web",
			"start alloc1/web", "stop alloc1/web", "destroy alloc1/web",
		})
	})
}

// TestPrepare_OnlyOfATaskThatStartsNext leaves out tasks that wait for others, and those in a network that
// the hooks make.
func TestPrepare_OnlyOfATaskThatStartsNext(t *testing.T) {
	for name, edit := range map[string]func(*structs.TaskGroup){
		"behind a prestart task": func(g *structs.TaskGroup) {
			g.Tasks[0].Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart}
		},
		"poststop": func(g *structs.TaskGroup) {
			g.Tasks[1].Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePoststop}
		},
		"in a bridge": func(g *structs.TaskGroup) {
			g.Networks = []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}}
			g.Tasks = g.Tasks[1:]
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				a.slowHook()
				alloc := asBatch(testAlloc("first", "second"))
				edit(alloc.Job.TaskGroups[0])
				r := a.new(alloc)
				synctest.Wait()
				for _, id := range fx.machine.Held() {
					if id != "alloc1/first" {
						t.Errorf("%s is prepared", id)
					}
				}
				r.Destroy()
				<-r.Reached(lifecycle.Ended)
			})
		})
	}
}

// TestPrepare_NothingIsLeftIfItIsNotNeeded ends the allocation before the start.
func TestPrepare_NothingIsLeftIfItIsNotNeeded(t *testing.T) {
	for name, end := range map[string]func(fx *fixture, r *Runner){
		"the hook fails": func(fx *fixture, _ *Runner) {
			fx.mu.Lock()
			defer fx.mu.Unlock()
			fx.failTimes("up b", 1)
		},
		"stopped": func(_ *fixture, r *Runner) { r.Stop("test") },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				a.slowHook()
				r := a.new(testAlloc("web"))
				synctest.Wait()
				end(fx, r)
				<-r.Unwound()
				equal(t, "driver", fx.machine.Log(), []string{"prepare alloc1/web", "destroy alloc1/web"})
				starting := true
				err := editRecord(a.db, "web", func(rec *savedTask) { starting = rec.Starting })
				if err != nil || starting {
					t.Error("the record says that the task starts")
				}
				r.Destroy()
				<-r.Reached(lifecycle.Ended)
			})
		})
	}
}

// TestPrepare_AFailureIsNotThatOfTheTask lets the driver fail to prepare the task: it starts it anew.
func TestPrepare_AFailureIsNotThatOfTheTask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.machine.Before = func(point string) error {
			if point == "prepare alloc1/web" {
				return structs.Unavailablef("no memory")
			}
			return nil
		}
		a := fx.agent()
		defer a.stop()
		a.slowHook()
		r := a.new(testAlloc("web"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		equal(t, "driver", fx.machine.Log(), []string{"destroy alloc1/web", "start alloc1/web"})
		r.Destroy()
		<-r.Reached(lifecycle.Ended)
	})
}
