package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// evaluated lists the jobs that the last entry evaluated, with the trigger.
func (w *fixture) evaluated() (out []string) {
	for e := range state.Evals(w.Store.Read(), "*", "") {
		if e.ModifyIndex == w.Index && e.Status == structs.EvalPending &&
			e.StatusDescription == "" {
			out = append(out, e.TriggeredBy+" "+e.JobID)
		}
	}
	slices.Sort(out)
	return out
}

func (w *fixture) wantEvaluated(want ...string) {
	w.T.Helper()
	if got := w.evaluated(); !slices.Equal(got, want) {
		w.T.Errorf("at index %d: evaluated %q, want %q", w.Index, got, want)
	}
}

func TestNodeRegister_EvaluatesSystemJobs(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("everywhere", structs.JobSystem))
	w.Job(aJob("once", structs.JobService))
	stopped := aJob("stopped", structs.JobSysBatch)
	stopped.Stop = true
	w.Job(stopped)
	w.Blocked("once", structs.WakeCapacity)
	w.Node("n1")
	w.wantEvaluated("node-update everywhere")
	w.WantEval("blocked-once", structs.EvalPending)
}

func TestNodeRegister_Again(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("everywhere", structs.JobSystem))
	w.Node("n1", anInstance("p", structs.CSIKindNode, true))
	w.Alloc("a", "j", "n1")
	do(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
		NodeID:       "n1",
		Eligibility:  structs.NodeIneligible,
		WriteOptions: w.Now(),
	})
	row := state.Node(w.Store.Read(), "n1")
	register := func(change func(*structs.Node)) {
		n := aNode("n1")
		change(n)
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{
			Node:         n,
			CSI:          []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
			WriteOptions: w.Now(),
		})
	}

	register(func(*structs.Node) {})
	if state.Node(w.Store.Read(), "n1") != row {
		t.Error("an equal registration was put again")
	}
	w.wantEvaluated()

	register(func(n *structs.Node) { n.HTTPAddr = "10.0.0.1:4746" })
	if n := state.Node(w.Store.Read(), "n1"); n == row ||
		n.SchedulingEligibility != structs.NodeIneligible ||
		len(n.Events) != len(row.Events) || n.CreateIndex != row.CreateIndex {
		t.Errorf("fields of the servers are lost: %+v", n)
	}
	w.wantEvaluated() // placement does not depend on it

	register(func(n *structs.Node) { n.Attributes = map[string]string{"kernel": "7"} })
	w.wantEvaluated("node-update everywhere", "node-update j")

	w.Status(structs.NodeDown, "n1")
	w.wantEvaluated("node-update j")
	register(func(n *structs.Node) { n.Attributes = map[string]string{"kernel": "7"} })
	w.wantEvaluated("node-update everywhere", "node-update j")
	if n := state.Node(w.Store.Read(), "n1"); n.Status != structs.NodeReady ||
		n.Events[len(n.Events)-1].Message != "Node re-registered" {
		t.Errorf("the node is %+v", n)
	}

	err := try(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         &structs.Node{ID: "n1", SecretID: "guessed"},
		WriteOptions: w.Now(),
	})
	wantKind(t, err, structs.KindDenied)
	wantKind(t, try(w, state.NodeRegister, &structs.NodeRegisterRequest{
		WriteOptions: w.Now(),
	}), structs.KindInvalid)
}

