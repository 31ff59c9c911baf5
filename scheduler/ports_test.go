package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/structs"
)

// withPorts returns a node with an address of the default network and one of another, "private". It has the
// dynamic ports 1000 to 1000 + n - 1.
func withPorts(id string, n int, edits ...func(*structs.Node)) *structs.Node {
	node := aNode(id)
	r := node.NodeResources
	r.MinDynamicPort = 1000
	r.MaxDynamicPort = 1000 + n - 1
	r.NodeNetworks = []*structs.NodeNetworkResource{{
		Mode:   structs.NetworkModeHost,
		Device: "eth0",
		Addresses: []*structs.NodeNetworkAddress{
			{Family: structs.FamilyIPv4, Alias: structs.DefaultHostNetwork, Address: "10.0.0.1"},
			{Family: structs.FamilyIPv4, Alias: "private", Address: "192.168.0.1"},
		},
	}}
	for _, edit := range edits {
		edit(node)
	}
	return node
}

// reserving keeps ports of all addresses of a node from allocations.
func reserving(ports string) func(*structs.Node) {
	return func(n *structs.Node) {
		n.ReservedResources = &structs.NodeReservedResources{
			Networks: &structs.NodeReservedNetworks{ReservedHostPorts: ports},
		}
	}
}

// port lets the group of a job demand a port: a static one unless its number is 0.
func port(label string, value int, edits ...func(*structs.Port)) func(*structs.Job) {
	return func(j *structs.Job) {
		g := j.TaskGroups[0]
		if g.Networks == nil {
			g.Networks = []*structs.NetworkResource{{}}
		}
		p := structs.Port{Label: label, Value: value}
		for _, edit := range edits {
			edit(&p)
		}
		if value == 0 {
			g.Networks[0].DynamicPorts = append(g.Networks[0].DynamicPorts, p)
		} else {
			g.Networks[0].ReservedPorts = append(g.Networks[0].ReservedPorts, p)
		}
	}
}

func private(p *structs.Port) { p.HostNetwork = "private" }

// portsGiven are the ports of an allocation, as "label=host:port>to ...".
func portsGiven(a *structs.Allocation) string {
	var all []string
	for _, p := range a.Ports {
		all = append(all, fmt.Sprintf("%s=%s>%d", p.Label, p.HostAddr(), p.To))
	}
	return strings.Join(all, " ")
}

// wantPorts checks the ports of a job's live allocations.
func (w *fixture) wantPorts(job string, want ...string) {
	w.t.Helper()
	var got []string
	for _, a := range w.allocs(job) {
		got = append(got, portsGiven(a))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Fatalf("job %s has %q, want %q", job, got, want)
	}
}

// pendingRun applies the plan of the only pending evaluation.
func (w *fixture) pendingRun() {
	w.t.Helper()
	pending := w.evals(structs.EvalPending)
	if len(pending) != 1 {
		w.t.Fatalf("%d evaluations are pending, want 1", len(pending))
	}
	w.apply(w.process(pending[0]))
}

func TestPorts_OfOneAllocation(t *testing.T) {
	to := func(n int) func(*structs.Port) { return func(p *structs.Port) { p.To = n } }
	for name, c := range map[string]struct {
		edits []func(*structs.Job)
		want  string
	}{
		"static":            {[]func(*structs.Job){port("http", 80)}, "http=10.0.0.1:80>0"},
		"static and mapped": {[]func(*structs.Job){port("http", 80, to(8080))}, "http=10.0.0.1:80>8080"},
		"dynamic":           {[]func(*structs.Job){port("http", 0)}, "http=10.0.0.1:1000>0"},
		"dynamic and same":  {[]func(*structs.Job){port("http", 0, to(-1))}, "http=10.0.0.1:1000>1000"},
		"other network":     {[]func(*structs.Job){port("http", 0, private)}, "http=192.168.0.1:1000>0"},
		"one number twice": {
			[]func(*structs.Job){port("a", 80), port("b", 80, private)},
			"a=10.0.0.1:80>0 b=192.168.0.1:80>0",
		},
		"static ones first": {
			[]func(*structs.Job){port("a", 0, private), port("b", 1000)},
			"b=10.0.0.1:1000>0 a=192.168.0.1:1000>0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.node(withPorts("n1", 1))
			w.job(aJob("a", structs.JobService, c.edits...))
			w.run("a")
			w.wantPorts("a", c.want)
		})
	}
}

