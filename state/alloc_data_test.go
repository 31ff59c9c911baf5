package state_test

import (
	"fmt"
	"testing"
	"time"

	"berth/state"
	"berth/structs"
)

// dataFixture has a job with a sticky disk and an ended allocation of it, a, on node n1.
func dataFixture(t *testing.T, edit func(*structs.Job)) *fixture {
	w := newFixture(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		w.Node(id)
	}
	j := aJob("web", structs.JobService)
	j.TaskGroups[0].EphemeralDisk = &structs.EphemeralDisk{Sticky: true, Migrate: true}
	edit(j)
	w.Job(j)
	w.Alloc("a", "web", "n1")
	return w
}

// replace stops an allocation and places another one for it.
func (w *fixture) replace(old, id, node string) {
	w.T.Helper()
	a := state.Alloc(w.Store.Read(), old)
	j := state.Job(w.Store.Read(), a.Namespace, a.JobID)
	p := w.Plan(j)
	p.Stop = []*structs.PlanStop{{AllocID: old}}
	p.Place = []*structs.Allocation{{
		ID:                 id,
		Namespace:          j.Namespace,
		JobID:              j.ID,
		JobVersion:         j.Version,
		TaskGroup:          "g",
		Name:               a.Name,
		NodeID:             node,
		PreviousAllocation: old,
	}}
	do(w, state.PlanApply, p)
}

// stopFor stops an allocation for a cause, before a successor has a place.
func (w *fixture) stopFor(id string, cause structs.StopCause) {
	w.T.Helper()
	a := state.Alloc(w.Store.Read(), id)
	p := w.Plan(state.Job(w.Store.Read(), a.Namespace, a.JobID))
	p.Stop = []*structs.PlanStop{{AllocID: id, Cause: cause}}
	do(w, state.PlanApply, p)
}

// count changes the count of the job web, and runs it again if it was stopped.
func (w *fixture) count(n int) {
	w.T.Helper()
	next := *state.Job(w.Store.Read(), "default", "web")
	g := *next.TaskGroups[0]
	g.Count = n
	next.TaskGroups = []*structs.TaskGroup{&g}
	next.Stop = false
	w.Job(&next)
}

func (w *fixture) start(node, alloc string) {
	w.T.Helper()
	w.reportTask(node, alloc, structs.AllocRunning, &structs.TaskState{StartedAt: time.Unix(1, 0)})
}

// workDone reports that the task of an allocation has ended by itself.
func (w *fixture) workDone(node, alloc string) {
	w.T.Helper()
	w.reportTask(node, alloc, structs.AllocComplete, &structs.TaskState{
		State:  structs.TaskDead,
		Events: []*structs.TaskEvent{{Type: structs.TaskEventTerminated}},
	})
}

// reportTask reports the states of an allocation and of its task t.
func (w *fixture) reportTask(node, alloc, status string, task *structs.TaskState) {
	w.T.Helper()
	do(w, state.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID:       node,
		WriteOptions: w.Now(),
		Allocs: []*structs.AllocClientUpdate{{
			ID:           alloc,
			ClientStatus: status,
			TaskStates:   map[string]*structs.TaskState{"t": task},
		}},
	})
}

