package scheduler

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

// withDevices returns a node that has a group of healthy devices "gpu0", "gpu1", ...
func withDevices(id, group string, n int, edits ...func(*structs.NodeDeviceResource)) *structs.Node {
	node := aNode(id)
	part := strings.Split(group, "/")
	memory := int64(11)
	g := &structs.NodeDeviceResource{
		Vendor:     part[0],
		Type:       part[1],
		Name:       part[2],
		Attributes: map[string]*structs.DeviceAttribute{"memory": {Int: &memory, Unit: "GiB"}},
	}
	for i := range n {
		g.Instances = append(g.Instances, &structs.NodeDevice{ID: "gpu" + string(rune('0'+i)), Healthy: true})
	}
	for _, edit := range edits {
		edit(g)
	}
	node.NodeResources.Devices = []*structs.NodeDeviceResource{g}
	return node
}

func unhealthy(at int) func(*structs.NodeDeviceResource) {
	return func(g *structs.NodeDeviceResource) { g.Instances[at].Healthy = false }
}

// demand lets the first task of a job demand devices.
func demand(name string, n uint64, edits ...func(*structs.RequestedDevice)) func(*structs.Job) {
	return func(j *structs.Job) {
		d := &structs.RequestedDevice{Name: name, Count: n}
		for _, edit := range edits {
			edit(d)
		}
		r := j.TaskGroups[0].Tasks[0].Resources
		r.Devices = append(r.Devices, d)
	}
}

func given(a *structs.Allocation) string {
	var all []string
	for _, d := range a.Devices["t"] {
		all = append(all, d.ID()+":"+strings.Join(d.DeviceIDs, "+"))
	}
	return strings.Join(all, " ")
}

func TestDevices_AreGivenOnce(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 3, unhealthy(1)))
	w.nodes("n2")
	w.job(aJob("a", structs.JobService, count(3), demand("gpu", 1)))
	p := w.run("a")
	w.wantPlaced("a", "0@n1 1@n1")
	allocs := w.allocs("a")
	got := []string{given(allocs[0]), given(allocs[1])}
	slices.Sort(got)
	if !slices.Equal(got, []string{"acme/gpu/x1:gpu0", "acme/gpu/x1:gpu2"}) {
		t.Errorf("the allocations have %q, want each of the healthy devices once", got)
	}
	m := p.Eval.FailedTGAllocs["g"]
	if m.DimensionExhausted["devices"] != 1 || m.ConstraintFiltered["no healthy device matches gpu"] != 1 {
		t.Errorf("the third allocation failed for %+v", m)
	}

	w.client(allocs[0], structs.AllocComplete)
	p = w.process(w.evals(structs.EvalPending)[0])
	w.apply(p)
	if now := w.allocs("a"); len(now) != 2 {
		t.Errorf("a free device is not given on: %s", w.placed("a"))
	}
}

func TestDevices_ComeBackWithTheirHealth(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 1, unhealthy(0)))
	w.job(aJob("a", structs.JobService, demand("acme/gpu", 1)))
	w.run("a")
	w.wantPlaced("a", "")
	w.node(withDevices("n1", "acme/gpu/x1", 1))
	pending := w.evals(structs.EvalPending)
	if len(pending) != 1 {
		t.Fatalf("%d evaluations are pending after the device became healthy", len(pending))
	}
	w.apply(w.process(pending[0]))
	w.wantPlaced("a", "0@n1")
	w.node(withDevices("n1", "acme/gpu/x1", 1, unhealthy(0)))
	w.run("a")
	w.wantPlaced("a", "0@n1") // a running allocation stays
}