func TestPorts_AreRejectedWithAReason(t *testing.T) {
	other := func(p *structs.Port) { p.HostNetwork = "public" }
	for reason, c := range map[string]struct {
		node  *structs.Node
		edits []func(*structs.Job)
		by    string // the dimension of an exhausted node
	}{
		`the node has no host network "default"`: {aNode("n1"), []func(*structs.Job){port("a", 0)}, ""},
		`the node has no host network "public"`: {
			withPorts("n1", 9), []func(*structs.Job){port("a", 0, other)}, "",
		},
		`the node reserves port 22 of host network "default"`: {
			withPorts("n1", 9, reserving("20-22")), []func(*structs.Job){port("a", 22)}, "",
		},
		`port 80 of host network "default" is in use`: {
			withPorts("n1", 9), []func(*structs.Job){port("a", 80)}, "ports",
		},
		`dynamic ports of host network "default" exhausted`: {
			withPorts("n1", 2, reserving("1001")), []func(*structs.Job){port("a", 0), port("b", 0)}, "ports",
		},
	} {
		w := newFixture(t)
		w.node(c.node)
		w.job(aJob("first", structs.JobService, port("http", 80)))
		w.run("first")
		w.job(aJob("a", structs.JobService, c.edits...))
		m := w.run("a").Eval.FailedTGAllocs["g"]
		if m == nil || len(m.Rejections) != 1 || m.Rejections[0].Reason != reason ||
			m.DimensionExhausted[c.by] != len(c.by)/len("ports") {
			t.Errorf("the metric is %+v, want the reason %s", m, reason)
		}
	}
}

// A static port is free on another node.
func TestPorts_AreThoseOfTheirNode(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 2))
	w.node(withPorts("n2", 2))
	w.job(aJob("a", structs.JobService, count(3), port("http", 80)))
	w.run("a")
	if got := len(w.allocs("a")); got != 2 {
		t.Errorf("%d allocations have the static port of two nodes", got)
	}
	w.job(aJob("every", structs.JobSystem, port("metrics", 9100), port("admin", 0)))
	w.run("every")
	before := []string{}
	for _, a := range w.allocs("every") {
		before = append(before, portsGiven(a))
	}
	if len(before) != 2 {
		t.Fatalf("the system job has %q", before)
	}
	w.run("every")
	w.status("n1", structs.NodeDown)
	w.run("every")
	w.status("n1", structs.NodeReady)
	w.run("every")
	if a := w.allocs("every")[1]; portsGiven(a) != before[1] {
		t.Errorf("on the node that stayed %q became %q", before[1], portsGiven(a))
	}
}

// Nobody else gets a port before the node has reported the end of its allocation.
func TestPorts_AreKeptUntilTheNodeReportsTheEnd(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 1))
	w.job(aJob("a", structs.JobService, port("http", 80), port("admin", 0)))
	w.run("a")
	held := w.allocs("a")[0]
	w.client(held, structs.AllocRunning)
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "a", WriteOptions: w.now()})
	w.run("a")
	w.job(aJob("static", structs.JobService, port("http", 80)))
	w.job(aJob("dynamic", structs.JobService, port("x", 0)))
	for _, job := range []string{"static", "dynamic"} {
		w.run(job)
		w.wantPlaced(job, "")
	}
	w.client(held, structs.AllocComplete)
	for range 2 {
		pending := w.evals(structs.EvalPending)
		w.apply(w.process(pending[0]))
	}
	w.wantPorts("static", "http=10.0.0.1:80>0")
	w.wantPorts("dynamic", "x=10.0.0.1:1000>0")
}

// One plan replaces an allocation on the only node with its static port, also while the predecessor of that
// allocation still ends. A dynamic port of an allocation that ends is the last choice.
func TestPorts_OfNewVersions(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 2))
	var ids []string
	for version := range 3 {
		w.job(aJob("a", structs.JobService, port("http", 80), port("admin", 0), cpu(50+version)))
		w.run("a")
		a := w.allocs("a")[0]
		if slices.Contains(ids, a.ID) || a.JobVersion != uint64(version) {
			t.Fatalf("version %d: the allocation is %s of version %d", version, a.ID, a.JobVersion)
		}
		ids = append(ids, a.ID)
		w.client(a, structs.AllocRunning)
	}
	now := w.allocs("a")[0]
	if first := state.Alloc(w.s.Read(), ids[0]); first.Ports[1] == state.Alloc(w.s.Read(), ids[1]).Ports[1] {
		t.Error("the second version has the dynamic port of the first, which still ends, and another was free")
	}

	// In place: the allocation keeps its ports, also without the network.
	w.node(aNode("n1"))
	rack := &structs.Constraint{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1"}
	w.job(aJob("a", structs.JobService, port("http", 80), port("admin", 0), cpu(52), constraints(rack)))
	w.run("a")
	again := w.allocs("a")[0]
	if again.ID != now.ID || again.JobVersion != 3 || portsGiven(again) != portsGiven(now) {
		t.Errorf("an update in place: %s of version %d has %s", again.ID, again.JobVersion, portsGiven(again))
	}
}

