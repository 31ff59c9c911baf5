package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// TestProcess_Properties makes random changes to a small cluster. After every plan no node has more than it
// can give. No two live allocations exclude each other from a volume unless the newer one replaces the other.
// Constraints of nodes hold. A second plan changes nothing (run checks that).
func TestProcess_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		c := randomJobs{fixture: w, t: t}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			c.register(fmt.Sprintf("n%d", i))
		}
		for range rapid.IntRange(5, 25).Draw(t, "steps") {
			c.step()
		}
		for _, id := range someJobs {
			c.settle(id)
		}
	})
}

var (
	someJobs    = []string{"web", "db", "sum", "log", "scan"}
	someVolumes = []string{"db", "share", "db[0]", "db[1]"}
)

type randomJobs struct {
	*fixture
	t *rapid.T
}

func (c *randomJobs) register(id string) {
	n, k := half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController)
	n.NodeInfo.MaxVolumes = int64(rapid.IntRange(0, 2).Draw(c.t, "limit"))
	n.Healthy = rapid.Bool().Draw(c.t, "healthy")
	node := aNode(id)
	node.NodeResources.CPU.CpuShares = int64(rapid.IntRange(0, 1000).Draw(c.t, "cpu"))
	node.Meta["rack"] = rapid.SampledFrom([]string{"r1", "r2"}).Draw(c.t, "rack")
	c.node(node, n, k)
}

func (c *randomJobs) step() {
	t := c.t
	c.clock = c.clock.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
	node := rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(t, "node")
	job := rapid.SampledFrom(someJobs).Draw(t, "job")
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 0, 1:
		c.change(job)
	case 2:
		c.status(node, rapid.SampledFrom([]string{structs.NodeReady, structs.NodeDown}).Draw(t, "status"))
	case 3:
		c.register(node)
	case 4:
		c.fixture.volume(rapid.SampledFrom(someVolumes).Draw(t, "volume"), "hostpath")
	case 5:
		for _, a := range c.allocs(job) {
			c.client(a, rapid.SampledFrom([]string{structs.AllocRunning, structs.AllocFailed,
				structs.AllocComplete}).Draw(t, "client"))
			break
		}
	case 6:
		if state.Job(c.s.Read(), "default", job) != nil {
			do(c.fixture, state.JobDeregister, &structs.JobDeregisterRequest{JobID: job, WriteOptions: c.now()})
		}
	case 7:
		c.claims(job)
	case 8:
		for _, a := range c.allocs(job) {
			do(c.fixture, state.AllocStop, &structs.AllocStopRequest{AllocID: a.ID, WriteOptions: c.now()})
			break
		}
	}
	c.settle(job)
}

// change registers a job of the kind that its name has.
func (c *randomJobs) change(id string) {
	c.job(c.draw(id))
}

// draw returns a random job of the kind that its name has.
func (c *randomJobs) draw(id string) *structs.Job {
	edits := []func(*structs.Job){count(rapid.IntRange(0, 3).Draw(c.t, "count")),
		cpu(rapid.IntRange(1, 500).Draw(c.t, "cpu"))}
	kinds := map[string]string{
		"sum":  structs.JobBatch,
		"log":  structs.JobSystem,
		"scan": structs.JobSysBatch,
	}
	if rapid.Bool().Draw(c.t, "constrained") {
		edits = append(edits, constraints(&structs.Constraint{
			LTarget: "${meta.rack}",
			RTarget: "r1",
			Operand: "=",
		}))
	}
	if rapid.Bool().Draw(c.t, "with a volume") {
		mode := rapid.SampledFrom(structs.CSIAccessModes).Draw(c.t, "mode")
		edits = append(edits, volume(rapid.SampledFrom([]string{"db", "share"}).Draw(c.t, "source"), mode, false))
	}
	if rapid.Bool().Draw(c.t, "with a limit") {
		limit := distinctProperty(rapid.SampledFrom([]string{"", "1", "2"}).Draw(c.t, "limit"))
		place := constraints
		if rapid.Bool().Draw(c.t, "of the group") {
			place = func(cs ...*structs.Constraint) func(*structs.Job) { return inGroup(cs[0]) }
		}
		edits = append(edits, place(limit))
	}
	edits = append(edits, c.preferences(kinds[id])...)
	if id == "db" && rapid.Bool().Draw(c.t, "per alloc") {
		edits = append(edits, volume("db", structs.CSISingleNodeWriter, true))
	}
	kind := kinds[id]
	if kind == "" {
		kind = structs.JobService
	}
	if kind == structs.JobSystem || kind == structs.JobSysBatch {
		edits[0] = count(1)
	}
	return aJob(id, kind, edits...)
}

// preferences draws affinities and spreads, which jobs of every node do not have.
func (c *randomJobs) preferences(kind string) (edits []func(*structs.Job)) {
	if kind == structs.JobSystem || kind == structs.JobSysBatch {
		return nil
	}
	if rapid.Bool().Draw(c.t, "with an affinity") {
		rack := rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(c.t, "preferred")
		edits = append(edits, prefersRack(rack, int8(rapid.SampledFrom([]int{-100, 1, 100}).Draw(c.t, "weight"))))
	}
	switch rapid.IntRange(0, 2).Draw(c.t, "spread") {
	case 1:
		edits = append(edits, spreadOver("${meta.rack}", 50))
	case 2:
		first := rapid.IntRange(0, 100).Draw(c.t, "percent")
		edits = append(edits, spreadOver("${meta.rack}", 50, "r1", first))
	}
	return edits
}