func TestDevices_NamesAndConstraintsSelectTheGroup(t *testing.T) {
	meets := func(l, op, r string) func(*structs.RequestedDevice) {
		return func(d *structs.RequestedDevice) {
			d.Constraints = append(d.Constraints, &structs.Constraint{LTarget: l, Operand: op, RTarget: r})
		}
	}
	for name, c := range map[string]struct {
		demand func(*structs.Job)
		placed bool
	}{
		"type":                   {demand("gpu", 1), true},
		"vendor and type":        {demand("acme/gpu", 1), true},
		"whole name":             {demand("acme/gpu/x1", 2), true},
		"another name":           {demand("acme/gpu/x2", 1), false},
		"another vendor":         {demand("other/gpu", 1), false},
		"vendor as a type":       {demand("acme", 1), false},
		"too many":               {demand("gpu", 3), false},
		"enough memory":          {demand("gpu", 1, meets("${device.attr.memory}", ">=", "10 GiB")), true},
		"memory in another unit": {demand("gpu", 1, meets("${device.attr.memory}", "=", "11264 MiB")), true},
		"too little memory":      {demand("gpu", 1, meets("${device.attr.memory}", ">", "12000 MB")), false},
		"another unit family":    {demand("gpu", 1, meets("${device.attr.memory}", ">", "1 MHz")), false},
		"model":                  {demand("gpu", 1, meets("${device.model}", "regexp", "^x")), true},
		"missing attribute":      {demand("gpu", 1, meets("${device.attr.cores}", "is_set", "")), false},
		"attribute that is not":  {demand("gpu", 1, meets("${device.attr.cores}", "!=", "4")), true},
		"unequal":                {demand("gpu", 1, meets("${device.model}", "!=", "x2")), true},
		"not unequal":            {demand("gpu", 1, meets("${device.model}", "!=", "x1")), false},
		"unequal and incomparable": {
			demand("gpu", 1, meets("${device.attr.memory}", "!=", "1 MHz")), false,
		},
		"two missing values": {
			demand("gpu", 1, meets("${device.attr.a}", "!=", "${device.attr.b}")), false,
		},
		"device by its ID":   {demand("gpu", 1, meets("${device.ids}", "set_contains", "gpu1")), true},
		"devices of the IDs": {demand("gpu", 2, meets("${device.ids}", "set_contains", "gpu1")), false},
		"unknown ID":         {demand("gpu", 1, meets("${device.ids}", "set_contains", "gpu9")), false},
		"one of the IDs":     {demand("gpu", 1, meets("${device.ids}", "set_contains_any", "gpu9,gpu1")), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.node(withDevices("n1", "acme/gpu/x1", 2))
			w.job(aJob("a", structs.JobService, c.demand))
			w.run("a")
			if placed := w.placed("a") != ""; placed != c.placed {
				t.Errorf("placed is %v, want %v", placed, c.placed)
			}
		})
	}
}

func TestDevices_AffinitiesPreferNodes(t *testing.T) {
	likes := func(d *structs.RequestedDevice) {
		d.Affinities = []*structs.Affinity{{
			LTarget: "${device.model}",
			Operand: "=",
			RTarget: "x2",
			Weight:  80,
		}}
	}
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 1))
	w.node(withDevices("n2", "acme/gpu/x2", 1))
	w.job(aJob("a", structs.JobService, demand("gpu", 1, likes)))
	w.run("a")
	w.wantPlaced("a", "0@n2")
}

func TestPlan_RejectsDevicesThatAreNotFree(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 2))
	for _, id := range []string{"a", "b"} {
		w.job(aJob(id, structs.JobService, demand("gpu", 1)))
	}
	first := w.process(w.eval("a"))
	second := w.process(w.eval("b")) // made from the same state: it has the same device
	w.apply(first)
	second.WriteOptions = w.now()
	do(w, state.PlanApply, second)
	w.wantPlaced("a", "0@n1")
	w.wantPlaced("b", "")
	w.run("b")
	if a, b := given(w.allocs("a")[0]), given(w.allocs("b")[0]); a == b {
		t.Errorf("two allocations have %s", a)
	}
}

