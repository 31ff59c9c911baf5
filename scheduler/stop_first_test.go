package scheduler

import (
	"slices"
	"testing"

	"berth/scheduler/rollout"
	"berth/structs"
)

// paced gives the first group of a service a count and a pace.
func paced(count, most int) func(*structs.Job) {
	return func(j *structs.Job) {
		u := structs.DefaultUpdateStrategy()
		u.MaxParallel = most
		j.TaskGroups[0].Update = &u
		j.TaskGroups[0].Count = count
	}
}

// web is a service with a count and a pace.
func web(size, count, most int, edits ...func(*structs.Job)) *structs.Job {
	all := append([]func(*structs.Job){cpu(size), paced(count, most)}, edits...)
	return aJob("web", structs.JobService, all...)
}

// onFullNode is a cluster of a node with 1000 MHz, on which allocations of web with 300 MHz run.
func onFullNode(t *testing.T) *settling {
	x := &settling{newFixture(t)}
	x.nodes("n1")
	x.register(web(300, 3, 1))
	x.settle()
	return x
}

// wantStops checks the number of allocations that a plan stops and places.
func (x *settling) wantStops(p *structs.Plan, stops, places int) {
	x.t.Helper()
	if len(p.Stop) != stops || len(p.Place) != places {
		x.t.Errorf("want %d stops and %d placements: %s", stops, places, describe(p))
	}
}

// A larger version takes the place of two predecessors if the pace of the group admits both stops.
func TestStopFirst_KeepsThePace(t *testing.T) {
	for most, stops := range map[int]int{1: 0, 2: 2, 3: 2} {
		x := onFullNode(t)
		x.wantStops(x.register(web(650, 3, most)), stops, stops/2)
	}
}

// Stops that do not help are taken back: all predecessors run on.
func TestStopFirst_StopsNoneInVain(t *testing.T) {
	const all = rollout.MostRejected + 4
	x := &settling{newFixture(t)}
	x.nodes("n1", "n2")
	x.register(web(50, all, 1))
	x.settle()
	x.wantStops(x.register(web(1100, all, all)), 0, 0)
	if got := len(x.allocs("web")); got != all {
		t.Errorf("%d of %d run on", got, all)
	}
}

// Nothing more is stopped while a place of the group is empty. A node with capacity fills it.
func TestStopFirst_StopsNoneBesideAnEmptyPlace(t *testing.T) {
	x := &settling{newFixture(t)}
	x.nodes("n1")
	x.register(web(250, 4, 1))
	x.settle()
	x.wantStops(x.register(web(450, 4, 4)), 2, 1)
	x.settle()
	x.wantStops(x.process(x.eval("web")), 0, 0)
	x.nodes("n2")
	x.settle()
	x.wantNewest("web", 4)
}

// A canary stops no allocation of its group.
func TestStopFirst_IsNotForCanaries(t *testing.T) {
	x := onFullNode(t)
	x.wantStops(x.register(web(650, 3, 3, func(j *structs.Job) {
		j.TaskGroups[0].Update.Canary = 1
	})), 0, 0)
}

// An allocation that the group misses for another reason, such as a drain, counts.
func TestStopFirst_CountsOthersThatAreMissing(t *testing.T) {
	for _, c := range []struct{ count, stops int }{{3, 2}, {4, 0}} {
		x := onFullNode(t)
		p := x.register(web(650, c.count, 2))
		x.wantStops(p, c.stops, c.stops/2)
	}
}

// An allocation that is too small to help runs on, although it is the first that is tried.
func TestStopFirst_StopsNoSuperfluousOne(t *testing.T) {
	x := &settling{newFixture(t)}
	x.nodes("n1")
	x.job(aJob("other", structs.JobService, cpu(400)))
	x.run("other")
	x.register(web(100, 2, 1))
	x.settle()
	x.register(web(400, 3, 1)) // places the third one
	small := x.allocs("web")[1].ID
	p := x.register(web(450, 3, 3))
	x.wantStops(p, 2, 1)
	if slices.ContainsFunc(p.Stop, func(s *structs.PlanStop) bool { return s.AllocID == small }) {
		t.Errorf("the small one stops: %s", describe(p))
	}
}

// Two groups that exchange their ports run on: the user untangles them.
func TestStopFirst_StopsNoneOfAnotherGroup(t *testing.T) {
	x := &settling{newFixture(t)}
	x.node(withPorts("n1", 1))
	version := func(first, second int) *structs.Job {
		j := aJob("web", structs.JobService, port("http", first), paced(1, 2))
		other := aJob("web", structs.JobService, port("http", second), paced(1, 2)).TaskGroups[0]
		other.Name = "h"
		j.TaskGroups = append(j.TaskGroups, other)
		return j
	}
	x.register(version(80, 81))
	x.settle()
	x.wantStops(x.register(version(81, 80)), 0, 0)
	x.register(version(82, 80)) // one step aside
	x.settle()
	x.register(version(81, 80))
	x.settle()
	x.wantNewest("web", 2)
}
