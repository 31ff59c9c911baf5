package scheduler

import (
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

// stopJob stops a job and applies the plan that stops its allocations. It returns them.
func (w *fixture) stopJob(id string) []*structs.Allocation {
	w.t.Helper()
	allocs := w.allocs(id)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: id, WriteOptions: w.now()})
	w.run(id)
	return allocs
}

// awaited returns the names of the allocations that the only live one of a job waits for.
func (w *fixture) awaited(job string) []string {
	w.t.Helper()
	live := w.allocs(job)
	if len(live) != 1 {
		w.t.Fatalf("job %s has %d live allocations", job, len(live))
	}
	return slices.Sorted(live[0].Awaits())
}

func sortedIDs(allocs ...*structs.Allocation) []string {
	var ids []string
	for _, a := range allocs {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}

func memory(mb int) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB = mb }
}

func disk(mb int) func(*structs.Job) {
	return func(j *structs.Job) { j.TaskGroups[0].EphemeralDisk.SizeMB = mb }
}

// The log rejects each kind to a plan whose server did not see the allocation that is to end.
func TestPlan_RejectsWhatEndingAllocationsHave(t *testing.T) {
	for name, demanded := range map[string]func(*structs.Job){
		"cpu":           cpu(600),
		"memory":        memory(600),
		"disk":          disk(6000),
		"devices":       demand("gpu", 1),
		"ports":         port("http", 80),
		"dynamic ports": port("http", 0),
		"host volume":   hostVolume(structs.CSISingleNodeSingleWriter, false),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			n := withDevices("n1", "acme/gpu/x1", 1)
			n.NodeResources.NodeNetworks = withPorts("n1", 1).NodeResources.NodeNetworks
			n.NodeResources.MinDynamicPort = 1000
			n.NodeResources.MaxDynamicPort = 1000
			n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/data"}}
			w.node(n)
			w.job(aJob("a", structs.JobService, demanded))
			w.job(aJob("b", structs.JobService, demanded))
			late := w.process(w.eval("b"))
			if len(late.Place) != 1 {
				t.Fatalf("b is not placed on the free node: %s", rejections(late, "g"))
			}
			w.run("a")
			w.stopJob("a")
			late.WriteOptions = w.now()
			do(w, state.PlanApply, late)
			w.wantPlaced("b", "")
		})
	}
}

func TestCapacity_IsTakenUntilTheNodeReportsTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		demand func(*structs.Job)
		reason string
	}{
		"cpu":           {cpu(600), "cpu exhausted"},
		"memory":        {memory(600), "memory exhausted"},
		"disk":          {disk(6000), "disk exhausted"},
		"devices":       {demand("gpu", 1), "devices gpu exhausted"},
		"ports":         {port("http", 80), "port 80"},
		"dynamic ports": {port("http", 0), "dynamic ports of host network"},
		"host volume":   {hostVolume(structs.CSISingleNodeSingleWriter, false), `host volume "data" has a writer`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			n := withDevices("n1", "acme/gpu/x1", 1)
			n.NodeResources.NodeNetworks = withPorts("n1", 1).NodeResources.NodeNetworks
			n.NodeResources.MinDynamicPort = 1000
			n.NodeResources.MaxDynamicPort = 1000
			n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/data"}}
			w.node(n)
			w.job(aJob("a", structs.JobService, c.demand))
			w.run("a")
			w.client(w.allocs("a")[0], structs.AllocRunning)
			stopped := w.stopJob("a")

			w.job(aJob("b", structs.JobService, c.demand))
			p := w.run("b")
			w.wantPlaced("b", "")
			if got := rejections(p, "g"); !strings.Contains(got, c.reason) {
				t.Errorf("b is rejected with %q, want %q", got, c.reason)
			}
			w.client(stopped[0], structs.AllocComplete)
			w.pendingRun()
			w.wantPlaced("b", "0@n1")
			if waits := w.awaited("b"); len(waits) > 0 {
				t.Errorf("b waits for %v", waits)
			}
		})
	}
}

// A plan replaces an allocation on the only node. The successor of a successor waits for the first one too,
// because the second may end before it has started.
func TestCapacity_OfReplacedAllocations(t *testing.T) {
	w := running(t, aJob("a", structs.JobService, cpu(700)), "n1")
	first := w.allocs("a")[0]
	w.client(first, structs.AllocRunning)
	w.job(aJob("a", structs.JobService, cpu(800), atOnce))
	w.run("a")
	second := w.allocs("a")[0]
	if got := w.awaited("a"); !slices.Equal(got, []string{first.ID}) || len(second.AwaitedAllocations) > 0 {
		t.Errorf("the second waits for %v, by name %v", got, second.AwaitedAllocations)
	}
	w.job(aJob("a", structs.JobService, cpu(750)))
	w.run("a")
	third := w.allocs("a")[0]
	if third.ID == second.ID || !slices.Equal(w.awaited("a"), sortedIDs(first, second)) {
		t.Errorf("the third waits for %v", w.awaited("a"))
	}

	w.job(aJob("b", structs.JobService, cpu(1)))
	w.run("b")
	w.wantPlaced("b", "") // 2250 of 1000 are given
	w.client(second, structs.AllocComplete)
	w.run("b")
	w.wantPlaced("b", "")
	w.job(aJob("a", structs.JobService, cpu(760)))
	w.run("a")
	if w.allocs("a")[0].ID != third.ID {
		t.Error("a successor has more capacity than its predecessor while the node has none")
	}
	w.client(first, structs.AllocComplete)
	w.run("b")
	w.wantPlaced("b", "0@n1")
	w.run("a")
	w.wantPlaced("a", "0@n1")
	if w.allocs("a")[0].ID == third.ID {
		t.Error("the newer version has no place although there is capacity")
	}
}

