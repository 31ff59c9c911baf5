package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// moves sets the number of allocations that a group may miss when nodes drain.
func moves(most int) func(*structs.Job) {
	return func(j *structs.Job) {
		m := structs.DefaultMigrateStrategy()
		m.MaxParallel = most
		j.TaskGroups[0].Migrate = &m
	}
}

// evictedCounts counts the displaced allocations by job.
func (w *fixture) evictedCounts() string {
	counts := map[string]int{}
	for _, job := range strings.Fields(w.evicted()) {
		counts[job]++
	}
	return fmt.Sprint(counts)
}

// Of victims of one priority those come first whose group can miss one: max_parallel of migrate, without the
// allocations that it misses already, and without the other victims.
func TestPreemption_SparesGroupsThatMissSome(t *testing.T) {
	low := func(id string, n, mhz, most int) *structs.Job {
		return aJob(id, structs.JobService, priority(20), count(n), cpu(mhz), moves(most))
	}
	for name, c := range map[string]struct {
		low  []*structs.Job
		ask  int
		high int    // count
		want string // displaced
	}{
		"one each": {[]*structs.Job{low("a", 3, 200, 1), low("b", 1, 400, 1)}, 200, 2, "map[a:1 b:1]"},
		"two of a": {[]*structs.Job{low("a", 3, 200, 2), low("b", 1, 400, 1)}, 200, 2, "map[a:2]"},
		"in one displacement": {
			[]*structs.Job{low("a", 2, 300, 1), low("b", 1, 390, 1)}, 590, 1, "map[a:1 b:1]"},
		"in a large one": {
			[]*structs.Job{low("a", 4, 200, 1), low("b", 1, 100, 1), low("c", 1, 100, 1)}, 400, 1, "map[a:1 b:1 c:1]"},
		"three": {
			[]*structs.Job{low("a", 3, 170, 1), low("b", 1, 160, 1), low("c", 1, 164, 1), low("d", 1, 165, 1)},
			480, 1, "map[a:1 b:1 d:1]"},
		"beyond it if nothing else is there": {[]*structs.Job{low("a", 3, 300, 1)}, 300, 2, "map[a:2]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			w.nodes("n1")
			for _, j := range c.low {
				w.job(j)
				w.run(j.ID)
			}
			w.job(aJob("high", structs.JobService, priority(50), count(c.high), cpu(c.ask)))
			w.apply(w.process(w.eval("high")))
			if got := w.evictedCounts(); got != c.want {
				t.Errorf("displaced %s, want %s", got, c.want)
			}
		})
	}
}

// A group that has lost an allocation before misses it until the job has another one.
func TestPreemption_RemembersWhatAGroupMisses(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	w.job(aJob("a", structs.JobService, priority(20), count(2), cpu(200), moves(1)))
	w.job(aJob("b", structs.JobService, priority(20), cpu(500), moves(1)))
	w.run("a")
	w.run("b")
	for i, want := range []string{"a", "a b"} {
		id := fmt.Sprint("high", i)
		w.job(aJob(id, structs.JobService, priority(50), cpu(250)))
		w.apply(w.process(w.eval(id)))
		if got := w.evicted(); got != want {
			t.Errorf("after %d displacements: %q, want %q", i+1, got, want)
		}
		for _, high := range w.allocs(id) {
			w.client(state.Alloc(w.s.Read(), high.PreemptedAllocations[0]), structs.AllocComplete)
		}
	}
}

// A canary runs beside the allocations of its group, so the group can miss no more because of it.
func TestPreemption_CountsNoCanariesAsSpare(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	low := func(mhz int) *structs.Job {
		return aJob("a", structs.JobService, priority(20), count(2), cpu(mhz), moves(1), withCanaries(1))
	}
	w.job(low(200))
	w.run("a")
	w.job(aJob("b", structs.JobService, priority(20), cpu(390), moves(1)))
	w.run("b")
	w.job(low(201))
	w.run("a")
	w.wantPlaced("a", "0@n1 0@n1 1@n1")
	w.job(aJob("high", structs.JobService, priority(50), count(2), cpu(190)))
	w.apply(w.process(w.eval("high")))
	if got := w.evictedCounts(); got != "map[a:1 b:1]" {
		t.Errorf("displaced %s, want one of each", got)
	}
}

// Only capacity, ports and devices are taken from others. An allocation that would find no place for another
// reason displaces none.
func TestPreemption_TakesNothingElse(t *testing.T) {
	for name, demanded := range map[string]func(*structs.Job){
		"a host volume":                hostVolume(structs.CSISingleNodeSingleWriter, false),
		"a volume that does not exist": volume("none", structs.CSISingleNodeWriter, false),
		"distinct hosts":               constraints(&structs.Constraint{Operand: structs.ConstraintDistinctHosts}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			n := aNode("n1")
			n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/data"}}
			w.node(n)
			low := demanded
			if name == "a volume that does not exist" {
				low = cpu(800)
			}
			w.job(aJob("low", structs.JobService, priority(20), cpu(800), low))
			w.run("low")
			w.job(aJob("high", structs.JobService, priority(50), count(2), cpu(100), demanded))
			w.apply(w.process(w.eval("high")))
			if got := w.evicted(); got != "" {
				t.Errorf("displaced %s", got)
			}
		})
	}
}

