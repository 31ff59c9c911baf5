package state_test

import (
	"testing"

	"berth/state"
	"berth/structs"
)

// withGPUs returns a node with devices of one group.
func withGPUs(id string, devices ...*structs.NodeDevice) *structs.Node {
	memory := int64(11)
	n := aNode(id)
	n.NodeResources.Devices = []*structs.NodeDeviceResource{{
		Vendor:    "acme",
		Type:      "gpu",
		Name:      "x1",
		Instances: devices,
		Attributes: map[string]*structs.DeviceAttribute{
			"memory":        {Int: &memory, Unit: "GiB"},
			"unique.serial": structs.TextAttribute(id),
		},
	}}
	return n
}

func TestComputedClass_OfDevices(t *testing.T) {
	class := func(edit func(*structs.NodeDeviceResource)) string {
		n := withGPUs("n1", &structs.NodeDevice{ID: "0", Healthy: true})
		edit(n.NodeResources.Devices[0])
		return state.ComputedClass(n)
	}
	base := class(func(*structs.NodeDeviceResource) {})
	for name, edit := range map[string]func(*structs.NodeDeviceResource){
		"ID":               func(g *structs.NodeDeviceResource) { g.Instances[0].ID = "1" },
		"health":           func(g *structs.NodeDeviceResource) { g.Instances[0].Healthy = false },
		"number":           func(g *structs.NodeDeviceResource) { g.Instances = nil },
		"unique attribute": func(g *structs.NodeDeviceResource) { g.Attributes["unique.serial"] = nil },
		"no unique attribute": func(g *structs.NodeDeviceResource) {
			delete(g.Attributes, "unique.serial")
		},
	} {
		if class(edit) != base {
			t.Errorf("another %s changes the class", name)
		}
	}
	for name, edit := range map[string]func(*structs.NodeDeviceResource){
		"vendor":        func(g *structs.NodeDeviceResource) { g.Vendor = "other" },
		"type":          func(g *structs.NodeDeviceResource) { g.Type = "fpga" },
		"name":          func(g *structs.NodeDeviceResource) { g.Name = "x2" },
		"unit":          func(g *structs.NodeDeviceResource) { g.Attributes["memory"].Unit = "GB" },
		"new attribute": func(g *structs.NodeDeviceResource) { g.Attributes["a"] = structs.TextAttribute("") },
	} {
		if class(edit) == base {
			t.Errorf("another %s does not change the class", name)
		}
	}
	none := class(func(g *structs.NodeDeviceResource) { g.Attributes = nil })
	empty := class(func(g *structs.NodeDeviceResource) { g.Attributes = map[string]*structs.DeviceAttribute{} })
	if none != empty {
		t.Error("no attributes and empty attributes are two classes")
	}
	if bare := aNode("n1"); state.ComputedClass(bare) == base {
		t.Error("devices do not change the class")
	}
}

func TestNodeRegister_EvaluatesAfterChangesOfDevices(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("everywhere", structs.JobSystem))
	register := func(n *structs.Node) {
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
	}
	register(withGPUs("n1", &structs.NodeDevice{ID: "0"}))

	w.Blocked("waiting", structs.WakeCapacity)
	register(withGPUs("n1", &structs.NodeDevice{ID: "0", HealthDescription: "too hot"}))
	w.wantEvaluated() // a description changes no placement
	w.WantEval("blocked-waiting", structs.EvalBlocked)
	group := state.Node(w.Store.Read(), "n1").NodeResources.Devices[0]
	if got := group.Instances[0].HealthDescription; got != "too hot" {
		t.Errorf("the description is %q", got)
	}

	register(withGPUs("n1", &structs.NodeDevice{ID: "0", Healthy: true}))
	w.wantEvaluated("node-update everywhere")
	w.WantEval("blocked-waiting", structs.EvalPending)

	register(withGPUs("n1", &structs.NodeDevice{ID: "0", Healthy: true}, &structs.NodeDevice{ID: "1", Healthy: true}))
	w.wantEvaluated("node-update everywhere")
}

// A node that changes in something else costs as much with many devices as without any: its rows share them.
func TestNodeRegister_SharesUnchangedDevices(t *testing.T) {
	w := newFixture(t)
	for _, address := range []string{"a:1", "b:1"} {
		n := withGPUs("n1", &structs.NodeDevice{ID: "0"})
		n.HTTPAddr = address
		before := state.Node(w.Store.Read(), "n1")
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
		now := state.Node(w.Store.Read(), "n1")
		if now.HTTPAddr != address {
			t.Fatalf("the address is %s", now.HTTPAddr)
		}
		if before != nil && before.NodeResources.Devices[0] != now.NodeResources.Devices[0] {
			t.Error("two rows with equal devices do not share them")
		}
	}
}
