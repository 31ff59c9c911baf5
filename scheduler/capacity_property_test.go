package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/state"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/capacity"
)

// TestCapacity_Properties lets random jobs compete for small nodes that end allocations late. Plans are made
// on older states than they are applied to. After each step, what runs on a node fits into it, no port has
// two users, and no allocation waits for itself. In the end all that fits runs.
func TestCapacity_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &lateCluster{fixture: newFixture(t), rt: t, plans: map[string]*structs.Plan{}}
		c.priorities = rapid.SliceOfN(rapid.SampledFrom([]int{20, 29, 30, 50, 70}), 5, 5).Draw(t, "priorities")
		if rapid.Bool().Draw(t, "preemption") {
			c.preempting()
		}
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			c.node(withPorts(fmt.Sprintf("n%d", i), 100))
		}
		for range rapid.IntRange(10, 80).Draw(t, "steps") {
			c.clock = c.clock.Add(time.Second)
			c.step()
			c.check()
		}
		c.quiesce()
	})
}

// lateCluster is a cluster whose nodes start and end allocations when the test lets them.
type lateCluster struct {
	*fixture
	rt         *rapid.T
	plans      map[string]*structs.Plan // in flight, by job
	priorities []int                    // of the jobs
}

func (c *lateCluster) step() {
	t := c.rt
	job := fmt.Sprintf("j%d", rapid.IntRange(0, 4).Draw(t, "job"))
	node := fmt.Sprintf("n%d", rapid.IntRange(0, 2).Draw(t, "node"))
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0, 1:
		c.changeJob(job)
		if rapid.Bool().Draw(t, "at once") {
			c.applyPlan(job)
			c.planJob(job)
			c.applyPlan(job)
		}
	case 2:
		if state.Job(c.s.Read(), "default", job) != nil {
			do(c.fixture, state.JobDeregister, &structs.JobDeregisterRequest{JobID: job, WriteOptions: c.now()})
		}
	case 3, 4:
		c.planJob(job)
	case 5, 6:
		c.applyPlan(job)
	case 7:
		c.startAll()
	case 8:
		c.endOne()
	case 9:
		if state.Node(c.s.Read(), node) != nil {
			status := rapid.SampledFrom([]string{structs.NodeReady, structs.NodeReady, structs.NodeDown})
			c.status(node, status.Draw(t, "status"))
		}
	}
}

func (c *lateCluster) changeJob(id string) {
	t := c.rt
	kind := map[string]string{"j3": structs.JobBatch, "j4": structs.JobSystem}[id]
	if kind == "" {
		kind = structs.JobService
	}
	edits := []func(*structs.Job){
		cpu(rapid.IntRange(50, 900).Draw(t, "cpu")),
		func(j *structs.Job) {
			j.TaskGroups[0].Tasks[0].Resources.MemoryMB = rapid.IntRange(50, 900).Draw(t, "memory")
			j.Priority = c.priorities[id[1]-'0']
		},
	}
	if kind != structs.JobSystem {
		edits = append(edits, count(rapid.IntRange(0, 3).Draw(t, "count")))
	}
	if rapid.IntRange(0, 2).Draw(t, "with a port") == 0 {
		edits = append(edits, port("http", 80))
	}
	if rapid.Bool().Draw(t, "other group") {
		edits = append(edits, otherGroup(rapid.IntRange(50, 900).Draw(t, "cpu of the other")))
	}
	c.job(aJob(id, kind, edits...))
}

// otherGroup gives a job a group h in the place of g, or besides it if g is small.
func otherGroup(cpu int) func(*structs.Job) {
	return func(j *structs.Job) {
		g := j.TaskGroups[0]
		h := *g
		h.Name = "h"
		h.Networks = nil
		task := *g.Tasks[0]
		task.Resources = &structs.Resources{CPU: cpu, MemoryMB: 50}
		h.Tasks = []*structs.Task{&task}
		if g.Tasks[0].Resources.CPU < 300 {
			j.TaskGroups = append(j.TaskGroups, &h)
			return
		}
		j.TaskGroups[0] = &h
	}
}

// planJob makes a plan, if none of the job is in flight.
func (c *lateCluster) planJob(id string) {
	if c.plans[id] == nil && state.Job(c.s.Read(), "default", id) != nil {
		c.checkSums(id)
		c.plans[id] = c.process(c.eval(id))
		c.checkVictims(c.plans[id])
	}
}

