package scheduler

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// Two groups of a job exchange something, and three do so in a circle.
func TestUpdate_ExchangesBetweenGroups(t *testing.T) {
	for kind := range exclusive {
		for _, jobType := range []string{structs.JobService, structs.JobSystem, structs.JobBatch} {
			t.Run(kind+" "+jobType, func(t *testing.T) {
				x := newExchange(t, kind)
				x.register(x.version("a", jobType, 0, 1))
				x.settle()
				x.checkNewest("a")
				x.register(x.version("a", jobType, 1, 0))
				x.settle()
				x.checkNewest("a")
				x.register(x.version("a", jobType, 1, 0, 2))
				x.settle()
				stops := x.register(x.version("a", jobType, 0, 2, 1))
				if kind != "CSI volume" && stops != 2 { // the first of the circle, and the one that it sets free
					t.Errorf("%d allocations stop at first", stops)
				}
				x.settle()
				x.checkNewest("a")
			})
		}
	}
}

// Two jobs exchange something: the allocation of the second one stops first. Until then the first
// one keeps its own.
func TestUpdate_ExchangesBetweenJobs(t *testing.T) {
	for kind := range exclusive {
		for _, jobType := range []string{structs.JobService, structs.JobSystem, structs.JobBatch} {
			t.Run(kind+" "+jobType, func(t *testing.T) {
				x := newExchange(t, kind)
				for i, id := range []string{"a", "b", "c"} {
					x.register(x.version(id, jobType, i))
				}
				x.settle()
				for i, id := range []string{"a", "b", "c"} {
					stops := x.register(x.version(id, jobType, (i+1)%3))
					if want := i == 2; (stops > 0) != want {
						t.Errorf("job %s: %d allocations stop, want any: %v", id, stops, want)
					}
					if i < 2 {
						x.settle()
						if live := x.allocs(id); len(live) != 1 || live[0].JobVersion != 0 {
							t.Fatalf("job %s: %d allocations while it waits", id, len(live))
						}
					}
				}
				x.settle()
				x.checkNewest("a", "b", "c")
			})
		}
	}
}

// Allocations that have not claimed their volumes yet are to have them.
func TestUpdate_ExchangesVolumesBeforeTheyAreClaimed(t *testing.T) {
	x := newExchange(t, "CSI volume")
	for i, id := range []string{"a", "b"} {
		x.register(x.version(id, structs.JobService, i))
	}
	x.register(x.version("a", structs.JobService, 1))
	x.register(x.version("b", structs.JobService, 0))
	x.settle()
	x.checkNewest("a", "b")
}

// A search compiles the group of another job once for all its allocations.
func TestUpdate_CompilesAnotherGroupOnce(t *testing.T) {
	x := newExchange(t, "port")
	of := func(id string, size [2]int) *structs.Job {
		j := x.sized(id, structs.JobService, size)
		j.TaskGroups[0].Count = 3
		return j
	}
	x.register(of("a", [2]int{100, 200}))
	x.register(x.sized("b", structs.JobService, [2]int{600, 100}))
	x.settle()
	x.register(of("a", [2]int{400, 100}))
	j := x.sized("b", structs.JobService, [2]int{100, 800})
	x.job(j)
	p, err := newPlanner(x.s.Read(), x.eval("b"), x.clock, options{enough: enough})
	if err != nil {
		t.Fatal(err)
	}
	p.decide()
	w := p.placements[0]
	p.stopAlloc(w.prev, structs.StopReplaced, replacedReason)
	c := p.newCircle(w.prev, w.plan)
	c.findOthers()
	plans := map[*groupPlan]int{}
	for _, m := range c.others {
		plans[m.plan]++
	}
	if len(c.others) != 3 || len(plans) != 1 {
		t.Errorf("%d allocations of another job have %d plans, want 3 with one", len(c.others), len(plans))
	}
}

