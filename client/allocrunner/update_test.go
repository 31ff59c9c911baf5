package allocrunner

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/client/drivers/driver"
	"berth/structs"
)

// updated is an allocation of a newer version of its job, whose group is edited.
func updated(alloc *structs.Allocation, edit func(*structs.TaskGroup)) *structs.Allocation {
	a := alloc.Copy()
	job := *alloc.Job
	job.Version++
	g := *job.TaskGroups[0]
	g.Tasks = nil
	for _, t := range job.TaskGroups[0].Tasks {
		own := *t
		g.Tasks = append(g.Tasks, &own)
	}
	edit(&g)
	job.TaskGroups = []*structs.TaskGroup{&g}
	a.Job = &job
	a.JobVersion = job.Version
	a.AllocModifyIndex++
	return a
}

// A running task ends as the newest version says, also under the next agent, and is not restarted for it.
func TestUpdate_ChangesTheEndOfARunningTask(t *testing.T) {
	for name, restart := range map[string]bool{"one agent": false, "the next agent": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				alloc := testAlloc("web")
				r := a.new(alloc)
				synctest.Wait()
				next := updated(alloc, func(g *structs.TaskGroup) {
					g.ShutdownDelay = new(time.Hour)
					g.Tasks[0].ShutdownDelay = time.Minute
					g.Tasks[0].KillTimeout = 20 * time.Second
					g.Tasks[0].KillSignal = "SIGUSR1"
				})
				mustUpdate(t, r, next)
				if restart {
					a.stop()
					a = fx.agent()
					close(a.contacted)
					r = a.restore()[0]
				}
				defer a.stop()
				synctest.Wait()
				fx.wantRunning(t, "web")
				fx.wantStarts(t, map[string]int{"web": 1})
				mustUpdate(t, r, stopped(next, false))
				fx.wantEndAfter(t, r, time.Hour+time.Minute)
				got := fx.machine.Task("alloc1/web")
				if got.Timeout != 20*time.Second || got.Signal != "SIGUSR1" {
					t.Errorf("stopped with %s and %s", got.Signal, got.Timeout)
				}
			})
		})
	}
}

// A task that runs is restarted under the policy of the newest version.
func TestUpdate_ChangesTheRestartsOfARunningTask(t *testing.T) {
	policy := &structs.RestartPolicy{Attempts: 2, Interval: time.Hour, Delay: 30 * time.Second, Mode: "fail"}
	for name, edit := range map[string]func(*structs.TaskGroup){
		"of the group": func(g *structs.TaskGroup) { g.RestartPolicy = policy },
		"of the task":  func(g *structs.TaskGroup) { g.Tasks[0].RestartPolicy = policy },
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				alloc := testAlloc("web")
				r := a.new(alloc)
				synctest.Wait()
				mustUpdate(t, r, updated(alloc, edit))
				for starts := 1; starts <= 3; starts++ { // the former policy allows one restart, after 5 s
					fx.wantStarts(t, map[string]int{"web": starts})
					fx.machine.Exit("alloc1/web", driver.ExitResult{ExitCode: 1})
					time.Sleep(29 * time.Second)
					fx.wantStarts(t, map[string]int{"web": starts})
					time.Sleep(2 * time.Second)
					synctest.Wait()
				}
				<-r.Unwound()
				fx.wantStarts(t, map[string]int{"web": 3})
			})
		})
	}
}

// The end of a task that an update has made the leader ends the others, also if it ended before.
func TestUpdate_ChangesTheLeader(t *testing.T) {
	for name, before := range map[string]bool{"ends later": false, "has ended": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				fx := newFixture(t)
				a := fx.agent()
				defer a.stop()
				alloc := asBatch(testAlloc("main", "side"))
				r := a.new(alloc)
				synctest.Wait()
				end := func() {
					fx.machine.Exit("alloc1/main", exitResult(0))
					synctest.Wait()
				}
				if before {
					end()
				}
				fx.wantRunning(t, map[bool][]string{true: {"side"}, false: {"main", "side"}}[before]...)
				mustUpdate(t, r, updated(alloc, func(g *structs.TaskGroup) { g.Tasks[0].Leader = true }))
				if !before {
					synctest.Wait()
					fx.wantRunning(t, "main", "side")
					end()
				}
				<-r.Unwound()
				if u := a.last(); u.ClientStatus != structs.AllocComplete {
					t.Errorf("the allocation is %s", u.ClientStatus)
				}
			})
		})
	}
}
