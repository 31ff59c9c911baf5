package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

func distinctProperty(limit string) *structs.Constraint {
	return &structs.Constraint{
		LTarget: "${meta.rack}",
		RTarget: limit,
		Operand: structs.ConstraintDistinctProperty,
	}
}

// inGroup gives the first group a constraint.
func inGroup(c *structs.Constraint) func(*structs.Job) {
	return func(j *structs.Job) {
		g := j.TaskGroups[0]
		g.Constraints = append(g.Constraints, c)
	}
}

func TestDistinctProperty_LimitsTheAllocationsOfAValue(t *testing.T) {
	both := func(j *structs.Job) {
		inGroup(distinctProperty("3"))(j)
		constraints(distinctProperty("1"))(j)
	}
	for name, c := range map[string]struct {
		edit   func(*structs.Job)
		groups int
		count  int
		placed int
		racks  int // each has the same number
	}{
		"once":                   {inGroup(distinctProperty("")), 1, 5, 3, 3},
		"twice":                  {inGroup(distinctProperty("2")), 1, 9, 6, 3},
		"each group":             {inGroup(distinctProperty("")), 2, 3, 6, 3},
		"all groups of the job":  {constraints(distinctProperty("2")), 2, 4, 6, 3},
		"an unreadable old row":  {inGroup(distinctProperty("two")), 1, 2, 0, 0},
		"the stricter of two":    {both, 1, 9, 3, 3},
		"enough for all of them": {inGroup(distinctProperty("10")), 1, 9, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.racks(map[string]int{"r1": 30, "r2": 3, "r3": 10})
			j := aJob("web", structs.JobService, count(c.count), c.edit, groups(c.groups))
			w.job(j)
			p := w.run("web")
			got := w.perRack("web")
			if n := len(w.allocs("web")); n != c.placed {
				t.Errorf("got %d allocations, want %d: %v", n, c.placed, got)
			}
			for rack, n := range got {
				if c.racks > 0 && (len(got) != c.racks || n != c.placed/c.racks) {
					t.Errorf("rack %s has %d: %v", rack, n, got)
				}
			}
			if failed := c.count*c.groups - c.placed; failed > 0 {
				m := p.Eval.FailedTGAllocs[j.TaskGroups[c.groups-1].Name]
				if m == nil || !strings.Contains(fmt.Sprint(m.Rejections[0]), "distinct_property: ${meta.rack}") {
					t.Errorf("%d are not placed, and the reasons are %+v", failed, m)
				}
			}
		})
	}
}

func TestDistinctProperty_NeedsTheAttribute(t *testing.T) {
	w := newFixture(t)
	n := aNode("n1")
	delete(n.Meta, "rack")
	w.node(n)
	w.job(aJob("web", structs.JobService, inGroup(distinctProperty("9"))))
	p := w.run("web")
	if m := p.Eval.FailedTGAllocs["g"]; m == nil || m.Rejections[0].Filter != rejects.FilterProperty ||
		m.Rejections[0].Reason != "distinct_property: the node has no ${meta.rack}" {
		t.Errorf("got %+v", m)
	}
}

// The allocations that a plan stops leave capacity for their successors, on other nodes of the rack too.
func TestDistinctProperty_LeavesCapacityForSuccessors(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 2, "r2": 2})
	w.job(aJob("web", structs.JobService, count(2), inGroup(distinctProperty(""))))
	w.run("web")
	w.job(aJob("web", structs.JobService, count(2), cpu(300), inGroup(distinctProperty("")), atOnce))
	p := w.run("web")
	if got := w.perRack("web"); len(p.Place) != 2 || got["r1"] != 1 || got["r2"] != 1 {
		t.Errorf("after an update: got %v by %s", got, describe(p))
	}
	w.status(w.allocs("web")[0].NodeID, structs.NodeDown)
	w.run("web")
	if got := w.perRack("web"); got["r1"] != 1 || got["r2"] != 1 {
		t.Errorf("after the end of a node: got %v", got)
	}
	w.client(w.allocs("web")[0], structs.AllocFailed)
	w.clock = w.clock.Add(1e12)
	w.run("web")
	if got := w.perRack("web"); got["r1"] > 1 || got["r2"] > 1 {
		t.Errorf("after a failure: got %v", got)
	}
}