// The groups exchange their ports on one node after the other.
func TestUpdate_ExchangesAtItsPace(t *testing.T) {
	x := newExchange(t, "port")
	x.node(withPorts("n2", 1))
	x.register(x.version("a", structs.JobSystem, 0, 1))
	x.settle()
	if stops := x.register(x.version("a", structs.JobSystem, 1, 0)); stops != 2 {
		t.Errorf("%d allocations stop at first, want one of each group", stops)
	}
	x.settle()
	x.wantNewest("a", 4)
}

// The plans of both jobs are made on one state.
func TestUpdate_ExchangesBetweenJobsAtOnce(t *testing.T) {
	x := newExchange(t, "port")
	x.register(x.version("a", structs.JobService, 0))
	x.register(x.version("b", structs.JobService, 1))
	x.settle()
	x.registerAtOnce(x.version("b", structs.JobService, 0), x.version("a", structs.JobService, 1))
	x.settle()
	x.checkNewest("a", "b")
}

// An allocation keeps running if the other one will not go, or goes by itself: its job has no newer version,
// or wants another port, or is stopped, or its deployment is paused or has failed.
func TestUpdate_StopsNoneForOthersThatStay(t *testing.T) {
	for name, other := range map[string]func(x *exchange){
		"no newer version": func(*exchange) {},
		"another port":     func(x *exchange) { x.register(x.version("b", structs.JobService, 3)) },
		"the same port":    func(x *exchange) { x.register(x.version("b", structs.JobService, 1)) },
		"paused": func(x *exchange) {
			x.register(x.version("b", structs.JobService, 0))
			x.deploymentStatus("b", structs.DeploymentPaused)
		},
		"stopped": func(x *exchange) {
			x.register(x.version("b", structs.JobBatch, 0))
			do(x.fixture, state.JobDeregister, &structs.JobDeregisterRequest{
				JobID:        "b",
				Eval:         x.eval("b"),
				WriteOptions: x.now(),
			})
		},
		"failed": func(x *exchange) {
			x.register(x.version("b", structs.JobService, 0))
			x.deploymentStatus("b", structs.DeploymentFailed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newExchange(t, "port")
			x.register(x.version("a", structs.JobService, 0))
			x.register(x.version("b", structs.JobService, 1))
			x.settle()
			other(x)
			stops := x.register(x.version("a", structs.JobService, 1))
			if live := x.allocs("a"); stops > 0 || len(live) != 1 || live[0].JobVersion != 0 {
				t.Errorf("%d allocations stop", stops)
			}
		})
	}
}

// deploymentStatus changes the newest deployment of a job, and evaluates the job.
func (x *exchange) deploymentStatus(job, status string) {
	x.t.Helper()
	p := &structs.DeploymentStatusRequest{WriteOptions: x.now()}
	p.DeploymentID = state.LatestDeployment(x.s.Read(), "default", job).ID
	p.Status = status
	do(x.fixture, state.DeploymentStatus, p)
	x.apply(x.process(x.eval(job)))
}

// TestUpdate_ExchangesAtRandom lets jobs change what their groups demand at random, also so that not all can
// have it. In the end all demands differ, and each group runs its newest version.
func TestUpdate_ExchangesAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(slices.Sorted(maps.Keys(exclusive))).Draw(t, "kind")
		x := newExchange(t, kind)
		x.atOnce = rapid.Bool().Draw(t, "at once")
		jobs := []string{"a", "b"}
		kinds := map[string]string{}
		types := rapid.SampledFrom([]string{structs.JobService, structs.JobSystem, structs.JobBatch})
		for _, id := range jobs {
			kinds[id] = types.Draw(t, "type")
		}
		change := func(id string, things []int) {
			x.register(x.version(id, kinds[id], things...))
		}
		for range rapid.IntRange(0, 6).Draw(t, "steps") {
			things := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "demands")
			change(rapid.SampledFrom(jobs).Draw(t, "job"), things[:2])
			if rapid.Bool().Draw(t, "settles") {
				x.settle()
			} else if rapid.Bool().Draw(t, "agents work") {
				x.runAgents()
			}
		}
		things := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "last demands")
		change("a", things[:2])
		change("b", things[2:])
		x.settle()
		x.checkNewest(jobs...)
		if t.Failed() {
			t.FailNow()
		}
	})
}
