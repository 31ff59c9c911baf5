package scheduler

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// sized is a job with a group g0, g1 and so on for each pair of cpu and memory.
func (x *exchange) sized(id, jobType string, sizes ...[2]int) *structs.Job {
	return x.edited(id, jobType, len(sizes), func(g *structs.TaskGroup, i int) {
		r := resourcesOf(g)
		r.CPU = sizes[i][0]
		r.MemoryMB = sizes[i][1]
	})
}

// An exchange within one job is one plan: nobody else can take the room of the first that stops.
func TestUpdate_ExchangesRoomInOnePlan(t *testing.T) {
	for _, jobType := range []string{structs.JobService, structs.JobSystem, structs.JobBatch} {
		t.Run(jobType, func(t *testing.T) {
			x := newExchange(t, "room")
			x.register(x.sized("a", jobType, [2]int{300, 700}, [2]int{700, 300}))
			x.settle()
			x.register(x.sized("thief", jobType, [2]int{300, 300}))
			if stops := x.register(x.sized("a", jobType, [2]int{700, 300}, [2]int{300, 700})); stops != 2 {
				t.Errorf("%d allocations stop, want both", stops)
			}
			x.wantNewest("a", 2)
			x.settle()
			x.checkNewest("a")
		})
	}
}

// A group that grows takes the room that another one of its plan leaves, before new allocations do.
func TestUpdate_ExchangesRoomBeforeNewAllocations(t *testing.T) {
	x := newExchange(t, "room")
	x.register(x.sized("a", structs.JobService, [2]int{300, 600}, [2]int{600, 300}))
	x.settle()
	x.register(x.sized("a", structs.JobService, [2]int{600, 300}, [2]int{300, 600}, [2]int{400, 300}))
	for _, a := range x.allocs("a") {
		if a.JobVersion == 0 || a.TaskGroup == "g2" {
			t.Errorf("group %s has an allocation of version %d", a.TaskGroup, a.JobVersion)
		}
	}
	x.wantNewest("a", 2)
}

// An allocation keeps running if the exchange would leave another one without a place, or if the other one
// goes without it.
func TestUpdate_StopsNoneForRoomThatIsNotThere(t *testing.T) {
	for name, c := range map[string]struct{ now, then [][2]int }{
		"both would not fit":     {[][2]int{{300, 700}, {700, 300}}, [][2]int{{700, 800}, {300, 700}}},
		"the node is too small":  {[][2]int{{300, 700}, {700, 300}}, [][2]int{{2000, 300}, {300, 700}}},
		"a third one stays":      {[][2]int{{300, 300}, {400, 300}, {300, 300}}, [][2]int{{500, 300}, {500, 300}}},
		"the other one can wait": {[][2]int{{300, 700}, {700, 300}}, [][2]int{{700, 300}, {700, 300}}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange(t, "room")
			for i, size := range c.now {
				x.register(x.sized(fmt.Sprint("j", i), structs.JobService, size))
			}
			x.settle()
			for range 2 {
				for i, size := range c.then {
					x.register(x.sized(fmt.Sprint("j", i), structs.JobService, size))
					x.settle()
				}
			}
			for i := range c.now {
				if live := x.allocs(fmt.Sprint("j", i)); len(live) != 1 || live[0].ClientStatus != structs.AllocRunning {
					t.Errorf("job j%d has %d allocations", i, len(live))
				}
			}
		})
	}
}

// Two jobs exchange their room although a third one waits for more than the node has.
func TestUpdate_ExchangesRoomBesideOneThatWaits(t *testing.T) {
	x := newExchange(t, "room")
	for i, size := range [][2]int{{50, 50}, {300, 600}, {600, 300}} {
		x.register(x.sized(fmt.Sprint("j", i), structs.JobService, size))
	}
	x.settle()
	for i, size := range [][2]int{{2000, 50}, {600, 300}, {300, 600}} {
		x.register(x.sized(fmt.Sprint("j", i), structs.JobService, size))
	}
	x.settle()
	x.checkNewest("j1", "j2")
	if n := len(x.allocs("j0")); n != 1 {
		t.Errorf("the third job has %d allocations", n)
	}
}

// All of a group are needed for the room of another one. It stops no more than its update may at a time.
func TestUpdate_ExchangesRoomOfAGroupAtItsPace(t *testing.T) {
	x := newExchange(t, "room")
	of := func(size [2]int) *structs.Job {
		j := x.sized("a", structs.JobService, size)
		j.TaskGroups[0].Count = 3
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1}
		return j
	}
	x.register(of([2]int{100, 250}))
	x.register(x.sized("b", structs.JobService, [2]int{650, 200}))
	x.settle()
	x.register(x.sized("b", structs.JobService, [2]int{200, 650}))
	x.register(of([2]int{250, 100}))
	for range 300 {
		if n := len(x.allocs("a")); n < 2 {
			t.Fatalf("%d of 3 allocations of a are to run", n)
		}
		if !x.settleOnce() {
			break
		}
	}
	x.wantNewest("a", 3)
	x.checkNewest("b")
}