func TestDataAwaited_UntilTheReplacementHasIt(t *testing.T) {
	migrate := func(*structs.Job) {}
	edit := func(e func(*structs.Job)) func(*structs.Job) { return e }
	none := "no"
	for name, c := range map[string]struct {
		job  func(*structs.Job)
		do   func(w *fixture)
		want string
	}{
		"a pending replacement": {migrate, func(w *fixture) { w.replace("a", "b", "n2") }, "b"},
		"one that runs": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.start("n2", "b")
		}, none},
		"one that has run": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.start("n2", "b")
			w.Client("n2", "b", structs.AllocFailed)
		}, none},
		"one that failed before it started, to be replaced": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.Client("n2", "b", structs.AllocFailed)
		}, ""},
		"the replacement of that one": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.Client("n2", "b", structs.AllocFailed)
			w.replace("b", "c", "n3")
		}, "c"},
		"the replacement of that one, which runs": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.Client("n2", "b", structs.AllocFailed)
			w.replace("b", "c", "n3")
			w.start("n3", "c")
		}, none},
		"one that was stopped for good": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.Stop("b", "")
			w.Client("n2", "b", structs.AllocComplete)
		}, none},
		"stopped without a replacement": {migrate, func(w *fixture) { w.Stop("a", "") }, none},
		"failed":                        {migrate, func(w *fixture) { w.Client("n1", "a", structs.AllocFailed) }, ""},
		"stopped to be placed again": {migrate, func(w *fixture) {
			do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: "a", WriteOptions: w.Now()})
			w.Stop("a", "")
		}, ""},
		"stopped first for a newer version": {migrate, func(w *fixture) {
			w.stopFor("a", structs.StopReplaced)
		}, ""},
		"stopped for good, in the words of a stop for a newer version": {migrate, func(w *fixture) {
			p := w.Plan(state.Job(w.Store.Read(), "default", "web"))
			p.Stop = []*structs.PlanStop{{
				AllocID:     "a",
				Description: "replaced by a newer version of the job",
			}}
			do(w, state.PlanApply, p)
		}, none},
		"stopped for a canary of a newer version": {migrate, func(w *fixture) {
			w.Alloc("b", "web", "n2")
			w.stopFor("a", structs.StopReplaced)
		}, none},
		"lost with its node, of a system job": {
			edit(func(j *structs.Job) { j.Type = structs.JobSystem }),
			func(w *fixture) { w.stopFor("a", structs.StopNodeDown) }, "",
		},
		"lost with its node, before others of the job": {
			edit(func(j *structs.Job) { j.Type = structs.JobSystem }),
			func(w *fixture) {
				w.stopFor("a", structs.StopNodeDown)
				w.Alloc("b", "web", "n2")
			}, "",
		},
		"lost with a node that was deleted": {
			edit(func(j *structs.Job) { j.Type = structs.JobSystem }),
			func(w *fixture) {
				w.stopFor("a", structs.StopNodeDown)
				w.Client("n1", "a", structs.AllocComplete)
				do(w, state.NodeDeregister, &structs.NodeDeregisterRequest{
					NodeIDs: []string{"n1"}, WriteOptions: w.Now(),
				})
			}, none,
		},
		"lost with its node, of a sysbatch job that has done its work": {
			edit(func(j *structs.Job) { j.Type = structs.JobSysBatch }),
			func(w *fixture) {
				w.stopFor("a", structs.StopNodeDown)
				w.workDone("n1", "a")
			}, none,
		},
		"stopped to be placed again, of a batch job": {
			edit(func(j *structs.Job) { j.Type = structs.JobBatch }),
			func(w *fixture) {
				do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: "a", WriteOptions: w.Now()})
				w.Stop("a", "")
			}, "",
		},
		"lost with its node, of a service": {migrate, func(w *fixture) {
			w.stopFor("a", structs.StopNodeDown)
		}, none},
		"beyond the count": {migrate, func(w *fixture) {
			do(w, state.AllocStop, &structs.AllocStopRequest{AllocID: "a", WriteOptions: w.Now()})
			w.Stop("a", "")
			w.count(0)
		}, none},
		"failed before the count was lower for a while": {migrate, func(w *fixture) {
			w.Client("n1", "a", structs.AllocFailed)
			w.count(0)
			w.count(1)
		}, none},
		"failed before the job was stopped for a while": {migrate, func(w *fixture) {
			w.Client("n1", "a", structs.AllocFailed)
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: w.Now()})
			w.count(1)
		}, none},
		"replaced by one whose row is deleted": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			w.stopFor("a", structs.StopReplaced)
			w.Client("n2", "b", structs.AllocFailed)
			do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"b"}, WriteOptions: w.Now()})
		}, none},
		"failed before another of its name": {migrate, func(w *fixture) {
			w.Client("n1", "a", structs.AllocFailed)
			w.Alloc("b", "web", "n2")
		}, none},
		"a job that was stopped": {migrate, func(w *fixture) {
			w.replace("a", "b", "n2")
			do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "web", WriteOptions: w.Now()})
			w.Stop("b", "")
			w.Client("n2", "b", structs.AllocComplete)
		}, none},
		"a batch job that is done": {
			edit(func(j *structs.Job) { j.Type = structs.JobBatch }),
			func(w *fixture) { w.Client("n1", "a", structs.AllocComplete) }, none,
		},
		"without sticky": {
			edit(func(j *structs.Job) { j.TaskGroups[0].EphemeralDisk.Sticky = false }),
			func(w *fixture) { w.replace("a", "b", "n2") }, none,
		},
		"without migrate, on another node": {
			edit(func(j *structs.Job) { j.TaskGroups[0].EphemeralDisk.Migrate = false }),
			func(w *fixture) { w.replace("a", "b", "n2") }, none,
		},
		"without migrate, on the same node": {
			edit(func(j *structs.Job) { j.TaskGroups[0].EphemeralDisk.Migrate = false }),
			func(w *fixture) { w.replace("a", "b", "n1") }, "b",
		},
	} {
		w := dataFixture(t, c.job)
		c.do(w)
		if state.Node(w.Store.Read(), "n1") != nil {
			w.Client("n1", "a", structs.AllocComplete)
		}
		waits := state.DataWaits(w.Store.Read(), "n1", []string{"a", "a", "b", "missing"}, 0)
		by, awaited := waits["a"]
		got := by
		if !awaited {
			got = none
		}
		if got != c.want || len(waits) > 1 {
			t.Errorf("%s: awaited by %q of %v, want %q", name, got, waits, c.want)
		}
		if others := state.DataWaits(w.Store.Read(), "n2", []string{"a"}, 0); len(others) > 0 {
			t.Errorf("%s: another node learns of %v", name, others)
		}
	}
}

