package scheduler

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// TestSystemUpdate_Properties changes a system job at random while nodes come and go, allocations fail,
// operators stop some, and plans of several nodes are made on one state. No version replaces more than
// max_parallel allocations of a group within `stagger`. In the end, when only the time passes, each node runs
// the newest version.
func TestSystemUpdate_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &randomBatches{fixture: newFixture(t), t: t}
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			c.nodes(fmt.Sprintf("n%d", i))
		}
		c.change()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			c.clock = c.clock.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			c.step()
			c.check()
		}
		c.finish()
	})
}

type randomBatches struct {
	*fixture
	t        *rapid.T
	versions int
}

func (c *randomBatches) change() {
	pace := inBatches(rapid.IntRange(0, 3).Draw(c.t, "max_parallel"),
		time.Duration(rapid.IntRange(1, 60).Draw(c.t, "stagger"))*time.Second)
	c.versions++ // each has other tasks
	c.job(aJob("log", structs.JobSystem, pace, cpu(c.versions), func(j *structs.Job) {
		other := *j.TaskGroups[0]
		other.Name = "h"
		j.TaskGroups = append(j.TaskGroups, &other)
	}))
	c.runAll()
}

// runAll evaluates all nodes.
func (c *randomBatches) runAll() {
	c.apply(c.process(c.eval("log")))
}

func (c *randomBatches) step() {
	t := c.t
	node := fmt.Sprintf("n%d", rapid.IntRange(0, 5).Draw(t, "node"))
	if state.Node(c.s.Read(), node) == nil {
		c.nodes(node)
	}
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 0:
		c.change()
	case 1:
		c.status(node, rapid.SampledFrom([]string{structs.NodeReady, structs.NodeDown}).Draw(t, "status"))
		c.runNode("log", node)
	case 2:
		if n := state.Node(c.s.Read(), node); n.Status == structs.NodeReady {
			c.eligibility(node, rapid.SampledFrom([]string{structs.NodeEligible, structs.NodeIneligible}).Draw(t,
				"eligibility"))
		}
		c.runNode("log", node)
	case 3:
		c.runAll()
	case 4:
		c.report(structs.AllocFailed)
	case 5:
		if live := c.allocs("log"); len(live) > 0 {
			a := rapid.SampledFrom(live).Draw(t, "stopped")
			do(c.fixture, state.AllocStop, &structs.AllocStopRequest{AllocID: a.ID, WriteOptions: c.now()})
		}
	case 6:
		c.runNodesAtOnce()
	default:
		c.runDue()
	}
	for a := range state.AllocsByJob(c.s.Read(), "default", "log") {
		if a.ServerTerminal() && !a.ClientTerminal() {
			c.client(a, structs.AllocComplete)
		}
	}
}

func (c *randomBatches) report(status string) {
	if live := c.allocs("log"); len(live) > 0 {
		c.client(rapid.SampledFrom(live).Draw(c.t, "reported"), status)
	}
}

// runNodesAtOnce makes plans of two nodes on one state and applies both.
func (c *randomBatches) runNodesAtOnce() {
	var plans []*structs.Plan
	for _, node := range []string{"n0", "n1"} {
		e := c.eval("log")
		e.NodeID = node
		plans = append(plans, c.process(e))
	}
	for _, p := range plans {
		p.WriteOptions = c.now()
		do(c.fixture, state.PlanApply, p)
	}
}

// runDue processes the evaluations whose time has come, and reports whether there were any.
func (c *randomBatches) runDue() (any bool) {
	for e := range state.LaterEvals(c.s.Read()) {
		if e.WaitUntil <= c.clock.UnixNano() {
			any = true
			c.apply(c.process(e))
		}
	}
	for e := range state.ReadyEvals(c.s.Read()) {
		any = true
		c.apply(c.process(e))
	}
	return any
}

// check counts, for each update, those of its group and version in the time of one stagger before it.
func (c *randomBatches) check() {
	tx := c.s.Read()
	type key struct {
		group   string
		version uint64
	}
	updates := map[key][]int64{}
	for a := range state.AllocsByJob(tx, "default", "log") {
		prev := state.Alloc(tx, a.PreviousAllocation)
		if prev != nil && prev.JobVersion != a.JobVersion && prev.StopCause == structs.StopReplaced {
			k := key{a.TaskGroup, a.JobVersion}
			updates[k] = append(updates[k], a.CreateTime)
		}
	}
	paces := map[uint64]*structs.UpdateStrategy{}
	for v := range state.JobVersions(tx, "default", "log") {
		paces[v.Version] = v.TaskGroups[0].Update
	}
	for k, times := range updates {
		pace := paces[k.version]
		if pace == nil || pace.MaxParallel == 0 {
			continue
		}
		for _, end := range times {
			n := 0
			for _, at := range times {
				if at <= end && at > end-int64(pace.Stagger) {
					n++
				}
			}
			if n > pace.MaxParallel {
				c.t.Fatalf("%d allocations of group %s were replaced in %s, at most %d may be",
					n, k.group, pace.Stagger, pace.MaxParallel)
			}
		}
	}
}

// finish lets the time pass until nothing is left to do.
func (c *randomBatches) finish() {
	for n := range state.Nodes(c.s.Read()) {
		c.status(n.ID, structs.NodeReady)
		c.eligibility(n.ID, structs.NodeEligible)
	}
	for range 100 {
		for plans := 0; c.runDue(); plans++ {
			c.check()
			if plans > 100 {
				c.t.Fatal("evaluations follow each other without end")
			}
		}
		next := int64(0)
		for e := range state.LaterEvals(c.s.Read()) {
			next = e.WaitUntil
			break
		}
		if next == 0 {
			break
		}
		c.clock = time.Unix(0, next)
	}
	nodes := 0
	for range state.Nodes(c.s.Read()) {
		nodes++
	}
	if got := c.onNewest("log"); got != 2*nodes {
		c.t.Fatalf("%d of %d allocations have the newest version; %d evaluations follow", got, 2*nodes,
			len(c.nextBatches()))
	}
}
