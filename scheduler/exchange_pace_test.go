package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// atPace makes a job have one allocation of each group on each of some nodes, and replace some at a time.
func atPace(j *structs.Job, nodes, most int) *structs.Job {
	for _, g := range j.TaskGroups {
		u := structs.DefaultUpdateStrategy()
		u.MaxParallel = most
		u.Stagger = time.Minute
		g.Update = &u
		if !j.PerNode() {
			g.Count = nodes
			g.Constraints = []*structs.Constraint{{Operand: structs.ConstraintDistinctHosts}}
		}
	}
	return j
}

// missed returns the allocations that the update of a group misses: those that it has stopped for a successor
// which has no place yet, and the successors that are not healthy yet, or in a job of every node those of the
// last stagger.
func (x *exchange) missed(j *structs.Job, g *structs.TaskGroup) (missed []string) {
	tx := x.s.Read()
	newest := map[string]*structs.Allocation{}
	stopped := map[string]bool{} // places of which a newer version has taken an allocation
	for a := range state.AllocsByJob(tx, j.Namespace, j.ID) {
		place := a.Name
		if j.PerNode() {
			place = a.NodeID
		}
		if a.TaskGroup != g.Name {
			continue
		}
		if newest[place] == nil || newest[place].CreateIndex < a.CreateIndex {
			newest[place] = a
		}
		if a.StopCause == structs.StopReplaced {
			stopped[place] = true
		}
	}
	begin := x.clock.Add(-g.Update.Stagger).UnixNano()
	for place, a := range newest {
		waits := a.DeploymentID != "" && !a.DeploymentStatus.IsHealthy()
		if j.PerNode() {
			waits = a.CreateTime > begin
		}
		placed := stopped[place] && a.CreateIndex > j.JobModifyIndex // and not updated in place
		if a.StopCause == structs.StopReplaced || placed && waits {
			missed = append(missed, place)
		}
	}
	slices.Sort(missed)
	return missed
}

// settleAt settles, and after each step checks that no group misses more than its pace and some more.
func (x *exchange) settleAt(more int) {
	x.t.Helper()
	for range 2000 {
		x.checkPace(more)
		if !x.settleOnce() {
			return
		}
	}
	x.t.Fatal("the cluster does not settle")
}

func (x *exchange) checkPace(more int) {
	x.t.Helper()
	for j := range state.JobsFrom(x.s.Read(), structs.DefaultNamespace, "", state.Page{}) {
		for _, g := range j.TaskGroups {
			if j.Type == structs.JobBatch {
				continue
			}
			if got := x.missed(j, g); len(got) > g.Update.MaxParallel+more {
				x.t.Fatalf("job %s misses %v, its pace is %d", j.ID, got, g.Update.MaxParallel)
			}
		}
	}
}

// Two groups of a job and two jobs exchange something on each of several nodes. At no time does a group miss
// more allocations than its pace allows.
func TestUpdate_ExchangesWithinItsPace(t *testing.T) {
	for _, kind := range []string{"port", "device", "room", "host volume", "mixed"} {
		for _, jobType := range []string{structs.JobService, structs.JobSystem} {
			for _, most := range []int{1, 2} {
				name := fmt.Sprintf("%s %s by %d", kind, jobType, most)
				fleet := func(t *testing.T) *exchange {
					x := newExchange(t, kind)
					x.late = true
					x.addNode("n2")
					x.addNode("n3")
					return x
				}
				t.Run(name+" of groups", func(t *testing.T) {
					x := fleet(t)
					for _, things := range [][]int{{0, 1}, {1, 0}} {
						x.register(atPace(x.version("a", jobType, things...), 3, most))
						x.settleAt(0)
					}
					x.wantNewest("a", 6)
				})
				t.Run(name+" of jobs", func(t *testing.T) {
					x := fleet(t)
					for _, things := range [][]int{{0, 1}, {1, 0}} {
						for i, id := range []string{"a", "b"} {
							x.register(atPace(x.version(id, jobType, things[i]), 3, most))
						}
						x.settleAt(0)
					}
					x.wantNewest("a", 3)
					x.wantNewest("b", 3)
				})
			}
		}
	}
}

// Two jobs exchange their room on one node, and both have room for a successor on the others. They wait for
// each other on that one, rather than replace more elsewhere.
func TestUpdate_WaitsForAnExchangeAtItsPace(t *testing.T) {
	for _, jobType := range []string{structs.JobService, structs.JobSystem} {
		for round := range 5 { // the order of the nodes is random
			t.Run(fmt.Sprint(jobType, round), func(t *testing.T) {
				x := newExchange(t, "room")
				x.late = true
				for _, id := range []string{"n0", "n2", "n3"} {
					n := aNode(id)
					n.NodeResources.CPU.CpuShares = 2000
					n.NodeResources.Memory.MemoryMB = 2000
					n.NodeResources.Disk.DiskMB = 20000
					x.node(n)
				}
				sizes := [][2]int{{300, 700}, {700, 300}, {300, 700}}
				for version := range 2 {
					for i, id := range []string{"a", "b"} {
						x.register(atPace(x.sized(id, jobType, sizes[version+i]), 4, 1))
					}
					x.settleAt(0)
				}
				x.wantNewest("a", 4)
				x.wantNewest("b", 4)
			})
		}
	}
}

