package state

import (
	"fmt"
	"testing"
	"time"

	"berth/structs"
)

// nodeWithDrivers returns a node with drivers and attributes, and a plugin.
func nodeWithDrivers(w *fixture) *structs.Node {
	w.t.Helper()
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
	do(w, NodeRegister, &structs.NodeRegisterRequest{
		Node:         n,
		CSI:          []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
		WriteOptions: w.now(),
	})
	return Node(w.s.Read(), "n1")
}

// unhealthyDriver returns the request of a node whose driver has become unhealthy.
func unhealthyDriver() *structs.NodeUpdateRequest {
	return &structs.NodeUpdateRequest{
		NodeID:         "n1",
		SecretID:       "secret-n1",
		AttributesGone: []string{"driver.exec"},
		ComputedClass:  "v1:unhealthy",
		Drivers:        map[string]*structs.DriverInfo{"exec": {Detected: true, HealthDescription: "broken"}},
	}
}

func TestNodeUpdate_ChangesTheNamedParts(t *testing.T) {
	w := newFixture(t)
	w.job(aJob("everywhere", structs.JobSystem))
	old := nodeWithDrivers(w)
	w.alloc("a", "j", "n1")
	w.blocked("waits", structs.WakeCapacity)
	update := func(p *structs.NodeUpdateRequest) *structs.Node {
		t.Helper()
		p.WriteOptions = w.now()
		do(w, NodeUpdate, p)
		return Node(w.s.Read(), "n1")
	}
	n := update(unhealthyDriver())
	if n.Drivers["exec"].Healthy || n.Drivers["raw_exec"] == nil ||
		n.Attributes["driver.exec"] != "" ||
		n.Attributes["kernel"] != "6" || n.ComputedClass != "v1:unhealthy" {
		t.Errorf("the node is %+v", n)
	}
	if old.Attributes["driver.exec"] != "1" || !old.Drivers["exec"].Healthy {
		t.Error("the previous row was changed")
	}
	if n.Meta["rack"] != "1" || n.CreateIndex != old.CreateIndex ||
		len(n.Events) != len(old.Events) ||
		n.Status != structs.NodeReady || len(n.CSIInstances()) != 1 {
		t.Errorf("fields outside the request were changed: %+v", n)
	}
	w.wantEvaluated("node-update everywhere", "node-update j")
	w.wantEval("blocked-waits", structs.EvalPending)

	same := unhealthyDriver()
	if update(same) != n {
		t.Error("an equal update was put again")
	}
	w.wantEvaluated()

	address := &structs.NodeUpdateRequest{
		NodeID: "n1",
		Settings: &structs.NodeSettings{
			Datacenter:        n.Datacenter,
			Name:              n.Name,
			NodeClass:         n.NodeClass,
			NodePool:          n.NodePool,
			NodeResources:     n.NodeResources,
			ReservedResources: n.ReservedResources,
		},
	}
	address.Settings.HTTPAddr = "10.0.0.9:4646"
	if moved := update(address); moved.HTTPAddr != "10.0.0.9:4646" || moved.ComputedClass != "v1:unhealthy" ||
		moved.NodeResources == nil {
		t.Errorf("the node is %+v", moved)
	}
	w.wantEvaluated() // placement does not depend on it

	if gone := update(&structs.NodeUpdateRequest{
		NodeID:      "n1",
		DriversGone: []string{"raw_exec"},
		Meta:        map[string]string{"rack": "2"},
	}); len(gone.Drivers) != 1 || gone.Meta["rack"] != "2" {
		t.Errorf("the node is %+v", gone)
	}
	w.wantEvaluated("node-update everywhere", "node-update j")
}

// TestNodeUpdate_EqualsARegistration checks that both make the same row of a change, and the same
// evaluations.
func TestNodeUpdate_EqualsARegistration(t *testing.T) {
	rows := map[string]string{}
	nodes := map[string]*structs.Node{}
	for _, how := range []string{"updated", "registered"} {
		w := newFixture(t)
		w.job(aJob("everywhere", structs.JobSystem))
		n := unhealthyDriver().Changed(nodeWithDrivers(w))
		n.ComputedClass = "v1:unhealthy"
		if how == "updated" {
			p := unhealthyDriver()
			p.WriteOptions = w.now()
			do(w, NodeUpdate, p)
		} else {
			do(w, NodeRegister, &structs.NodeRegisterRequest{
				Node:         n,
				CSI:          []*structs.CSIPluginInstance{anInstance("p", structs.CSIKindNode, true)},
				WriteOptions: w.now(),
			})
		}
		row := Node(w.s.Read(), "n1")
		nodes[how] = row
		rows[how] = fmt.Sprint(row.ComputedClass, row.Indexes, row.Status, len(row.Events), w.evaluated())
	}
	if rows["updated"] != rows["registered"] || !structs.NodeEqual(nodes["updated"], nodes["registered"],
		structs.IgnoreServersPart) {
		t.Errorf("got rows %v", rows)
	}
}