// Allocations that a lower count has stopped await no successor, so they do not count for the pace.
func TestUpdate_ExchangesRoomAfterALowerCount(t *testing.T) {
	x := newExchange(t, "room")
	register := func(id string, count int, size [2]int) {
		j := x.sized(id, structs.JobService, size)
		j.TaskGroups[0].Count = count
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1}
		x.register(j)
	}
	for _, id := range []string{"a", "b"} {
		register(id, 3, [2]int{50, 50})
		x.settle()
		register(id, 1, [2]int{50, 50})
		x.settle()
	}
	register("a", 1, [2]int{300, 700})
	x.settle()
	register("b", 1, [2]int{700, 300})
	x.settle()
	register("a", 1, [2]int{700, 300})
	register("b", 1, [2]int{300, 700})
	x.settle()
	x.checkNewest("a", "b")
}

// A new version has a limit that leaves room for one of two allocations, and wants a volume for one writer.
// The first one does not stop for a successor that has no place, whatever the volume allows.
func TestUpdate_StopsNoneForALimitThatOneMustExceed(t *testing.T) {
	for _, limit := range someLimits {
		t.Run(limit.Operand, func(t *testing.T) {
			x := newExchange(t, "CSI volume")
			two := func(edit func(j *structs.Job)) int {
				j := x.sized("a", structs.JobService, [2]int{50, 50})
				j.TaskGroups[0].Count = 2
				edit(j)
				return x.register(j)
			}
			two(func(*structs.Job) {})
			x.settle()
			stops := two(func(j *structs.Job) {
				exclusive[x.kind](j.TaskGroups[0], 0)
				j.Constraints = []*structs.Constraint{limit}
			})
			if stops != 0 {
				t.Errorf("%d allocations stop, want none", stops)
			}
		})
	}
}

var someLimits = []*structs.Constraint{
	{Operand: structs.ConstraintDistinctHosts},
	{Operand: structs.ConstraintDistinctProperty, LTarget: "${node.unique.id}"},
}

// Two groups of a job whose allocations may not share a node exchange their nodes.
func TestUpdate_ExchangesNodesUnderALimit(t *testing.T) {
	for _, limit := range someLimits {
		t.Run(limit.Operand, func(t *testing.T) {
			x := newExchange(t, "room")
			x.node(aNode("n2"))
			on := func(nodes ...string) {
				j := x.edited("a", structs.JobService, len(nodes), func(g *structs.TaskGroup, i int) {
					g.Constraints = []*structs.Constraint{
						{LTarget: "${node.unique.id}", RTarget: nodes[i], Operand: "="},
					}
				})
				j.Constraints = []*structs.Constraint{limit}
				x.register(j)
			}
			on("n1", "n2")
			x.settle()
			on("n2", "n1")
			x.settle()
			x.checkNewest("a")
		})
	}
}

// Two successors want the same thing. None stops first for the other, because only one would have a place.
func TestUpdate_StopsNoneIfBothWantTheSame(t *testing.T) {
	for kind := range exclusive {
		t.Run(kind, func(t *testing.T) {
			x := newExchange(t, kind)
			for i := range 2 {
				x.register(x.version(fmt.Sprint("j", i), structs.JobService, i))
			}
			x.settle()
			for range 2 {
				x.register(x.edited("j1", structs.JobService, 1, func(g *structs.TaskGroup, _ int) {
					other := *g
					exclusive[kind](g, 0)
					exclusive[kind](&other, 1)
					addDemands(g, &other)
				}))
				x.settle()
				x.register(x.version("j0", structs.JobService, 1))
				x.settle()
			}
			for _, id := range []string{"j0", "j1"} {
				if live := x.allocs(id); len(live) != 1 || live[0].JobVersion != 0 {
					t.Errorf("job %s has %d allocations, want its first one", id, len(live))
				}
			}
		})
	}
}

// addDemands adds the demands of another group to a group.
func addDemands(g, other *structs.TaskGroup) {
	switch {
	case len(g.Networks) > 0 && len(other.Networks) > 0:
		second := other.Networks[0].ReservedPorts[0]
		second.Label = "second"
		g.Networks[0].ReservedPorts = append(g.Networks[0].ReservedPorts, second)
	case len(other.Networks) > 0:
		g.Networks = other.Networks
	}
	if r := other.Volumes["d"]; r != nil {
		second := *r
		second.Name = "e"
		g.Volumes["e"] = &second
	}
	if g.Tasks[0] == other.Tasks[0] {
		return
	}
	r := resourcesBefore(g)
	more := other.Tasks[0].Resources
	r.CPU = max(r.CPU, more.CPU)
	r.MemoryMB = max(r.MemoryMB, more.MemoryMB)
	r.Devices = append(r.Devices, more.Devices...)
}