// checkSums checks that the view of a node by sums equals the one that reads each allocation, after the stops
// that a plan begins with.
func (c *lateCluster) checkSums(id string) {
	p, err := newPlanner(c.s.Read(), c.eval(id), c.clock, options{enough: place.Enough})
	if err != nil {
		c.t.Fatal(err)
	}
	p.decide()
	if p.outlook.Job == nil {
		return
	}
	sums := p.outlook
	each := feasible.NewOutlook(c.s.Read(), c.eval(id), c.clock)
	for _, s := range sums.Plan.Stop {
		each.StopAlloc(state.Alloc(each, s.AllocID), s.Cause, s.Description)
	}
	for n := range state.Nodes(each) {
		got, want := sums.ViewOf(n), each.ViewOf(n)
		equal := got.Capacity == want.Capacity
		for _, g := range sums.Job.TaskGroups {
			equal = equal && got.CountOf(g.Name) == want.CountOf(g.Name)
		}
		if !equal {
			c.t.Fatalf("node %s has by sums %+v, by its allocations %+v", n.ID, got, want)
		}
	}
}

// checkVictims checks that a plan displaces only allocations of lower priorities, and none that its placement
// did not need beside what the plan had decided before.
func (c *lateCluster) checkVictims(p *structs.Plan) {
	tx := c.s.Read()
	for at, a := range p.Place {
		if len(a.PreemptedAllocations) == 0 {
			continue
		}
		first := slices.IndexFunc(p.Stop, func(s *structs.PlanStop) bool { return s.PreemptedBy == a.ID })
		sums := capacity.NewNodeCapacity(state.Node(tx, a.NodeID))
		for _, other := range c.held(a.NodeID) {
			sums.Hold(other)
		}
		for _, s := range p.Stop[:first] {
			if other := state.Alloc(tx, s.AllocID); other.NodeID == a.NodeID && !other.ClientTerminal() {
				sums.Stop(other)
			}
		}
		for _, before := range p.Place[:at] {
			if before.NodeID == a.NodeID {
				sums.Place(*before.Resources)
			}
		}
		for _, id := range a.PreemptedAllocations {
			c.checkVictim(a, id, sums)
		}
	}
}

func (c *lateCluster) checkVictim(a *structs.Allocation, id string, sums capacity.NodeCapacity) {
	tx := c.s.Read()
	victim := state.Alloc(tx, id)
	mine := state.Job(tx, a.Namespace, a.JobID).Priority
	if gap := mine - state.AllocPriority(tx, victim); gap < 10 || victim.JobID == a.JobID {
		c.t.Fatalf("%s displaces %s: gap %d", a.JobID, victim.JobID, gap)
	}
	for _, other := range a.PreemptedAllocations {
		if other != id {
			sums.Stop(state.Alloc(tx, other))
		}
	}
	if sums.Short(*a.Resources) == "" && (len(a.Ports) == 0 || len(victim.Ports) == 0) {
		c.t.Fatalf("%s displaces %s, which is superfluous: %s", a.ID, id, c.describeNode(a.NodeID))
	}
}

func (c *lateCluster) applyPlan(id string) {
	p := c.plans[id]
	if p == nil {
		return
	}
	delete(c.plans, id)
	p.WriteOptions = c.now()
	do(c.fixture, state.PlanApply, p)
}

// held are the allocations of a node that it has not reported as ended.
func (c *lateCluster) held(node string) []*structs.Allocation {
	return slices.Collect(state.HoldersByNode(c.s.Read(), node))
}

// startAll starts the allocations that wait for nothing, as their nodes do.
func (c *lateCluster) startAll() {
	for n := range state.Nodes(c.s.Read()) {
		for _, a := range c.held(n.ID) {
			if !a.ServerTerminal() && a.ClientStatus == structs.AllocPending && c.mayStart(a) {
				c.client(a, structs.AllocRunning)
			}
		}
	}
}

func (c *lateCluster) mayStart(a *structs.Allocation) bool {
	for id := range a.Awaits() {
		other := state.Alloc(c.s.Read(), id)
		if other != nil && !other.ClientTerminal() {
			return false
		}
	}
	ports := capacity.PortUse{}
	for _, other := range c.held(a.NodeID) {
		if other.ClientStatus == structs.AllocRunning {
			ports.Add(other)
		}
	}
	return ports.Holder(a) == ""
}

