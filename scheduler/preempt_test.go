package scheduler

import (
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

func priority(n int) func(*structs.Job) { return func(j *structs.Job) { j.Priority = n } }

// preempting lets jobs of all types displace others.
func (w *fixture) preempting() {
	w.t.Helper()
	do(w, state.SchedulerConfigSet, &cluster.SchedulerConfigRequest{
		Config: cluster.SchedulerConfiguration{PreemptionConfig: cluster.PreemptionConfig{
			SystemSchedulerEnabled:   true,
			SysBatchSchedulerEnabled: true,
			BatchSchedulerEnabled:    true,
			ServiceSchedulerEnabled:  true,
		}},
		WriteOptions: w.now(),
	})
}

// evicted are the jobs of displaced allocations, each by its name.
func (w *fixture) evicted() string {
	var out []string
	tx := w.s.Read()
	for a := range state.AllocsFrom(tx, structs.DefaultNamespace, "", state.Page{}) {
		if a.DesiredStatus == structs.AllocDesiredEvict {
			out = append(out, a.JobID)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestPreemption_DisplacesFewOfTheLowestPriority(t *testing.T) {
	for name, c := range map[string]struct {
		others  map[string][]int // by job: priority, cpu
		ask     int
		evicted string
	}{
		"one that suffices":  {map[string][]int{"a": {20, 300}, "b": {20, 600}}, 500, "b"},
		"the lower priority": {map[string][]int{"a": {30, 500}, "b": {20, 500}}, 400, "b"},
		"the lower priority before the least excess": {
			map[string][]int{"a": {30, 400}, "b": {20, 600}}, 300, "b"},
		"the least excess": {map[string][]int{"a": {20, 450}, "b": {20, 550}}, 400, "a"},
		"two of the lowest priority before one": {
			map[string][]int{"a": {10, 250}, "b": {10, 250}, "c": {40, 500}}, 500, "a b"},
		"none that a more important one makes superfluous": {
			map[string][]int{"a": {10, 250}, "b": {20, 200}, "c": {40, 550}}, 500, "c"},
		"two": {
			map[string][]int{"a": {20, 300}, "b": {20, 280}, "c": {30, 400}}, 710, "a c"},
		"three": {map[string][]int{"a": {20, 260}, "b": {20, 250}, "c": {20, 245}, "d": {20, 240}}, 700,
			"a b d"},
		"free capacity counts":        {map[string][]int{"a": {20, 300}, "b": {20, 320}}, 650, "a"},
		"a gap of ten":                {map[string][]int{"a": {40, 1000}}, 500, "a"},
		"a gap of nine":               {map[string][]int{"a": {41, 1000}}, 500, ""},
		"not enough lower ones":       {map[string][]int{"a": {20, 400}, "b": {50, 600}}, 500, ""},
		"none where free capacity is": {map[string][]int{"a": {20, 400}}, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			w.nodes("n1")
			for id, o := range c.others {
				w.job(aJob(id, structs.JobService, priority(o[0]), cpu(o[1])))
				w.run(id)
				w.client(w.allocs(id)[0], structs.AllocRunning)
			}
			w.job(aJob("high", structs.JobService, priority(50), cpu(c.ask)))
			p := w.process(w.eval("high"))
			w.apply(p)
			if got := w.evicted(); got != c.evicted {
				t.Errorf("displaced %q, want %q", got, c.evicted)
			}
			for _, a := range w.allocs("high") {
				if len(a.PreemptedAllocations) != len(strings.Fields(c.evicted)) || len(a.AwaitedAllocations) > 0 {
					t.Errorf("it names %v and %v", a.PreemptedAllocations, a.AwaitedAllocations)
				}
				for _, id := range a.PreemptedAllocations {
					victim := state.Alloc(w.s.Read(), id)
					if victim.PreemptedByAllocation != a.ID || victim.Stub().PreemptedByAllocation != a.ID ||
						victim.DesiredDescription != "Preempted by alloc ID "+a.ID {
						t.Errorf("the victim is %+v", victim)
					}
				}
			}
			evals := 0
			for _, e := range w.evals(structs.EvalPending) {
				if e.TriggeredBy == structs.TriggerPreemption {
					evals++
				}
			}
			if evals != len(strings.Fields(c.evicted)) {
				t.Errorf("%d evaluations of displaced jobs", evals)
			}
		})
	}
}

func TestPreemption_TakesPortsAndDevices(t *testing.T) {
	for name, demanded := range map[string]func(*structs.Job){
		"port":   port("http", 80),
		"device": demand("gpu", 1),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.preempting()
			n := withDevices("n1", "acme/gpu/x1", 1)
			n.NodeResources.NodeNetworks = withPorts("n1", 1).NodeResources.NodeNetworks
			w.node(n)
			w.job(aJob("other", structs.JobService, priority(10), cpu(300)))
			w.run("other")
			w.job(aJob("low", structs.JobService, priority(20), demanded))
			w.run("low")
			w.job(aJob("high", structs.JobService, priority(50), demanded))
			w.apply(w.process(w.eval("high")))
			w.wantPlaced("high", "0@n1")
			if got := w.evicted(); got != "low" {
				t.Errorf("displaced %q", got)
			}
		})
	}
}

// Without a configuration only system jobs displace others. Nobody displaces a plugin, an allocation of its
// own job, or one on a node whose agent would not wait.
func TestPreemption_IsLimited(t *testing.T) {
	plugin := func(j *structs.Job) {
		j.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "p", Type: structs.CSIPluginNode}
	}
	for name, c := range map[string]struct {
		all     bool
		kind    string
		low     func(*structs.Job)
		evicted string
	}{
		"system by default":  {false, structs.JobSystem, priority(20), "low"},
		"service by default": {false, structs.JobService, priority(20), ""},
		"batch by default":   {false, structs.JobBatch, priority(20), ""},
		"batch":              {true, structs.JobBatch, priority(20), "low"},
		"a plugin":           {true, structs.JobService, plugin, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			if c.all {
				w.preempting()
			}
			w.nodes("n1")
			w.job(aJob("low", structs.JobService, cpu(800), priority(20), c.low))
			w.run("low")
			w.job(aJob("high", c.kind, cpu(800), priority(60)))
			w.apply(w.process(w.eval("high")))
			if got := w.evicted(); got != c.evicted {
				t.Errorf("displaced %q, want %q", got, c.evicted)
			}
		})
	}
}