// Two jobs that demand the same, and differ in their allocations, do not stand for each other.
func TestDistinctProperty_IsNoShape(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.job(aJob("web", structs.JobService, count(2), inGroup(distinctProperty(""))))
	p := w.run("web")
	if p.Blocked == nil || p.Blocked.Shape != "" {
		t.Errorf("the blocked evaluation is %+v, want one without a shape", p.Blocked)
	}
}

// An unblocked evaluation tries all nodes, because the end of an allocation makes others feasible: here the
// node that was freed is full again, and of its rack there is one more node among many others.
func TestDistinctProperty_TriesAllNodesAgain(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 600, "r2": 2})
	w.job(aJob("web", structs.JobService, count(3), inGroup(distinctProperty(""))))
	p := w.run("web")
	freed := ""
	for _, a := range w.allocs("web") {
		if state.Node(w.s.Read(), a.NodeID).Meta["rack"] == "r2" {
			freed = a.NodeID
			w.client(a, structs.AllocComplete)
		}
	}
	w.job(aJob("other", structs.JobService, cpu(950), constraints(&structs.Constraint{
		LTarget: "${node.unique.id}",
		Operand: "=",
		RTarget: freed,
	})))
	w.run("other")
	again := w.process(state.Eval(w.s.Read(), p.Blocked.ID))
	if len(again.Place) != 1 {
		t.Errorf("got %s, want one on the other node of the rack", describe(again))
	}
}

// The capacity for a job of every node may come from its allocation on another node.
func TestDistinctProperty_OfAPerNodeJobWaitsForAnyCapacity(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("log", structs.JobSystem, constraints(distinctProperty(""))))
	p := w.run("log")
	if got := blockedOn(p); !slices.Contains(got, structs.WakeCapacity) {
		t.Errorf("it waits for %v", got)
	}
}

// A change of one node matters to the others, so an evaluation for one node places on them.
func TestDistinctProperty_OfAPerNodeJobConsidersAllNodes(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("log", structs.JobSystem, constraints(distinctProperty(""))))
	w.run("log")
	w.wantPlaced("log", "0@n1")
	w.status("n1", structs.NodeDown)
	e := w.eval("log")
	e.NodeID = "n1"
	w.apply(w.process(e))
	w.wantPlaced("log", "0@n2")
}

// A constraint that is new limits the allocations that run, too: one stays where two were.
func TestDistinct_MovesTheAllocationsThatRun(t *testing.T) {
	together := &structs.Constraint{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1"}
	for name, c := range map[string]struct {
		limit *structs.Constraint
		nodes int // of r1
	}{
		"hosts":      {&structs.Constraint{Operand: structs.ConstraintDistinctHosts}, 1},
		"property":   {distinctProperty(""), 2},
		"both nodes": {distinctProperty("2"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.racks(map[string]int{"r1": c.nodes, "r2": 2})
			w.job(aJob("web", structs.JobService, count(2), inGroup(together)))
			w.run("web")
			w.job(aJob("web", structs.JobService, count(2), inGroup(c.limit), atOnce))
			want := "map[r1:1 r2:1]"
			if c.limit.RTarget == "2" {
				want = "map[r1:2]" // the limit admits both
			}
			w.run("web")
			if got := fmt.Sprint(w.perRack("web")); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if p := w.run("web"); len(p.Place)+len(p.Stop) > 0 {
				t.Errorf("the next plan is %s", describe(p))
			}
		})
	}
}

// An allocation that ends because of its count or its group makes capacity: the other one stays.
func TestDistinct_MovesNoneBesideOneThatEnds(t *testing.T) {
	two := func(j *structs.Job) {
		last := *j.TaskGroups[0]
		last.Name = "h"
		j.TaskGroups = append(j.TaskGroups, &last)
	}
	onlyH := func(j *structs.Job) { j.TaskGroups[0].Name = "h" }
	for name, c := range map[string]struct {
		before, after func(*structs.Job)
		stays         string
	}{
		"by its count": {count(2), count(1), "web.g[0]"},
		"by its group": {two, onlyH, "web.h[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 8 { // IDs are random
				w := running(t, aJob("web", structs.JobService, c.before), "n1")
				w.nodes("n2")
				before := w.allocs("web")
				w.job(aJob("web", structs.JobService, c.after, distinctHosts, atOnce))
				w.run("web")
				for _, a := range before {
					if a.Name == c.stays && state.Alloc(w.s.Read(), a.ID).ServerTerminal() {
						t.Fatalf("%s was moved", a.Name)
					}
				}
			}
		})
	}
}