// An update also succeeds if the allocation that it replaces has the only dynamic port.
func TestPorts_TakesOverTheLastDynamicPort(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 1))
	for version := range 3 {
		w.job(aJob("a", structs.JobService, port("admin", 0), cpu(50+version)))
		w.run("a")
		w.wantPorts("a", "admin=10.0.0.1:1000>0")
		w.client(w.allocs("a")[0], structs.AllocRunning)
	}
}

func TestPorts_OfChangedNodes(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 1, reserving("80")))
	w.job(aJob("a", structs.JobService, port("http", 80)))
	w.run("a")
	w.wantPlaced("a", "")
	w.node(withPorts("n1", 1))
	w.pendingRun()
	w.wantPlaced("a", "0@n1")
	w.node(withPorts("n1", 1, reserving("80")))
	w.run("a")
	w.wantPlaced("a", "0@n1") // a running allocation stays
}

func TestPlan_RejectsPortsThatAreNotFree(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 1))
	for _, id := range []string{"a", "b"} {
		w.job(aJob(id, structs.JobService, port("http", 0)))
	}
	first := w.process(w.eval("a"))
	second := w.process(w.eval("b")) // made from the same state: it has the same port
	w.apply(first)
	second.WriteOptions = w.now()
	do(w, state.PlanApply, second)
	w.wantPorts("a", "http=10.0.0.1:1000>0")
	w.wantPlaced("b", "")
	e := state.Eval(w.s.Read(), second.Eval.ID)
	if e.Status != structs.EvalPending || !strings.Contains(e.StatusDescription, "has port 10.0.0.1:1000") {
		t.Errorf("the evaluation is %s: %s", e.Status, e.StatusDescription)
	}
}

func TestPlan_RejectsOtherPorts(t *testing.T) {
	for name, edit := range map[string]func(*structs.Plan){
		"none":     func(p *structs.Plan) { p.Place[0].Ports = nil },
		"the same": func(p *structs.Plan) { p.Place[1].Ports = p.Place[0].Ports },
		"reserved": func(p *structs.Plan) { p.Place[0].Ports[0].Value = 1005 },
		"that of one that it stops and places": func(p *structs.Plan) {
			p.Place[1].Ports = p.Place[0].Ports
			p.Stop = []*structs.PlanStop{{AllocID: p.Place[0].ID}}
		},
	} {
		w := newFixture(t)
		w.node(withPorts("n1", 9, reserving("1005")))
		w.job(aJob("a", structs.JobService, count(2), port("http", 0)))
		p := w.process(w.eval("a"))
		edit(p)
		p.WriteOptions = w.now()
		do(w, state.PlanApply, p)
		if got := w.placed("a"); got != "" {
			t.Errorf("%s: %s is placed", name, got)
		}
	}
	w := newFixture(t)
	w.node(withPorts("n1", 9))
	w.job(aJob("a", structs.JobService))
	p := w.process(w.eval("a"))
	p.Place[0].Ports = []structs.AllocatedPort{{Label: "x", Value: 1000, HostIP: "10.0.0.1"}}
	p.WriteOptions = w.now()
	do(w, state.PlanApply, p)
	w.wantPlaced("a", "")
}

// Concurrent plans from one state seldom draw the same port: no port is more likely than another.
func TestPorts_AreDrawnEvenly(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 8, reserving("1000-1003")))
	w.job(aJob("a", structs.JobService, port("http", 0)))
	drawn := map[int]int{}
	const draws = 400
	for range draws {
		drawn[w.process(w.eval("a")).Place[0].Ports[0].Value]++
	}
	for n := 1004; n <= 1007; n++ {
		// 100 each. The chance of one below 50 is below 1 in 10 million.
		if drawn[n] < 50 {
			t.Errorf("port %d was drawn %d times of %d: %v", n, drawn[n], draws, drawn)
		}
	}
	if len(drawn) != 4 {
		t.Errorf("drew %v", drawn)
	}
}