func TestNodeStatus_DownAndUp(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", anInstance("p", structs.CSIKindNode, true), anInstance("unhealthy", structs.CSIKindNode, false))
	w.Node("n2", anInstance("p", structs.CSIKindNode, true))
	w.Alloc("a", "j", "n1")
	w.Alloc("stopping", "k", "n1")
	w.Stop("stopping", "")
	w.Blocked("waits", structs.WakePlugin("p"), structs.WakeCapacity)
	healthy := func() (out []string) {
		for i := range csi.InstancesByNode(w.Store.Read(), "n1") {
			out = append(out, fmt.Sprint(i.PluginID, " ", i.Healthy, " ", i.HealthDescription))
		}
		return out
	}
	w.Status(structs.NodeDown, "n1", "unknown", "n1")
	if got := healthy(); !slices.Equal(got, []string{"p false node is down", "unhealthy false "}) {
		t.Errorf("got instances %q", got)
	}
	w.wantEvaluated("node-update j")
	a := state.Alloc(w.Store.Read(), "stopping")
	if a.ClientStatus != structs.AllocLost {
		t.Errorf("the stopping allocation is %s, want lost", a.ClientStatus)
	}
	w.Blocked("waits", structs.WakePlugin("p"))
	w.Update("n1", anInstance("p", structs.CSIKindNode, true)) // a report that was in flight
	if got := healthy(); got[0] != "p false node is down" {
		t.Errorf("got instances %q, want an unhealthy p", got)
	}
	w.Status(structs.NodeReady, "n1")
	if got := healthy(); !slices.Equal(got, []string{"p true ", "unhealthy false "}) {
		t.Errorf("got instances %q", got)
	}
	w.wantEvaluated("node-update j")
	w.WantEval("blocked-waits", structs.EvalPending)
	n := state.Node(w.Store.Read(), "n1")
	if n.Events[len(n.Events)-1].Message != "now ready" ||
		n.StatusUpdatedAt == 0 {
		t.Errorf("the node is %+v", n)
	}
	w.Status(structs.NodeReady, "n1")
	if state.Node(w.Store.Read(), "n1") != n {
		t.Error("an equal status was put again")
	}
	unknown := &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: "unknown"}
	wantKind(t, try(w, state.NodeStatus, unknown), structs.KindInvalid)
}

func TestNodeEligibility_EvaluatesSystemJobs(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	w.Job(aJob("everywhere", structs.JobSystem))
	for _, c := range []struct {
		node, to string
		want     structs.Kind
		evals    []string
	}{
		{"n1", structs.NodeIneligible, "", nil},
		{"n1", structs.NodeIneligible, "", nil},
		{"n1", structs.NodeEligible, "", []string{"node-update everywhere"}},
		{"n1", "perhaps", structs.KindInvalid, nil},
		{"n9", structs.NodeEligible, structs.KindNotFound, nil},
	} {
		err := try(w, state.NodeEligibility, &structs.NodeEligibilityRequest{
			NodeID:       c.node,
			Eligibility:  c.to,
			WriteOptions: w.Now(),
		})
		wantKind(t, err, c.want)
		w.wantEvaluated(c.evals...)
	}
}

func TestNode_HistoryIsBounded(t *testing.T) {
	w := newFixture(t)
	w.Node("n1")
	for n := range state.KeptEvents + 3 {
		do(w, state.NodeEvents, &structs.NodeEventsRequest{
			WriteOptions: w.Now(),
			Events: map[string][]*structs.NodeEvent{
				"n1":      {{Message: fmt.Sprint(n)}},
				"unknown": {{Message: "x"}},
			},
		})
	}
	n := state.Node(w.Store.Read(), "n1")
	if len(n.Events) != state.KeptEvents ||
		n.Events[state.KeptEvents-1].Message != fmt.Sprint(state.KeptEvents+2) ||
		n.Events[state.KeptEvents-1].CreateIndex != w.Index {
		t.Errorf("%d events, the last is %+v", len(n.Events), n.Events[len(n.Events)-1])
	}
}

func TestNodeDeregister_NeedsAnEmptyNode(t *testing.T) {
	w := threeNodes(t, false)
	deregister := func() error {
		return try(w, state.NodeDeregister, &structs.NodeDeregisterRequest{
			NodeIDs:      []string{"n1", "unknown"},
			WriteOptions: w.Now(),
		})
	}
	wantKind(t, deregister(), structs.KindPrecondition)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Client("n1", "a1", structs.AllocComplete)
	w.Client("n1", "b1", structs.AllocComplete)
	wantKind(t, deregister(), structs.KindPrecondition)
	w.Release("v", "a1")
	wantKind(t, deregister(), "")
	tx := w.Store.Read()
	if state.Node(tx, "n1") != nil ||
		csi.Instance(tx, "p", structs.CSIKindNode, "n1") != nil ||
		csi.Plugin(tx, "p") == nil {
		t.Error("too many or too few rows are deleted")
	}
	d := state.NodeDetail(tx, state.Node(tx, "n2"))
	if d.CSINodePlugins["p"] == nil || len(d.CSIControllerPlugins) != 0 {
		t.Errorf("the detail of the node is %+v", d)
	}
}