// A canary that has failed is replaced as long as its deployment goes on. Nothing else takes over its data.
func TestDataAwaited_OfACanary(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(w *fixture)
		awaited bool
	}{
		"failed":    {func(*fixture) {}, true},
		"displaced": {func(w *fixture) { w.stopFor("c", structs.StopReplaced) }, false},
		"failed, with its deployment": {func(w *fixture) {
			do(w, state.DeploymentStatus, &structs.DeploymentStatusRequest{
				DeploymentStatusUpdate: structs.DeploymentStatusUpdate{
					DeploymentID: "d",
					Status:       structs.DeploymentFailed,
				},
				WriteOptions: w.Now(),
			})
		}, false},
	} {
		w := dataFixture(t, func(*structs.Job) {})
		w.deployment("d", "web", &structs.DeploymentState{DesiredTotal: 1, ProgressDeadline: time.Minute})
		w.deployed("c", "web", "d", true)
		w.Client("n1", "c", structs.AllocFailed)
		c.do(w)
		a := state.Alloc(w.Store.Read(), "c")
		if _, awaited := state.DataAwaited(w.Store.Read(), a); awaited != c.awaited {
			t.Errorf("%s: awaited %v: %+v", name, awaited, a)
		}
	}
}

func TestDataAwaited_AlsoByALongChain(t *testing.T) {
	w := dataFixture(t, func(*structs.Job) {})
	last := "a"
	for i := range 2 * state.LongestDataChain {
		next := fmt.Sprint("next", i)
		w.replace(last, next, "n2")
		w.Client("n2", next, structs.AllocFailed)
		last = next
	}
	w.Client("n1", "a", structs.AllocComplete)
	if waits := state.DataWaits(w.Store.Read(), "n1", []string{"a"}, 0); len(waits) != 1 {
		t.Errorf("got %v", waits)
	}
}

// A garbage collection and each node ask for many allocations.
func TestDataAwaited_InAPerNodeJobCostsTheSameWithManyNodes(t *testing.T) {
	cost := func(nodes int) float64 {
		w := dataFixture(t, func(j *structs.Job) { j.Type = structs.JobSystem })
		w.stopFor("a", structs.StopNodeDown)
		w.Client("n1", "a", structs.AllocComplete)
		for i := range nodes {
			id := fmt.Sprint("other", i)
			w.Node(id)
			w.Alloc(id, "web", id)
		}
		tx := w.Store.Read()
		a := state.Alloc(tx, "a")
		return testing.AllocsPerRun(10, func() {
			if _, awaited := state.DataAwaited(tx, a); !awaited {
				t.Error("nobody takes over the data")
			}
		})
	}
	if few, many := cost(2), cost(100); many > few+2 {
		t.Errorf("%v heap allocations with 2 nodes, %v with 100", few, many)
	}
}

func TestTakesData_IsForLaterAllocationsOfThePlace(t *testing.T) {
	service := &structs.Job{Type: structs.JobService}
	system := &structs.Job{Type: structs.JobSystem}
	ended := &structs.Allocation{ID: "a", Name: "j.g[0]", NodeID: "n1"}
	ended.CreateIndex = 10
	later := func(change func(*structs.Allocation)) *structs.Allocation {
		a := &structs.Allocation{ID: "b", Name: "j.g[0]", NodeID: "n2"}
		a.CreateIndex = 20
		change(a)
		return a
	}
	for name, c := range map[string]struct {
		job       *structs.Job
		successor *structs.Allocation
		want      bool
	}{
		"later":           {service, later(func(*structs.Allocation) {}), true},
		"earlier":         {service, later(func(a *structs.Allocation) { a.CreateIndex = 5 }), false},
		"of another name": {service, later(func(a *structs.Allocation) { a.Name = "j.g[1]" }), false},
		"its replacement": {service, later(func(a *structs.Allocation) {
			a.Name = "j.g[1]"
			a.PreviousAllocation = "a"
		}), true},
		"of a system job on another node": {system, later(func(*structs.Allocation) {}), false},
		"of a system job on its node":     {system, later(func(a *structs.Allocation) { a.NodeID = "n1" }), true},
	} {
		if got := state.TakesData(c.job, c.successor, ended); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