// resourcesBefore gives a group a task of its own with the resources that it has.
func resourcesBefore(g *structs.TaskGroup) *structs.Resources {
	before := *g.Tasks[0].Resources
	r := resourcesOf(g)
	*r = before
	return r
}

// A deployment that was paused since its plan keeps the older allocation, and no other one stops for it.
func TestUpdate_StopsNoneForOneThatWasPaused(t *testing.T) {
	x := newExchange(t, "room")
	x.register(x.sized("a", structs.JobService, [2]int{300, 600}))
	x.register(x.sized("b", structs.JobService, [2]int{600, 300}))
	x.settle()
	x.register(x.sized("b", structs.JobService, [2]int{300, 600}))
	p := &structs.DeploymentStatusRequest{WriteOptions: x.now()}
	p.DeploymentID = state.LatestDeployment(x.s.Read(), "default", "b").ID
	p.Status = structs.DeploymentPaused
	do(x.fixture, state.DeploymentStatus, p)
	if stops := x.register(x.sized("a", structs.JobService, [2]int{600, 300})); stops > 0 {
		t.Errorf("%d allocations stop", stops)
	}
}

// TestUpdate_ExchangesRoomAtRandom lets the groups of jobs on a node want other room at random, also so that
// not all can have it. In the end all fit together, and each group runs its newest version.
func TestUpdate_ExchangesRoomAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newExchange(t, "room")
		x.atOnce = rapid.Bool().Draw(t, "at once")
		jobs := []string{"a", "b", "c"}
		kinds := map[string]string{}
		types := rapid.SampledFrom([]string{structs.JobService, structs.JobSystem, structs.JobBatch})
		for _, id := range jobs {
			kinds[id] = types.Draw(t, "type")
		}
		change := func(id string, sizes ...[2]int) {
			x.register(x.sized(id, kinds[id], sizes...))
			if rapid.Bool().Draw(t, "settles") {
				x.settle()
			} else if rapid.Bool().Draw(t, "agents work") {
				x.runAgents()
			}
		}
		size := rapid.IntRange(1, 8)
		for range rapid.IntRange(0, 3).Draw(t, "rounds") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				id := rapid.SampledFrom(jobs).Draw(t, "job")
				change(id, [2]int{100 * size.Draw(t, "cpu"), 100 * size.Draw(t, "memory")}, [2]int{100, 100})
			}
			x.share(t, jobs, change)
		}
		x.share(t, jobs, change)
		x.settle()
		x.checkNewest(jobs...)
		if t.Failed() {
			t.FailNow()
		}
	})
}

// share changes jobs of two groups so that they have all room of the node together.
func (x *exchange) share(t *rapid.T, jobs []string, change func(id string, sizes ...[2]int)) {
	shares := rapid.Permutation([]int{250, 250, 150, 150, 100, 100})
	cpu := shares.Draw(t, "shares of cpu")
	memory := shares.Draw(t, "shares of memory")
	for _, i := range rapid.Permutation([]int{0, 2, 4}).Draw(t, "order") {
		change(jobs[i/2], [2]int{cpu[i], memory[i]}, [2]int{cpu[i+1], memory[i+1]})
	}
}

// Two jobs exchange their room on each of several nodes. Neither misses more allocations at a time than its
// pace allows.
func TestUpdate_ExchangesRoomBetweenJobsAtTheirPace(t *testing.T) {
	for _, jobType := range []string{structs.JobService, structs.JobSystem} {
		t.Run(jobType, func(t *testing.T) {
			x := newExchange(t, "room")
			x.nodes("n2", "n3")
			of := func(id string, size [2]int) *structs.Job {
				j := x.sized(id, jobType, size)
				if jobType == structs.JobService {
					j.TaskGroups[0].Count = 3
					j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1}
				}
				return j
			}
			x.register(of("a", [2]int{300, 700}))
			x.register(of("b", [2]int{700, 300}))
			x.settle()
			x.register(of("a", [2]int{700, 300}))
			x.settle()
			x.register(of("b", [2]int{300, 700}))
			for range 300 {
				if n := len(x.allocs("b")); n < 2 {
					t.Fatalf("%d of 3 allocations of b are to run", n)
				}
				if !x.settleOnce() {
					break
				}
			}
			x.wantNewest("a", 3)
			x.wantNewest("b", 3)
		})
	}
}