func TestPlan_RejectsTooFewDevices(t *testing.T) {
	for name, edit := range map[string]func(*structs.Allocation){
		"none":       func(a *structs.Allocation) { a.Devices = nil },
		"unknown":    func(a *structs.Allocation) { a.Devices["t"][0].DeviceIDs[0] = "gpu7" },
		"same twice": func(a *structs.Allocation) { a.Devices["t"][0].DeviceIDs[0] = a.Devices["t"][0].DeviceIDs[1] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.node(withDevices("n1", "acme/gpu/x1", 2))
			w.job(aJob("a", structs.JobService, demand("gpu", 2)))
			p := w.process(w.eval("a"))
			edit(p.Place[0])
			p.WriteOptions = w.now()
			do(w, state.PlanApply, p)
			w.wantPlaced("a", "")
		})
	}
}

// wantGiven checks the devices of a job's allocations.
func (w *fixture) wantGiven(job string, want ...string) {
	w.t.Helper()
	var got []string
	for _, a := range w.allocs(job) {
		got = append(got, given(a))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("job %s has %q, want %q", job, got, want)
	}
}

// withGroups returns a node with several groups, each of the given number of devices.
func withGroups(id string, groups map[string]int) *structs.Node {
	node := aNode(id)
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		g := withDevices(id, group, groups[group]).NodeResources.Devices[0]
		node.NodeResources.Devices = append(node.NodeResources.Devices, g)
	}
	return node
}

func TestDevices_AreChosenByTheirIDs(t *testing.T) {
	ids := func(d *structs.RequestedDevice) {
		d.Constraints = []*structs.Constraint{{
			LTarget: "${device.ids}",
			Operand: structs.ConstraintSetContains,
			RTarget: "gpu2,gpu1",
		}}
	}
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 3))
	w.job(aJob("a", structs.JobService, count(3), demand("gpu", 1, ids)))
	w.run("a")
	w.wantGiven("a", "acme/gpu/x1:gpu1", "acme/gpu/x1:gpu2")
}

// A task with several demands has each device once, and those of a group together: a plugin is asked once per
// group.
func TestDevices_OfSeveralDemands(t *testing.T) {
	w := newFixture(t)
	w.node(withGroups("n1", map[string]int{"acme/gpu/x1": 4, "acme/gpu/x2": 1}))
	w.job(aJob("a", structs.JobService, demand("gpu", 1), demand("gpu", 1), demand("acme/gpu/x2", 1)))
	w.run("a")
	w.wantGiven("a", "acme/gpu/x2:gpu0 acme/gpu/x1:gpu0+gpu1")
	w.job(aJob("b", structs.JobService, demand("acme/gpu", 2)))
	w.run("b")
	w.wantGiven("b", "acme/gpu/x1:gpu2+gpu3")
}

// A demand for any device must not have the only one that another demand accepts.
func TestDevices_OfAnyGroupLeaveTheOthers(t *testing.T) {
	for name, demands := range map[string][]func(*structs.Job){
		"general first": {demand("gpu", 1), demand("acme/gpu/x1", 1)},
		"general last":  {demand("acme/gpu/x1", 1), demand("gpu", 1)},
		"large last":    {demand("gpu", 1), demand("gpu", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.node(withGroups("n1", map[string]int{"acme/gpu/x1": 1, "acme/gpu/x2": 2}))
			w.job(aJob("a", structs.JobService, demands...))
			w.run("a")
			if len(w.allocs("a")) != 1 {
				t.Error("the demands are not met")
			}
		})
	}
}

func TestDevices_OfEveryGroupOfTasks(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 2))
	j := aJob("a", structs.JobService, demand("gpu", 1))
	other := aJob("a", structs.JobService, demand("gpu", 1)).TaskGroups[0]
	other.Name = "h"
	j.TaskGroups = append(j.TaskGroups, other)
	w.job(j)
	w.run("a")
	w.wantGiven("a", "acme/gpu/x1:gpu0", "acme/gpu/x1:gpu1")
}

