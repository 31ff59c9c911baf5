package scheduler

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/structs"
)

// plannerAfter evaluates a job and returns its planner. The plan is not applied.
func (w *fixture) plannerAfter(job string) *planner {
	w.t.Helper()
	p, err := newPlanner(w.s.Read(), w.eval(job), w.clock, options{enough: enough})
	if err != nil {
		w.t.Fatal(err)
	}
	p.decide()
	p.execute()
	return p
}

// crowded returns a cluster with a job on its node. Its new version needs more than the node has, so that no
// exchange helps.
func crowded(t *testing.T, jobType string, groups, count int) *exchange {
	x := newExchange(t, "room")
	for _, cpu := range []int{10, 2000} {
		sizes := make([][2]int, groups)
		for i := range sizes {
			sizes[i] = [2]int{cpu, 10}
		}
		j := x.sized("a", jobType, sizes...)
		for _, g := range j.TaskGroups {
			g.Count = count
			g.EphemeralDisk.SizeMB = 10
			if jobType == structs.JobService {
				u := structs.DefaultUpdateStrategy()
				g.Update = &u
			}
		}
		if cpu == 2000 {
			x.job(j)
			break
		}
		x.register(j)
		x.settle()
	}
	return x
}

// All refused updates of a plan search for exchanges, together within one bound, and each within its own.
func TestUpdate_BoundsTheSearchesOfAPlan(t *testing.T) {
	for _, count := range []int{12, 30} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			x := crowded(t, structs.JobBatch, 1, count)
			p := x.plannerAfter("a")
			if len(p.tried) != count {
				t.Fatalf("the plan tries %d updates, want all of %d", len(p.tried), count)
			}
			if want := min(planSteps, count*circleSteps); p.searched != want {
				t.Errorf("the searches take %d steps, want %d", p.searched, want)
			}
		})
	}
}

// A group beyond its pace leaves its updates alone once some have found no place, like one within its pace.
func TestUpdate_BeyondItsPaceEndsAfterSomeRefused(t *testing.T) {
	x := crowded(t, structs.JobService, 1, mostRefused+4)
	x.stopForSuccessor(x.allocs("a")[0])
	p := x.plannerAfter("a")
	if n := len(p.tried); n != mostRefused {
		t.Errorf("the plan tries %d updates, want %d", n, mostRefused)
	}
	if len(p.plan.Stop) > 0 {
		t.Errorf("the plan has stops: %s", describe(p.plan))
	}
}

// stopForSuccessor stops an allocation as the first of an exchange, and lets it end on its node.
func (x *exchange) stopForSuccessor(a *structs.Allocation) {
	x.t.Helper()
	e := x.eval(a.JobID)
	e.Status = structs.EvalComplete
	x.apply(&structs.Plan{
		Eval:           e,
		Stop:           []*structs.PlanStop{{AllocID: a.ID, Cause: structs.StopReplaced}},
		JobModifyIndex: state.Job(x.s.Read(), a.Namespace, a.JobID).JobModifyIndex,
	})
	x.client(a, structs.AllocComplete)
}

// Whether a group beyond its pace may wait for others is asked once in a plan.
func TestUpdate_AsksOnceWhetherOthersGoOn(t *testing.T) {
	x := crowded(t, structs.JobService, 1, 4)
	x.stopForSuccessor(x.allocs("a")[0])
	p := x.plannerAfter("a")
	g := p.groups[0]
	if !g.updates.exceeds || !p.mayReplace(g) {
		t.Fatal("the group may not exceed its pace")
	}
	if n := testing.AllocsPerRun(10, func() { p.mayReplace(g) }); n > 0 {
		t.Errorf("the group searches others again, in %v heap allocations", n)
	}
}

// The allocations of other groups around an update ask for each of these groups once whether it goes on.
func TestUpdate_AsksOtherGroupsOnce(t *testing.T) {
	x := crowded(t, structs.JobService, 2, 3)
	p := x.plannerAfter("a")
	c := p.newCircle(x.allocs("a")[0], p.groups[0])
	c.findOthers()
	groups := c.otherGroups()
	if len(c.others) != 5 || len(groups) != 1 || groups[0] != p.groups[1] {
		t.Errorf("%d others are of %d other groups, want 5 of the second one", len(c.others), len(groups))
	}
}
