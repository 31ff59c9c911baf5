package scheduler

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/scheduler/feasible"
	"berth/state"
	"berth/structs"
)

// withVictims draws a node with few allocations of other jobs, and a job that may displace them.
func withVictims(t *rapid.T) *fixture {
	w := newFixture(t)
	w.preempting()
	w.preempting()
	n := withDevices("n1", "acme/gpu/x1", 4)
	n.NodeResources.NodeNetworks = withPorts("n1", 3).NodeResources.NodeNetworks
	n.NodeResources.MinDynamicPort = 1000
	n.NodeResources.MaxDynamicPort = 1002
	w.node(n)
	things := map[string]func(*structs.Job){
		"a device":     demand("gpu", 1),
		"a port":       port("http", 80),
		"any port":     port("http", 0),
		"private port": port("http", 0, private),
		"nothing":      func(*structs.Job) {},
	}
	kinds := []string{"nothing", "nothing", "nothing", "a device", "a port", "any port", "private port"}
	for i := range rapid.IntRange(3, 6).Draw(t, "jobs") {
		id := fmt.Sprint("low", i)
		w.job(aJob(id, rapid.SampledFrom([]string{structs.JobService, structs.JobBatch}).Draw(t, "kind"),
			priority(rapid.SampledFrom([]int{10, 20, 20, 40}).Draw(t, "priority")),
			cpu(rapid.SampledFrom([]int{60, 100, 130, 200}).Draw(t, "cpu")),
			count(rapid.IntRange(1, 2).Draw(t, "count")),
			func(j *structs.Job) {
				if j.Type == structs.JobService {
					moves(rapid.IntRange(1, 2).Draw(t, "migrate"))(j)
				}
				j.TaskGroups[0].Tasks[0].Resources.MemoryMB = rapid.SampledFrom([]int{60, 100, 200}).Draw(t, "memory")
			},
			things[rapid.SampledFrom(kinds).Draw(t, "holds")]))
		w.run(id)
	}
	high := []func(*structs.Job){priority(50), cpu(rapid.IntRange(100, 900).Draw(t, "cpu of high"))}
	if rapid.Bool().Draw(t, "with a device") {
		high = append(high, demand("gpu", uint64(rapid.IntRange(1, 3).Draw(t, "devices"))))
	}
	if rapid.Bool().Draw(t, "with a port") {
		high = append(high, port("http", 80))
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "dynamic ports") {
		high = append(high, port(fmt.Sprint("p", i), 0))
	}
	w.job(aJob("high", structs.JobService, high...))
	return w
}

// trialOf returns a trial of an allocation of the job high on the only node, nil if it fits there.
func trialOf(t *rapid.T, w *fixture) *feasible.Trial {
	o := feasible.NewOutlook(w.s.Read(), w.eval("high"), w.clock)
	d := &feasible.Demand{Group: o.Compile(o.Job, o.Job.TaskGroups[0])}
	v := o.ViewOf(o.AllNodes()[0])
	if o.Check(d, v) == nil {
		return nil
	}
	return feasible.NewTrial(o, d, v)
}

// fitsWithout reports whether the placement fits without some allocations.
func fitsWithout(trial *feasible.Trial, victims []*structs.Allocation) bool {
	for _, a := range victims {
		trial.SetAside(a)
	}
	fits := trial.Fits()
	for _, a := range victims {
		trial.PutBack(a)
	}
	return fits
}

// victimsOf returns the allocations that the job high displaces.
func victimsOf(w *fixture) (victims []*structs.Allocation) {
	for _, a := range w.process(w.eval("high")).Place {
		for _, id := range a.PreemptedAllocations {
			victims = append(victims, state.Alloc(w.s.Read(), id))
		}
	}
	return victims
}

// A displacement suffices, no victim of it is superfluous, and there is one whenever all victims together
// suffice.
func TestPreemption_NoVictimIsSuperfluous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := withVictims(t)
		high := trialOf(t, w)
		if high == nil {
			t.Skip("it fits")
		}
		all := slices.Collect(state.LiveAllocsByNode(w.s.Read(), "n1"))
		victims := victimsOf(w)
		if len(victims) == 0 {
			if fitsWithout(high, all) {
				t.Fatalf("none is displaced, and %s would suffice", describeVictims(all))
			}
			return
		}
		if !fitsWithout(high, victims) {
			t.Fatalf("%s do not suffice", describeVictims(victims))
		}
		for i := range victims {
			others := slices.Delete(slices.Clone(victims), i, i+1)
			if fitsWithout(high, others) {
				t.Fatalf("of %s, %s suffice", describeVictims(victims), describeVictims(others))
			}
		}
	})
}

func describeVictims(victims []*structs.Allocation) string {
	var all []string
	for _, a := range victims {
		all = append(all, fmt.Sprintf("%s (%d MHz, %d MiB)", a.JobID, a.Resources.CPU, a.Resources.MemoryMB))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}