// A placement has the capacity of an allocation of another group, which has waited for its predecessor. That
// one may end at once, so the placement waits for the predecessor, too.
func TestCapacity_OfOneThatWaits(t *testing.T) {
	w := running(t, aJob("a", structs.JobService, cpu(700)), "n1")
	first := w.allocs("a")[0]
	w.client(first, structs.AllocRunning)
	w.job(aJob("a", structs.JobService, cpu(800), atOnce))
	w.run("a")
	second := w.allocs("a")[0]
	w.job(aJob("a", structs.JobService, cpu(800), func(j *structs.Job) { j.TaskGroups[0].Name = "other" }))
	w.run("a")
	if got := w.awaited("a"); !slices.Equal(got, sortedIDs(first, second)) {
		t.Errorf("it waits for %v, want %v", got, sortedIDs(first, second))
	}
}

// A placement in the capacity of other allocations that its plan stops names them, one with free capacity
// does not.
func TestCapacity_OfOtherGroups(t *testing.T) {
	groups := func(names string, cpu int) func(*structs.Job) {
		return func(j *structs.Job) {
			first := *j.TaskGroups[0]
			j.TaskGroups = nil
			for _, name := range strings.Fields(names) {
				g := first
				g.Name = name
				task := *first.Tasks[0]
				task.Resources = &structs.Resources{CPU: cpu, MemoryMB: 10}
				g.Tasks = []*structs.Task{&task}
				j.TaskGroups = append(j.TaskGroups, &g)
			}
		}
	}
	w := running(t, aJob("a", structs.JobService, groups("x", 600)), "n1")
	x := w.allocs("a")[0]
	w.job(aJob("a", structs.JobService, groups("y z", 400)))
	w.run("a")
	waits := 0
	for _, a := range w.allocs("a") {
		if slices.Equal(a.AwaitedAllocations, []string{x.ID}) {
			waits++
		}
	}
	if w.placed("a") != "0@n1 0@n1" || waits != 1 {
		t.Errorf("%s, %d of them wait for x; want one", w.placed("a"), waits)
	}
}

func TestCapacity_OfALostNodeIsFree(t *testing.T) {
	w := running(t, aJob("a", structs.JobService, cpu(600)), "n1")
	w.stopJob("a")
	w.status("n1", structs.NodeDown)
	w.node(aNode("n1"))
	w.status("n1", structs.NodeReady)
	w.job(aJob("b", structs.JobService, cpu(600)))
	w.run("b")
	w.wantPlaced("b", "0@n1")
}

// Of two plans from one state that stop an allocation each has its capacity, the log lets the first one have
// it.
func TestPlan_GivesTheCapacityOfAStopOnce(t *testing.T) {
	w := running(t, aJob("a", structs.JobService, cpu(700)), "n1")
	w.job(aJob("a", structs.JobService, cpu(800), atOnce))
	one, two := w.process(w.eval("a")), w.process(w.eval("a"))
	w.apply(one)
	two.WriteOptions = w.now()
	do(w, state.PlanApply, two)
	e := state.Eval(w.s.Read(), two.Eval.ID)
	if e.Status != structs.EvalPending || !strings.Contains(e.StatusDescription, "no cpu left") {
		t.Errorf("the second plan is %s: %s", e.Status, e.StatusDescription)
	}
}

// A plan stops an allocation, and places another one in free capacity. Another job has that capacity when the
// plan is applied. The capacity of the stopped one would do, but the new one does not wait for its end.
func TestPlan_RejectsCapacityThatAPlacementDoesNotAwait(t *testing.T) {
	w := running(t, aJob("a", structs.JobService, cpu(300)), "n1")
	old := w.allocs("a")[0]
	w.client(old, structs.AllocRunning)
	w.job(aJob("a", structs.JobService, cpu(300), func(j *structs.Job) { j.TaskGroups[0].Name = "other" }))
	late := w.process(w.eval("a"))
	if len(late.Place) != 1 || len(slices.Collect(late.Place[0].Awaits())) > 0 {
		t.Fatalf("the plan is %s", describe(late))
	}
	w.job(aJob("b", structs.JobService, cpu(700)))
	w.run("b")
	late.WriteOptions = w.now()
	do(w, state.PlanApply, late)
	e := state.Eval(w.s.Read(), late.Eval.ID)
	if e.Status != structs.EvalPending || !strings.Contains(e.StatusDescription, "it waits for too few") {
		t.Errorf("the evaluation is %s: %s", e.Status, e.StatusDescription)
	}
	if live := w.allocs("a"); len(live) != 1 || live[0].ID != old.ID {
		t.Errorf("the job has %s", w.placed("a"))
	}
	w.run("a")
	if got := w.awaited("a"); !slices.Equal(got, []string{old.ID}) {
		t.Errorf("after another plan it waits for %v", got)
	}
}