// An allocation that has ended since the plan was made is not displaced.
func TestPlan_DisplacesNoneThatHasEnded(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	w.job(aJob("low", structs.JobService, priority(20), cpu(800)))
	w.run("low")
	w.job(aJob("high", structs.JobService, priority(50), cpu(800)))
	p := w.process(w.eval("high"))
	w.client(w.stopJob("low")[0], structs.AllocComplete)
	p.WriteOptions = w.now()
	do(w, state.PlanApply, p)
	w.wantPlaced("high", "0@n1")
	if got := w.evicted(); got != "" {
		t.Errorf("displaced %s", got)
	}
}

// Devices are taken one by one: from the holders of those that the demand accepts, and from no more of them
// than it needs.
func TestPreemption_OfDevices(t *testing.T) {
	for name, c := range map[string]struct {
		low     map[string]func(*structs.Job)
		high    func(*structs.Job)
		evicted string
	}{
		"the model": {map[string]func(*structs.Job){
			"a": demand("acme/gpu/x1", 2), "b": demand("acme/gpu/x2", 2), "c": cpu(300)},
			demand("acme/gpu/x2", 1), "b"},
		"the lower priority": {map[string]func(*structs.Job){
			"a": both(demand("acme/gpu/x1", 1), priority(30)), "b": demand("acme/gpu/x1", 1)},
			demand("acme/gpu/x1", 1), "b"},
		"as many as needed": {map[string]func(*structs.Job){
			"a": demand("acme/gpu/x1", 1), "b": demand("acme/gpu/x1", 1), "c": demand("acme/gpu/x2", 2)},
			demand("acme/gpu/x1", 2), "a b"},
		"free ones count": {map[string]func(*structs.Job){
			"a": demand("acme/gpu/x1", 1), "b": demand("acme/gpu/x2", 1)},
			demand("acme/gpu/x1", 2), "a"},
		"of any model the fewest": {map[string]func(*structs.Job){
			"a": demand("acme/gpu/x1", 1), "b": demand("acme/gpu/x1", 1), "c": demand("acme/gpu/x2", 2)},
			demand("gpu", 2), "c"},
		"not of others": {map[string]func(*structs.Job){
			"a": both(demand("acme/gpu/x1", 2), priority(45))},
			demand("acme/gpu/x1", 1), ""},
		"of the model before capacity": {map[string]func(*structs.Job){
			"a": both(demand("acme/gpu/x1", 1), cpu(400), priority(30)),
			"b": both(demand("acme/gpu/x2", 2), priority(35)), "c": cpu(400)},
			both(demand("acme/gpu/x2", 1), cpu(500)), "b c"},
		"with capacity": {map[string]func(*structs.Job){
			"a": both(demand("acme/gpu/x1", 2), cpu(100)), "b": cpu(800)},
			both(demand("acme/gpu/x1", 1), cpu(500)), "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			n := withDevices("n1", "acme/gpu/x1", 2)
			n.NodeResources.Devices = append(n.NodeResources.Devices,
				withDevices("n1", "acme/gpu/x2", 2).NodeResources.Devices...)
			w.node(n)
			for id, edit := range c.low {
				w.job(aJob(id, structs.JobService, cpu(50), priority(20), edit))
				w.run(id)
			}
			w.job(aJob("high", structs.JobService, cpu(50), priority(50), c.high))
			w.apply(w.process(w.eval("high")))
			if got := w.evicted(); got != c.evicted {
				t.Errorf("displaced %q, want %q", got, c.evicted)
			}
			for _, a := range w.allocs("high") {
				held := map[string]bool{}
				for _, id := range a.PreemptedAllocations {
					for _, d := range state.Alloc(w.s.Read(), id).Devices["t"] {
						for _, instance := range d.DeviceIDs {
							held[instance] = true
						}
					}
				}
				if name != "free ones count" && !holdsAll(held, a) {
					t.Errorf("it has %+v, its victims had %v", a.Devices["t"], held)
				}
			}
		})
	}
}

func both(edits ...func(*structs.Job)) func(*structs.Job) {
	return func(j *structs.Job) {
		for _, edit := range edits {
			edit(j)
		}
	}
}

func holdsAll(held map[string]bool, a *structs.Allocation) bool {
	return !slices.ContainsFunc(a.Devices["t"], func(d *structs.AllocatedDeviceResource) bool {
		return slices.ContainsFunc(d.DeviceIDs, func(id string) bool { return !held[id] })
	})
}

// Each switch of the configuration is for one type of jobs.
func TestPreemption_ByJobType(t *testing.T) {
	types := map[string]cluster.PreemptionConfig{
		structs.JobService:  {ServiceSchedulerEnabled: true},
		structs.JobBatch:    {BatchSchedulerEnabled: true},
		structs.JobSystem:   {SystemSchedulerEnabled: true},
		structs.JobSysBatch: {SysBatchSchedulerEnabled: true},
	}
	for allowed, config := range types {
		for jobType := range types {
			w := newFixture(t)
			do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
				Config:       cluster.SchedulerConfiguration{PreemptionConfig: config},
				WriteOptions: w.now(),
			})
			w.nodes("n1")
			w.job(aJob("low", structs.JobService, cpu(800), priority(20)))
			w.run("low")
			w.job(aJob("high", jobType, cpu(800), priority(60)))
			w.apply(w.process(w.eval("high")))
			if got := w.evicted() == "low"; got != (jobType == allowed) {
				t.Errorf("allowed for %s: a %s job displaces others: %v", allowed, jobType, got)
			}
		}
	}
}