// checkLimits checks that no allocation of a plan exceeds a distinct_property constraint.
func (c *randomJobs) checkLimits(tx *state.ReadTx, a *structs.Allocation) {
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	group := job.Group(a.TaskGroup)
	for _, limit := range slices.Concat(job.Constraints, group.Constraints) {
		if limit.Operand != structs.ConstraintDistinctProperty {
			continue
		}
		most, _ := limit.PropertyLimit()
		rack := state.Node(tx, a.NodeID).Meta["rack"]
		live := 0
		for other := range state.AllocsByJob(tx, a.Namespace, a.JobID) {
			if !other.Terminal() && state.Node(tx, other.NodeID).Meta["rack"] == rack {
				live++
			}
		}
		if live > most {
			c.t.Fatalf("%s is one of %d allocations on rack %s, at most %d may be", a.Name, live, rack, most)
		}
	}
}

// claims makes the nodes of some allocations claim or release volumes.
func (c *randomJobs) claims(job string) {
	for a := range state.AllocsByJob(c.s.Read(), "default", job) {
		switch {
		case a.ClientTerminal():
			c.release(a)
		case a.ServerTerminal():
			c.client(a, structs.AllocComplete)
		default:
			c.claim(a)
		}
	}
}

// settle plans a job and checks the invariants.
func (c *randomJobs) settle(job string) {
	if j := state.Job(c.s.Read(), "default", job); j == nil {
		return
	}
	p := c.run(job)
	tx := c.s.Read()
	for n := range state.Nodes(tx) {
		var used structs.Resources
		for a := range state.LiveAllocsByNode(tx, n.ID) {
			used = used.Add(*a.Resources)
		}
		// A node may be over full without the plan's doing: it registered again with less.
		if short := n.Available().Exceeded(used); short != "" &&
			slices.ContainsFunc(p.Place, func(a *structs.Allocation) bool {
				return a.NodeID == n.ID
			}) {
			c.t.Fatalf("node %s lacks %s after %s", n.ID, short, describe(p))
		}
	}
	for _, a := range p.Place {
		c.checkPlaced(tx, a)
	}
}

func (c *randomJobs) checkPlaced(tx *state.ReadTx, a *structs.Allocation) {
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	n := state.Node(tx, a.NodeID)
	c.checkLimits(tx, a)
	onFirstRack := slices.ContainsFunc(job.Constraints, func(c *structs.Constraint) bool {
		return c.Operand == "="
	})
	if !n.Ready() || onFirstRack && n.Meta["rack"] != "r1" {
		c.t.Fatalf("%s is on an unfit node", a.Name)
	}
	for _, r := range job.Group(a.TaskGroup).Volumes {
		mine := r.Claim(a.Namespace, a.Index(), a.ID)
		i := csi.Instance(tx, "hostpath", structs.CSIKindNode, n.ID)
		if csi.Volume(tx, mine.Namespace, mine.VolumeID) == nil ||
			i == nil || !i.Healthy {
			c.t.Fatalf("%s is placed without its volume or plugin", a.Name)
		}
		for other := range state.AllocsFrom(tx, a.Namespace, "", state.Page{}) {
			c.checkPair(tx, a, mine, other)
		}
	}
}

// checkPair looks for another live allocation that excludes this one from a volume.
func (c *randomJobs) checkPair(tx *state.ReadTx, a *structs.Allocation, mine *structs.CSIClaim,
	other *structs.Allocation) {
	if other.ID == a.ID || other.Terminal() {
		return
	}
	for _, r := range state.JobVersion(tx, other.Namespace, other.JobID,
		other.JobVersion).Group(other.TaskGroup).Volumes {
		theirs := r.Claim(other.Namespace, other.Index(), other.ID)
		if theirs.VolumeID == mine.VolumeID &&
			theirs.Class().Conflicts(mine.Class()) {
			c.t.Fatalf("%s (%s) and %s (%s) both need volume %s", a.Name, a.ID, other.Name, other.ID, mine.VolumeID)
		}
	}
}

// TestSpread_IsWithinToleranceOnAnEmptyFleet draws fleets and spreads. Nodes have enough capacity, so each
// value has its share, rounded.
func TestSpread_IsWithinToleranceOnAnEmptyFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		sizes := map[string]int{}
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		for i := range racks {
			sizes[fmt.Sprint("r", i)] = rapid.IntRange(3, 12).Draw(t, "nodes")
		}
		w.racks(sizes)
		most := rapid.IntRange(1, 20).Draw(t, "count")
		targets := []any{}
		want := map[string]float64{}
		rest := 100
		if rapid.Bool().Draw(t, "with targets") {
			for rack := range racks {
				percent := rapid.IntRange(0, rest).Draw(t, "percent")
				if rack == racks-1 {
					percent = rest
				}
				rest -= percent
				targets = append(targets, fmt.Sprint("r", rack), percent)
				want[fmt.Sprint("r", rack)] = float64(percent*most) / 100
			}
		}
		w.job(aJob("web", structs.JobService, count(most), cpu(10), spreadOver("${meta.rack}", 100, targets...)))
		w.run("web")
		// A rack whose share is below half an allocation may get none, and another one gets it.
		tolerance := 0.5 + 0.5*float64(racks)
		got := w.perRack("web")
		for rack := range sizes {
			share := float64(most) / float64(racks)
			if len(targets) > 0 {
				share = want[rack]
			}
			if n := float64(got[rack]); n < share-tolerance || n > share+tolerance {
				t.Fatalf("rack %s has %v of %d allocations, want about %v: %v", rack, n, most, share, got)
			}
		}
	})
}