// nodeWithDrivers registers a node with drivers and attributes, and a plugin.
func nodeWithDrivers(w *fixture) *structs.Node {
	w.T.Helper()
	n := aNode("n1")
	n.Attributes = map[string]string{"kernel": "6", "driver.exec": "1"}
	n.Meta = map[string]string{"rack": "1"}
	n.Drivers = map[string]*structs.DriverInfo{
		"exec": {
			Detected:   true,
			Healthy:    true,
			UpdateTime: time.Unix(5, 0).UTC(),
		},
		"raw_exec": {Detected: true},
	}
	w.registerNode(n)
	return state.Node(w.Store.Read(), "n1")
}

// registerNode writes the registration of a node with a plugin.
func (w *fixture) registerNode(n *structs.Node) {
	w.T.Helper()
	do(w, state.NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		CSI:          []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
		WriteOptions: w.Now(),
	})
}

// TestNodeDetail_HasClassOfRow checks that the class depends on the row and not on the stored class.
func TestNodeDetail_HasClassOfRow(t *testing.T) {
	w := newFixture(t)
	old := nodeWithDrivers(w)
	class := state.NodeDetail(w.Store.Read(), old).ComputedClass
	changed := old.Copy()
	delete(changed.Attributes, "driver.exec")
	changed.ComputedClass = "v1:stored"
	w.registerNode(changed)
	n := state.Node(w.Store.Read(), "n1")
	now := state.NodeDetail(w.Store.Read(), n).ComputedClass
	if n.ComputedClass != "v1:stored" || now == class || now != state.ComputedClass(n) {
		t.Errorf("the class is %s, and was %s; the row has %s", now, class, n.ComputedClass)
	}
}

func TestComputedClass_IgnoresUniqueAttributes(t *testing.T) {
	node := func(edit func(*structs.Node)) string {
		n := &structs.Node{
			ID:         "1",
			Datacenter: "dc1",
			NodeClass:  "c",
			NodePool:   "p",
			Attributes: map[string]string{"a": "1", "unique.x": "1"},
			Meta:       map[string]string{"m": "1", "unique.y": "1"},
		}
		edit(n)
		return state.ComputedClass(n)
	}
	base := node(func(*structs.Node) {})
	for name, edit := range map[string]func(*structs.Node){
		"id":        func(n *structs.Node) { n.ID = "2" },
		"attribute": func(n *structs.Node) { n.Attributes["unique.x"] = "2" },
		"meta":      func(n *structs.Node) { n.Meta["unique.y"] = "2" },
		"name":      func(n *structs.Node) { n.Name = "other" },
	} {
		if node(edit) != base {
			t.Errorf("another unique %s changes the class", name)
		}
	}
	for name, edit := range map[string]func(*structs.Node){
		"datacenter":    func(n *structs.Node) { n.Datacenter = "dc2" },
		"class":         func(n *structs.Node) { n.NodeClass = "d" },
		"pool":          func(n *structs.Node) { n.NodePool = "q" },
		"attribute":     func(n *structs.Node) { n.Attributes["a"] = "2" },
		"new attribute": func(n *structs.Node) { n.Attributes["b"] = "" },
		"meta":          func(n *structs.Node) { n.Meta["m"] = "2" },
		"moved":         func(n *structs.Node) { n.Attributes["m"], n.Meta = "1", nil },
	} {
		if node(edit) == base {
			t.Errorf("another %s does not change the class", name)
		}
	}
}