// A displaced job waits until there is capacity, and the capacity of its old allocation is not given twice.
func TestPreemption_OfTheDisplacedJob(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	w.job(aJob("low", structs.JobService, cpu(800), priority(20)))
	w.run("low")
	victim := w.allocs("low")[0]
	w.client(victim, structs.AllocRunning)
	w.job(aJob("high", structs.JobService, cpu(800), priority(50)))
	w.apply(w.process(w.eval("high")))
	w.pendingRun()
	w.wantPlaced("low", "")
	w.job(aJob("higher", structs.JobService, cpu(800), priority(70)))
	w.apply(w.process(w.eval("higher")))
	first := state.Alloc(w.s.Read(), victim.ID).PreemptedByAllocation
	higher := w.allocs("higher")
	if len(higher) != 1 || !slices.Equal(slices.Sorted(higher[0].Awaits()), sortedIDs(victim,
		state.Alloc(w.s.Read(), first))) {
		t.Errorf("the one that displaces a waiting one waits for %v", slices.Collect(higher[0].Awaits()))
	}
}

// The log lets the first of two plans displace an allocation, and checks the priority again.
func TestPlan_DisplacesOnce(t *testing.T) {
	w := newFixture(t)
	w.preempting()
	w.nodes("n1")
	w.job(aJob("low", structs.JobService, cpu(800), priority(20)))
	w.run("low")
	w.job(aJob("h1", structs.JobService, cpu(800), priority(50)))
	w.job(aJob("h2", structs.JobService, cpu(800), priority(50)))
	late := w.process(w.eval("h1"))
	w.job(aJob("low", structs.JobService, cpu(800), priority(45)))
	late.WriteOptions = w.now()
	do(w, state.PlanApply, late)
	w.wantPlaced("h1", "")
	w.job(aJob("low", structs.JobService, cpu(800), priority(20)))
	p1, p2 := w.process(w.eval("h1")), w.process(w.eval("h2"))
	w.apply(p1)
	p2.WriteOptions = w.now()
	do(w, state.PlanApply, p2)
	w.wantPlaced("h1", "0@n1")
	w.wantPlaced("h2", "")
}
