package scheduler

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/state"
	"berth/structs"
	"berth/structs/capacity"
)

// TestDevices_HaveOneHolder makes random changes to jobs and nodes. It makes several plans from one state and
// applies one after the other, as the servers do. After each entry state.Check holds that no device has two
// holders. An allocation keeps its devices for its whole life, also across versions of its job. Every new one
// has healthy devices of its node, as many as its version demands.
func TestDevices_HaveOneHolder(t *testing.T) {
	placed := 0
	rejected := 0
	rapid.Check(t, func(t *rapid.T) {
		c := deviceCluster{
			fixture: newFixture(t),
			t:       t,
			given:   map[string]string{},
		}
		for _, id := range deviceNodes {
			c.register(id)
		}
		for _, id := range deviceJobs {
			c.change(id)
		}
		c.planTogether()
		for range rapid.IntRange(2, 8).Draw(t, "steps") {
			c.step()
		}
		c.checkAllocs()
		placed += c.placed
		rejected += c.rejected
	})
	if placed == 0 || rejected == 0 {
		t.Errorf("%d allocations were placed and %d plans rejected; the test needs both", placed, rejected)
	}
}

var (
	deviceNodes = []string{"n0", "n1"}
	deviceJobs  = []string{"web", "sum", "log", "db"}
)

type deviceCluster struct {
	*fixture
	t                *rapid.T
	given            map[string]string // by allocation
	placed, rejected int
}

// register reports a node with other devices.
func (c *deviceCluster) register(id string) {
	node := withGroups(id, map[string]int{
		"acme/gpu/x1":  rapid.IntRange(0, 3).Draw(c.t, "x1"),
		"acme/gpu/x2":  rapid.IntRange(0, 2).Draw(c.t, "x2"),
		"other/fpga/f": 1,
	})
	for _, g := range node.NodeResources.Devices {
		for _, d := range g.Instances {
			d.Healthy = rapid.IntRange(0, 4).Draw(c.t, "health") > 0
		}
	}
	c.node(node)
}

func (c *deviceCluster) step() {
	t := c.t
	c.clock = c.clock.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
	node := rapid.SampledFrom(deviceNodes).Draw(t, "node")
	job := rapid.SampledFrom(deviceJobs).Draw(t, "job")
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1, 2, 3:
		c.change(job)
	case 4:
		c.status(node, rapid.SampledFrom([]string{structs.NodeReady, structs.NodeDown}).Draw(t, "status"))
	case 5:
		c.register(node)
	case 6:
		c.report(job)
	case 7:
		if state.Job(c.s.Read(), "default", job) != nil {
			do(c.fixture, state.JobDeregister, &structs.JobDeregisterRequest{JobID: job, WriteOptions: c.now()})
		}
	case 8:
		for _, a := range c.allocs(job) {
			do(c.fixture, state.AllocStop, &structs.AllocStopRequest{AllocID: a.ID, WriteOptions: c.now()})
			break
		}
	}
	c.planTogether()
	c.checkAllocs()
}

// change registers another version of a job.
func (c *deviceCluster) change(id string) {
	kinds := map[string]string{"sum": structs.JobBatch, "log": structs.JobSystem}
	kind := kinds[id]
	if kind == "" {
		kind = structs.JobService
	}
	edits := []func(*structs.Job){count(rapid.IntRange(0, 3).Draw(c.t, "count"))}
	if kind == structs.JobSystem {
		edits[0] = count(1)
	}
	for range rapid.IntRange(0, 2).Draw(c.t, "demands") {
		name := rapid.SampledFrom([]string{"gpu", "acme/gpu", "acme/gpu/x1", "fpga"}).Draw(c.t, "device")
		edits = append(edits, demand(name, uint64(rapid.IntRange(1, 2).Draw(c.t, "devices"))))
	}
	if rapid.Bool().Draw(c.t, "in place") { // a constraint that each node meets changes no running task
		edits = append(edits, constraints(&structs.Constraint{
			LTarget: "${meta.rack}",
			Operand: "=",
			RTarget: "r1",
		}))
	}
	c.job(aJob(id, kind, edits...))
}

// report reports the state of an allocation, also of one that is being stopped.
func (c *deviceCluster) report(job string) {
	status := rapid.SampledFrom([]string{structs.AllocRunning, structs.AllocFailed, structs.AllocComplete}).
		Draw(c.t, "client")
	for a := range state.AllocsByJob(c.s.Read(), structs.DefaultNamespace, job) {
		c.client(a, status)
		break
	}
}

// planTogether makes plans of all jobs from one state, and applies them in a random order.
func (c *deviceCluster) planTogether() {
	var plans []*structs.Plan
	for _, job := range rapid.Permutation(deviceJobs).Draw(c.t, "order") {
		plans = append(plans, c.process(c.eval(job)))
	}
	for _, p := range plans {
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
			c.checkNew(tx, row)
		}
	}
}

// checkNew checks the devices of an allocation that has just been placed.
func (c *deviceCluster) checkNew(tx *state.ReadTx, a *structs.Allocation) {
	group := state.JobOf(tx, a).Group(a.TaskGroup)
	if why := (capacity.DeviceUse{}).Rejection(state.Node(tx, a.NodeID), a, group); why != "" {
		c.t.Fatalf("%s: %s", a.Name, why)
	}
	c.given[a.ID] = fmt.Sprint(given(a))
}

// checkAllocs checks that no allocation has other devices than before.
func (c *deviceCluster) checkAllocs() {
	tx := c.s.Read()
	for _, job := range deviceJobs {
		for a := range state.AllocsByJob(tx, structs.DefaultNamespace, job) {
			if now := given(a); now != c.given[a.ID] {
				c.t.Fatalf("%s had %q and has %q", a.Name, c.given[a.ID], now)
			}
		}
	}
}