func TestDevices_OfNewVersions(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 2))
	w.job(aJob("a", structs.JobService, demand("gpu", 1)))
	w.run("a")
	first := w.allocs("a")[0]

	// In place: the task runs on with its device, also when no device is healthy.
	w.node(withDevices("n1", "acme/gpu/x1", 2, unhealthy(0), unhealthy(1)))
	rack := &structs.Constraint{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1"}
	w.job(aJob("a", structs.JobService, demand("gpu", 1), constraints(rack)))
	w.run("a")
	again := w.allocs("a")[0]
	if again.ID != first.ID || again.JobVersion == first.JobVersion || given(again) != "acme/gpu/x1:gpu0" {
		t.Errorf("an update in place: %s of version %d has %s", again.ID, again.JobVersion, given(again))
	}

	// Another demand: the replacement has what its version demands, and may have the device of the first one.
	w.node(withDevices("n1", "acme/gpu/x1", 2))
	w.job(aJob("a", structs.JobService, demand("gpu", 2)))
	w.run("a")
	w.wantGiven("a", "acme/gpu/x1:gpu0+gpu1")
	second := w.allocs("a")[0]
	if second.PreviousAllocation != first.ID {
		t.Errorf("%s replaces %s, want %s", second.ID, second.PreviousAllocation, first.ID)
	}

	// Too much: the running version keeps its devices.
	w.job(aJob("a", structs.JobService, demand("gpu", 3)))
	w.run("a")
	if now := w.allocs("a"); len(now) != 1 || now[0].ID != second.ID {
		t.Errorf("the allocations are %s", w.placed("a"))
	}
}

// The allocations that a plan replaces give their devices to the new ones one by one.
func TestDevices_OfManyReplacements(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 3))
	w.job(aJob("a", structs.JobService, count(3), demand("gpu", 1)))
	w.run("a")
	w.job(aJob("a", structs.JobService, count(3), demand("gpu", 1), cpu(50), atOnce))
	w.run("a")
	w.wantGiven("a", "acme/gpu/x1:gpu0", "acme/gpu/x1:gpu1", "acme/gpu/x1:gpu2")
	for _, a := range w.allocs("a") {
		if a.JobVersion != 1 {
			t.Errorf("%s is of version %d", a.Name, a.JobVersion)
		}
	}
}

func TestDevices_OfANodeThatWasDown(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 1))
	w.job(aJob("a", structs.JobService, demand("gpu", 1)))
	w.run("a")
	w.status("n1", structs.NodeDown)
	w.run("a")
	w.wantPlaced("a", "")
	w.status("n1", structs.NodeReady)
	w.job(aJob("b", structs.JobService, demand("gpu", 1)))
	w.run("b")
	w.wantGiven("b", "acme/gpu/x1:gpu0")
	w.run("a")
	w.wantPlaced("a", "")
}

func TestPlan_RejectsDevicesThatHaveChanged(t *testing.T) {
	for name, now := range map[string]*structs.Node{
		"unhealthy": withDevices("n1", "acme/gpu/x1", 1, unhealthy(0)),
		"gone":      withDevices("n1", "acme/gpu/x2", 1),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.node(withDevices("n1", "acme/gpu/x1", 1))
			w.job(aJob("a", structs.JobService, demand("acme/gpu/x1", 1)))
			p := w.process(w.eval("a"))
			w.node(now)
			p.WriteOptions = w.now()
			do(w, state.PlanApply, p)
			w.wantPlaced("a", "")
			if e := state.Eval(w.s.Read(), p.Eval.ID); e.Status != structs.EvalPending {
				t.Errorf("the evaluation is %s: %s", e.Status, e.StatusDescription)
			}
		})
	}
}

// Two allocations of one plan may not share a device either.
func TestPlan_RejectsADeviceForTwo(t *testing.T) {
	w := newFixture(t)
	w.node(withDevices("n1", "acme/gpu/x1", 2))
	w.job(aJob("a", structs.JobService, count(2), demand("gpu", 1)))
	p := w.process(w.eval("a"))
	p.Place[1].Devices["t"][0].DeviceIDs = p.Place[0].Devices["t"][0].DeviceIDs
	p.WriteOptions = w.now()
	do(w, state.PlanApply, p)
	w.wantPlaced("a", "")
}
