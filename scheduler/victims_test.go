package scheduler

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/structs"
)

// withVictims draws a node with few allocations of other jobs, and a job that may displace them.
func withVictims(t *rapid.T) *fixture {
	w := newFixture(t)
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

// On a node with few allocations the displacement is the best of all that suffice: nobody loses more, or more
// important, allocations than needed.
func TestPreemption_IsTheBestOfANode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := withVictims(t)
		p, err := newPlanner(w.s.Read(), w.eval("high"), w.clock, options{enough: enough})
		if err != nil {
			t.Fatal(err)
		}
		p.decide()
		high := p.placements[0]
		v := p.viewOf(p.allNodes()[0])
		high.plan.filterNodes(p.allNodes())
		if p.checkPlacement(high, v) == nil {
			t.Skip("it fits")
		}
		got := p.displacementOn(high, v)
		want := bestOfAll(p, high, v)
		if want != nil && len(want.victims) > mostSearched {
			t.Skip("it takes too many")
		}
		if want != nil {
			_, exact := p.searchVictims(high, v, p.displaceable(v))
			if !exact {
				t.Skip("it takes too many steps")
			}
		}
		if (got == nil) != (want == nil) || got != nil && got.order != want.order {
			t.Fatalf("displaced %+v, the best is %+v", describeVictims(got), describeVictims(want))
		}
		if got != nil && p.newDisplacement(v, got.victims...).order != got.order {
			t.Fatalf("%+v has another order", describeVictims(got))
		}
	})
}

// bestOfAll tries every set of victims.
func bestOfAll(p *planner, w *placement, v *nodeView) (best *displacement) {
	from := allocsOf(p.displaceable(v))
	for set := 1; set < 1<<len(from); set++ {
		if best != nil && bits.OnesCount(uint(set)) > best.order[0] {
			continue
		}
		var victims []*structs.Allocation
		for i, a := range from {
			if set&(1<<i) != 0 {
				victims = append(victims, a)
			}
		}
		if !p.fitsWithout(w, v, victims) {
			continue
		}
		d := p.newDisplacement(v, victims...)
		if best == nil || d.betterThan(best) {
			best = d
		}
	}
	return best
}

func describeVictims(d *displacement) string {
	if d == nil {
		return "none"
	}
	var all []string
	for _, a := range d.victims {
		all = append(all, fmt.Sprintf("%s (%d MHz, %d MiB)", a.JobID, a.Resources.CPU, a.Resources.MemoryMB))
	}
	slices.Sort(all)
	return fmt.Sprint(d.order, all)
}
