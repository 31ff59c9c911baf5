package scheduler

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
)

// TestPorts_HaveOneHolder makes random changes to jobs and nodes. It makes several plans from one state and
// applies one after the other, as the servers do. After each entry state.Check holds that a port has one
// allocation that is to run, the newest. An allocation keeps its ports for its whole life. Every new one has
// the ports that its version demands, and none of them was one of an allocation that its node may still run,
// unless its own plan stopped that one.
func TestPorts_HaveOneHolder(t *testing.T) {
	placed := 0
	rejected := 0
	rapid.Check(t, func(t *rapid.T) {
		c := portCluster{
			fixture: newFixture(t),
			t:       t,
			given:   map[string]string{},
		}
		for _, id := range portNodes {
			c.register(id)
		}
		for _, id := range portJobs {
			c.change(id)
		}
		c.planTogether()
		for range rapid.IntRange(2, 8).Draw(t, "steps") {
			c.step()
		}
		placed += c.placed
		rejected += c.rejected
	})
	if placed == 0 || rejected == 0 {
		t.Errorf("%d allocations were placed and %d plans rejected; the test needs both", placed, rejected)
	}
}

var (
	portNodes = []string{"n0", "n1"}
	portJobs  = []string{"web", "sum", "log", "db"}
)

type portCluster struct {
	*fixture
	t                *rapid.T
	given            map[string]string // by allocation
	placed, rejected int
}

// register reports a node with other ports.
func (c *portCluster) register(id string) {
	node := withPorts(id, rapid.IntRange(2, 5).Draw(c.t, "dynamic"))
	if rapid.Bool().Draw(c.t, "reserves") {
		reserving(rapid.SampledFrom([]string{"80", "1001", "80,1000-1001"}).Draw(c.t, "ports"))(node)
	}
	c.node(node)
}

func (c *portCluster) step() {
	t := c.t
	c.clock = c.clock.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
	node := rapid.SampledFrom(portNodes).Draw(t, "node")
	job := rapid.SampledFrom(portJobs).Draw(t, "job")
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1, 2, 3:
		c.change(job)
	case 4:
		c.status(node, rapid.SampledFrom([]string{structs.NodeReady, structs.NodeDown}).Draw(t, "status"))
	case 5:
		c.register(node)
	case 6, 7:
		c.report(job)
	case 8:
		if state.Job(c.s.Read(), "default", job) != nil {
			do(c.fixture, state.JobDeregister, &structs.JobDeregisterRequest{JobID: job, WriteOptions: c.now()})
		}
	}
	c.planTogether()
	c.checkAllocs()
}

// change registers another version of a job.
func (c *portCluster) change(id string) {
	kinds := map[string]string{"sum": structs.JobBatch, "log": structs.JobSystem}
	kind := kinds[id]
	if kind == "" {
		kind = structs.JobService
	}
	edits := []func(*structs.Job){count(rapid.IntRange(0, 3).Draw(c.t, "count"))}
	if kind == structs.JobSystem {
		edits[0] = count(1)
	}
	for i := range rapid.IntRange(0, 2).Draw(c.t, "demands") {
		value := rapid.SampledFrom([]int{0, 0, 80, 1001}).Draw(c.t, "static")
		edits = append(edits, port(fmt.Sprint("p", i), value, func(p *structs.Port) {
			p.HostNetwork = rapid.SampledFrom([]string{"default", "private"}).Draw(c.t, "network")
		}))
	}
	edits = append(edits, cpu(rapid.IntRange(10, 12).Draw(c.t, "cpu")))
	c.job(aJob(id, kind, edits...))
}

// report reports the state of an allocation, also of one that is being stopped.
func (c *portCluster) report(job string) {
	status := rapid.SampledFrom([]string{structs.AllocRunning, structs.AllocFailed, structs.AllocComplete}).
		Draw(c.t, "client")
	for a := range state.AllocsByJob(c.s.Read(), structs.DefaultNamespace, job) {
		if !a.ClientTerminal() {
			c.client(a, status)
			break
		}
	}
}

// planTogether makes plans of all jobs from one state, and applies them in a random order.
func (c *portCluster) planTogether() {
	var plans []*structs.Plan
	for _, job := range rapid.Permutation(portJobs).Draw(c.t, "order") {
		plans = append(plans, c.process(c.eval(job)))
	}
	for _, p := range plans {
		before := c.s.Read()
		p.WriteOptions = c.now()
		do(c.fixture, state.PlanApply, p)
		tx := c.s.Read()
		for _, a := range p.Place {
			row := state.Alloc(tx, a.ID)
			if row == nil {
				c.rejected++
				continue
			}
			c.placed++
			c.checkNew(before, row, p)
		}
	}
}

// checkNew checks the ports of an allocation that has just been placed.
func (c *portCluster) checkNew(before *state.ReadTx, a *structs.Allocation, p *structs.Plan) {
	stopped := map[string]bool{}
	for _, s := range p.Stop {
		stopped[s.AllocID] = true
	}
	group := state.JobOf(c.s.Read(), a).Group(a.TaskGroup)
	if len(a.Ports) != len(group.PortDemands()) {
		c.t.Fatalf("%s has %q", a.Name, portsGiven(a))
	}
	handedOn := map[structs.AllocatedPort]bool{} // by allocations that the plan stopped
	for other := range state.AllocsByNode(before, a.NodeID) {
		for _, port := range other.Ports {
			if stopped[other.ID] && !other.ClientTerminal() {
				handedOn[unlabelled(port)] = true
			}
		}
	}
	for other := range state.AllocsByNode(before, a.NodeID) {
		for _, port := range other.Ports {
			for _, own := range a.Ports {
				if unlabelled(own) == unlabelled(port) && !other.ClientTerminal() && !handedOn[unlabelled(port)] {
					c.t.Fatalf("%s has %s of %s, which has not ended", a.Name, port.HostAddr(), other.ID)
				}
			}
		}
	}
	c.given[a.ID] = portsGiven(a)
}

func unlabelled(p structs.AllocatedPort) structs.AllocatedPort {
	return structs.AllocatedPort{Value: p.Value, HostIP: p.HostIP}
}

// checkAllocs checks that no allocation has other ports than before.
func (c *portCluster) checkAllocs() {
	tx := c.s.Read()
	for _, job := range portJobs {
		for a := range state.AllocsByJob(tx, structs.DefaultNamespace, job) {
			if now := portsGiven(a); now != c.given[a.ID] {
				c.t.Fatalf("%s had %q and has %q", a.Name, c.given[a.ID], now)
			}
		}
	}
}