// crossed returns a cluster of two nodes. Two jobs have a port each on both, and replace one allocation at a
// time: one job first on the first node, the other one on the second.
func crossed(t *testing.T) *exchange {
	x := newExchange(t, "port")
	x.late = true
	x.register(atPace(x.version("a", structs.JobService, 0), 1, 1))
	x.addNode("n2")
	x.eligibility("n1", structs.NodeIneligible)
	x.register(atPace(x.version("b", structs.JobService, 1), 1, 1))
	x.eligibility("n1", structs.NodeEligible)
	x.register(x.onBoth("a", 0))
	x.register(x.onBoth("b", 1))
	x.settleAt(0)
	x.wantPlaced("a", "0@n1 1@n2")
	x.wantPlaced("b", "0@n2 1@n1")
	return x
}

// onBoth is a job with a port on each of two nodes.
func (x *exchange) onBoth(id string, port int) *structs.Job {
	return atPace(x.version(id, structs.JobService, port), 2, 1)
}

// The plans of two jobs are made on one state, and each stops an allocation first, on another node. Both are
// at their pace then, and each waits for the other. One more is replaced than the pace allows.
func TestUpdate_ExceedsItsPaceByOneIfNothingElseHelps(t *testing.T) {
	x := crossed(t)
	x.registerAtOnce(x.onBoth("b", 0), x.onBoth("a", 1))
	x.wantPlaced("a", "1@n2")
	x.wantPlaced("b", "1@n1")
	x.settleAt(1)
	x.wantNewest("a", 2)
	x.wantNewest("b", 2)
}

// A group waits at an empty place, and another allocation of it moves. It misses the successor of that one
// until it is healthy, so it does not exceed its pace besides.
func TestUpdate_KeepsItsPaceBesideAMove(t *testing.T) {
	x := crossed(t)
	x.addNode("n3")
	on3 := func(port int) *structs.Job {
		return atPace(x.version("a", structs.JobService, port), 3, 1)
	}
	x.register(on3(0))
	x.settle()
	x.wantPlaced("a", "0@n1 1@n2 2@n3")
	x.registerAtOnce(x.onBoth("b", 0), on3(1))
	x.wantPlaced("a", "1@n2 2@n3")
	x.wantPlaced("b", "1@n1")
	x.runAgents()
	for e := range state.ReadyEvals(x.s.Read()) {
		if e.JobID == "b" {
			x.applyLate(x.process(e)) // it waits for a
		}
	}
	x.wantPlaced("b", "1@n1")
	stop := &structs.AllocStopRequest{AllocID: x.allocs("a")[1].ID, WriteOptions: x.now()}
	do(x.fixture, state.AllocStop, stop)
	x.applyLate(x.process(x.eval("a")))
	x.wantPlaced("a", "1@n2 2@n3")
	x.wantNewest("a", 1)
}

// A job may exchange its room with either group of another one, which are evaluated in one plan: the last of
// them stops first.
func TestUpdate_ExchangesRoomWithOneOfTwoGroups(t *testing.T) {
	x := newExchange(t, "room")
	x.register(x.sized("a", structs.JobService, [2]int{100, 250}))
	x.register(x.sized("b", structs.JobService, [2]int{250, 100}, [2]int{150, 150}))
	x.register(x.sized("c", structs.JobService, [2]int{500, 500}))
	x.settle()
	x.register(x.sized("a", structs.JobService, [2]int{150, 100}))
	x.register(x.sized("b", structs.JobService, [2]int{100, 150}, [2]int{100, 250}))
	x.settle()
	x.checkNewest("a", "b")
}

// TestUpdate_ExchangesWithinItsPaceAtRandom lets the groups of jobs on several nodes want other room at
// random. In the end all fit together on each node, and each group runs its newest version everywhere. At no
// time does a group miss more than one allocation beyond its pace.
func TestUpdate_ExchangesWithinItsPaceAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newExchange(t, "room")
		x.late = true
		x.atOnce = rapid.Bool().Draw(t, "at once")
		nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
		for i := range nodes - 1 {
			x.addNode(fmt.Sprint("n", i+2))
		}
		jobs := []string{"a", "b", "c"}
		kinds := map[string]string{}
		paces := map[string]int{}
		types := rapid.SampledFrom([]string{structs.JobService, structs.JobSystem, structs.JobBatch})
		for _, id := range jobs {
			kinds[id] = types.Draw(t, "type")
			paces[id] = rapid.IntRange(1, 2).Draw(t, "pace")
		}
		change := func(id string, sizes ...[2]int) {
			x.register(atPace(x.sized(id, kinds[id], sizes...), nodes, paces[id]))
			x.checkPace(1)
			if rapid.Bool().Draw(t, "settles") {
				x.settleAt(1)
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "rounds") {
			x.share(t, jobs, change)
			x.settleAt(1)
		}
		for _, id := range jobs {
			x.wantNewest(id, 2*nodes)
		}
	})
}