// A job of every node leaves the nodes that a limit which is new excludes.
func TestDistinctProperty_ThatIsNewEndsAllocationsOfAPerNodeJob(t *testing.T) {
	w := newFixture(t)
	w.racks(map[string]int{"r1": 3, "r2": 2})
	w.job(aJob("log", structs.JobSystem))
	w.run("log")
	w.job(aJob("log", structs.JobSystem, constraints(distinctProperty("2"))))
	w.run("log")
	if got := fmt.Sprint(w.perRack("log")); got != "map[r1:2 r2:2]" {
		t.Errorf("got %s", got)
	}
	for _, a := range w.allocs("log") {
		if a.JobVersion != 1 || a.PreviousAllocation != "" {
			t.Errorf("%s on %s was replaced", a.Name, a.NodeID)
		}
	}
}

// An allocation that leaves its node because of another new constraint makes capacity: the other one stays.
func TestDistinct_MovesNoneBesideOneThatLeaves(t *testing.T) {
	for _, kind := range []string{structs.JobService, structs.JobSystem} {
		for range 8 { // IDs are random
			w := newFixture(t)
			w.racks(map[string]int{"r1": 2, "r2": 2})
			together := &structs.Constraint{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1"}
			edits := []func(*structs.Job){distinctHosts, constraints(together)}
			if kind == structs.JobService {
				edits = append(edits, count(2), atOnce)
			}
			w.job(aJob("web", kind, edits...))
			w.run("web")
			before := w.allocs("web")
			leaves := &structs.Constraint{LTarget: "${node.unique.id}", Operand: "!=", RTarget: before[0].NodeID}
			edits[1] = constraints(distinctProperty(""), leaves)
			w.job(aJob("web", kind, edits...))
			w.apply(w.process(w.eval("web")))
			if a := state.Alloc(w.s.Read(), before[1].ID); a.ServerTerminal() {
				t.Fatalf("%s: %s was moved: %s", kind, a.Name, a.DesiredDescription)
			}
			if got := fmt.Sprint(w.perRack("web")); got != "map[r1:1 r2:1]" {
				t.Errorf("%s: got %s", kind, got)
			}
		}
	}
}

// An allocation of another group that leaves its node because of a new constraint makes capacity, too.
func TestDistinct_MovesNoneBesideOneOfAnotherGroupThatLeaves(t *testing.T) {
	for range 8 { // IDs are random
		w := newFixture(t)
		w.nodes("n1")
		groups := func(j *structs.Job) {
			last := *j.TaskGroups[0]
			last.Name = "h"
			j.TaskGroups = append(j.TaskGroups, &last)
		}
		w.job(aJob("web", structs.JobService, groups))
		w.run("web")
		w.nodes("n2")
		w.job(aJob("web", structs.JobService, groups, distinctHosts, atOnce, func(j *structs.Job) {
			leaves := &structs.Constraint{LTarget: "${node.unique.id}", Operand: "!=", RTarget: "n1"}
			j.TaskGroups[1].Constraints = []*structs.Constraint{leaves}
			j.TaskGroups[1].Update = j.TaskGroups[0].Update
		}))
		w.run("web")
		for _, a := range w.allocs("web") {
			if a.TaskGroup == "g" && a.NodeID != "n1" {
				t.Fatalf("%s was moved", a.Name)
			}
		}
	}
}

// An allocation of the newest version stays on its node although its constraints no longer admit the node, so
// the limits count it.
func TestDistinct_CountsOneThatItsNodeNoLongerAdmits(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("web", structs.JobService, count(2), distinctHosts))
	w.run("web")
	zone := &structs.Constraint{LTarget: "${meta.zone}", Operand: "!=", RTarget: "closed"}
	w.job(aJob("web", structs.JobService, count(2), constraints(distinctProperty(""), zone)))
	w.run("web") // the first one stays, and the second one waits for another rack
	for _, a := range w.allocs("web") {
		if a.Index() == 0 {
			n := aNode(a.NodeID)
			n.Meta["zone"] = "closed"
			w.node(n)
		}
	}
	w.run("web")
	version := state.Job(w.s.Read(), "default", "web").Version
	for _, a := range w.allocs("web") {
		if a.Index() == 1 && a.JobVersion == version {
			t.Errorf("%s continues beside another one of its rack", a.Name)
		}
	}
}