func TestNodeUpdate_OfADownNode(t *testing.T) {
	w := newFixture(t)
	nodeWithDrivers(w)
	w.alloc("a", "j", "n1")
	w.status(structs.NodeDown, "n1")
	do(w, NodeUpdate, unhealthyDriver())
	n := Node(w.s.Read(), "n1")
	if n.Status != structs.NodeDown || n.Drivers["exec"].Healthy {
		t.Errorf("the node is %+v", n)
	}
	if Instance(w.s.Read(), "p", structs.CSIKindNode, "n1").Healthy {
		t.Error("the plugin of a down node is healthy")
	}
	w.wantEvaluated()
	w.status(structs.NodeReady, "n1")
	w.wantEvaluated("node-update j")
}

func TestNodeUpdate_Rejects(t *testing.T) {
	w := newFixture(t)
	nodeWithDrivers(w)
	at := func() uint64 { return Node(w.s.Read(), "n1").ModifyIndex }
	for name, c := range map[string]struct {
		edit func(*structs.NodeUpdateRequest)
		want structs.Kind
	}{
		"an unknown node":    {func(p *structs.NodeUpdateRequest) { p.NodeID = "x" }, structs.KindNotFound},
		"a wrong secret":     {func(p *structs.NodeUpdateRequest) { p.SecretID = "guessed" }, structs.KindDenied},
		"of an earlier row":  {func(p *structs.NodeUpdateRequest) { p.Was = at() - 1 }, structs.KindConflict},
		"of the present row": {func(p *structs.NodeUpdateRequest) { p.Was = at() }, ""},
		"of no given row":    {func(*structs.NodeUpdateRequest) {}, ""},
	} {
		p := unhealthyDriver()
		c.edit(p)
		t.Run(name, func(t *testing.T) {
			wantKind(t, try(w, NodeUpdate, p), c.want)
		})
	}
}

// TestNodeUpdate_AppliesEntriesOfEachVersion applies entries of several versions, as in a cluster during an
// upgrade. An entry of an earlier version has a class, and maybe the index of the row from which it was
// computed. A later entry has neither. All servers make the same row of each.
func TestNodeUpdate_AppliesEntriesOfEachVersion(t *testing.T) {
	w := newFixture(t)
	at := nodeWithDrivers(w).ModifyIndex
	for _, c := range []struct {
		name  string
		class string
		was   uint64
		want  structs.Kind
		row   string // the class of the row afterwards
	}{
		{"with a class of the row", "v1:first", at, "", "v1:first"},
		{"with a class of an earlier row", "v1:second", at, structs.KindConflict, "v1:first"},
		{"with a class of no given row", "v1:third", 0, "", "v1:third"},
		{"without a class", "", 0, "", "v1:third"},
	} {
		p := &structs.NodeUpdateRequest{
			NodeID:        "n1",
			ComputedClass: c.class,
			Was:           c.was,
		}
		p.Meta = map[string]string{"from": c.name}
		wantKind(t, try(w, NodeUpdate, p), c.want)
		n := Node(w.s.Read(), "n1")
		if n.ComputedClass != c.row ||
			(n.Meta["from"] == c.name) != (c.want == "") {
			t.Errorf("%s: the row has the class %q and is from %q", c.name, n.ComputedClass, n.Meta["from"])
		}
	}
}

// TestNodeUpdate_CostsTheSameInAnyFleet counts heap allocations.
func TestNodeUpdate_CostsTheSameInAnyFleet(t *testing.T) {
	cost := map[int]float64{}
	sizes := []int{10, 3000}
	for _, size := range sizes {
		w := newFixture(t)
		nodeWithDrivers(w)
		for i := range size {
			w.index++
			must(t, w.s.Write(w.index, func(tx *WriteTx) error {
				return NodeRegister(tx, &structs.NodeRegisterRequest{
					Node:         aNode(fmt.Sprintf("m%05d", i)),
					WriteOptions: w.now(),
				})
			}))
		}
		healthy := false
		cost[size] = testing.AllocsPerRun(50, func() {
			p := unhealthyDriver()
			p.Drivers["exec"].Healthy = healthy
			healthy = !healthy
			w.index++
			must(t, w.s.Write(w.index, func(tx *WriteTx) error {
				return NodeUpdate(tx, p)
			}))
		})
	}
	if cost[sizes[1]] > 1.5*cost[sizes[0]]+5 {
		t.Errorf("%.0f allocations among %d nodes, %.0f among %d", cost[sizes[0]], sizes[0],
			cost[sizes[1]], sizes[1])
	}
}