// endOne ends an allocation that is to end, or one that runs.
func (c *lateCluster) endOne() {
	var all []*structs.Allocation
	for n := range state.Nodes(c.s.Read()) {
		for _, a := range c.held(n.ID) {
			if a.ServerTerminal() || a.ClientStatus == structs.AllocRunning {
				all = append(all, a)
			}
		}
	}
	if len(all) > 0 {
		a := rapid.SampledFrom(all).Draw(c.rt, "ends")
		c.client(a, rapid.SampledFrom([]string{structs.AllocComplete, structs.AllocFailed}).Draw(c.rt, "as"))
	}
}

// check verifies the invariants of what runs.
func (c *lateCluster) check() {
	tx := c.s.Read()
	for n := range state.Nodes(tx) {
		var used structs.Resources
		ports := capacity.PortUse{}
		for _, a := range c.held(n.ID) {
			c.checkWaits(a, map[string]bool{})
			if a.ClientStatus != structs.AllocRunning {
				continue
			}
			used = used.Add(*a.Resources)
			if other := ports.Holder(a); other != "" {
				c.t.Fatalf("%s and %s run with one port", a.ID, other)
			}
			ports.Add(a)
		}
		if short := n.Available().Exceeded(used); short != "" {
			c.t.Fatalf("what runs on node %s exceeds its %s: %s", n.ID, short, c.describeNode(n.ID))
		}
	}
}

// checkWaits checks that an allocation does not wait for itself by way of others.
func (c *lateCluster) checkWaits(a *structs.Allocation, above map[string]bool) {
	if above[a.ID] {
		c.t.Fatalf("allocation %s waits for itself", a.ID)
	}
	above = maps.Clone(above)
	above[a.ID] = true
	for id := range a.Awaits() {
		if other := state.Alloc(c.s.Read(), id); other != nil && !other.ClientTerminal() {
			// A node that rejects a plan keeps an allocation that another node replaces, until the next plan.
			if !other.ServerTerminal() && other.NodeID == a.NodeID {
				c.t.Fatalf("%s waits for %s, which is not to end: %s", a.ID, id, c.describeNode(a.NodeID))
			}
			c.checkWaits(other, above)
		}
	}
}

func (c *lateCluster) describeNode(id string) string {
	var all []string
	for _, a := range c.held(id) {
		all = append(all, fmt.Sprintf("%s (%s, %s, %d MHz, %d MiB, waits for %s)", a.ID, a.DesiredStatus,
			a.ClientStatus, a.Resources.CPU, a.Resources.MemoryMB, slices.Collect(a.Awaits())))
	}
	return strings.Join(all, "; ")
}

// quiesce lets everything settle: then every job has what a new plan would give it.
func (c *lateCluster) quiesce() {
	for i := range 5 {
		job := fmt.Sprintf("j%d", i)
		c.applyPlan(job) // it may be of an older version of the job
		c.planJob(job)
	}
	for range 1000 {
		if !c.settleOnce() {
			break
		}
		c.check()
	}
	for n := range state.Nodes(c.s.Read()) {
		for _, a := range c.held(n.ID) {
			if a.ClientStatus != structs.AllocRunning {
				c.t.Fatalf("allocation %s of node %s does not run: %s", a.ID, n.ID, c.describeNode(n.ID))
			}
		}
	}
	for e := range statetest.EvalsByStatus(c.s.Read(), structs.EvalBlocked) {
		p := c.process(c.eval(e.JobID))
		if len(p.Place) > 0 {
			c.t.Fatalf("job %s waits although a plan is %s", e.JobID, describe(p))
		}
	}
}

// settleOnce does one thing that is due, and reports whether there was one.
func (c *lateCluster) settleOnce() bool {
	for id := range c.plans {
		c.applyPlan(id)
		return true
	}
	for e := range state.ReadyEvals(c.s.Read()) {
		c.processOne(e)
		return true
	}
	for n := range state.Nodes(c.s.Read()) {
		for _, a := range c.held(n.ID) {
			if a.ServerTerminal() {
				c.client(a, structs.AllocComplete)
				return true
			}
		}
	}
	before := c.index
	c.startAll()
	if c.index != before {
		return true
	}
	// The time passes when nodes have nothing to do: an evaluation may wait for them, and be repeated.
	for e := range state.LaterEvals(c.s.Read()) {
		c.clock = time.Unix(0, max(c.clock.UnixNano(), e.WaitUntil))
		c.processOne(e)
		return true
	}
	return false
}

func (c *lateCluster) processOne(e *structs.Evaluation) {
	p := c.process(e)
	c.checkVictims(p)
	p.WriteOptions = c.now()
	do(c.fixture, state.PlanApply, p)
}
