package state_test

import (
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// withNetwork returns a node with an address in each of the host networks.
func withNetwork(id string, networks ...string) *structs.Node {
	n := aNode(id)
	link := &structs.NodeNetworkResource{Mode: structs.NetworkModeHost, Device: "eth0"}
	for _, name := range networks {
		link.Addresses = append(link.Addresses, &structs.NodeNetworkAddress{
			Family:  structs.FamilyIPv4,
			Alias:   name,
			Address: "10.0.0.1",
		})
	}
	n.NodeResources.NodeNetworks = []*structs.NodeNetworkResource{link}
	return n
}

func TestComputedClass_OfHostNetworks(t *testing.T) {
	base := state.ComputedClass(withNetwork("n1", "default", "public"))
	other := withNetwork("n2", "public", "default", "public")
	other.NodeResources.NodeNetworks[0].Addresses[0].Address = "10.0.0.2"
	other.NodeResources.MinDynamicPort = 1
	other.NodeResources.MaxDynamicPort = 2
	if state.ComputedClass(other) != base {
		t.Error("an address, its number or the dynamic ports change the class")
	}
	if state.ComputedClass(withNetwork("n1", "default", "private")) == base {
		t.Error("another host network does not change the class")
	}
	if state.ComputedClass(withNetwork("n1", "default")) != state.ComputedClass(aNode("n1")) {
		t.Error("the default network changes the class")
	}
}

func TestNodeRegister_EvaluatesAfterChangesOfPorts(t *testing.T) {
	w := newFixture(t)
	w.Job(aJob("everywhere", structs.JobSystem))
	n := withNetwork("n1", "default")
	register := func(edit func(*structs.Node)) {
		c := n.Copy()
		resources := *n.NodeResources
		c.NodeResources = &resources
		edit(c)
		n = c
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
	}
	register(func(*structs.Node) {})
	for name, edit := range map[string]func(*structs.Node){
		"a host network": func(n *structs.Node) {
			n.NodeResources.NodeNetworks = withNetwork("n1", "default", "public").NodeResources.NodeNetworks
		},
		"dynamic ports": func(n *structs.Node) {
			n.NodeResources.MinDynamicPort = 1000
			n.NodeResources.MaxDynamicPort = 2000
		},
		"reserved ports": func(n *structs.Node) {
			n.ReservedResources = &structs.NodeReservedResources{
				Networks: &structs.NodeReservedNetworks{ReservedHostPorts: "22"},
			}
		},
	} {
		w.Blocked("waiting", structs.WakeCapacity)
		register(edit)
		w.wantEvaluated("node-update everywhere")
		w.WantEval("blocked-waiting", structs.EvalPending)
		if t.Failed() {
			t.Fatalf("after a change of %s", name)
		}
	}
}

// An allocation that was stopped and has not ended may share a port with a newer one, and with no other.
func TestCheck_OfPortsThatWereHandedOn(t *testing.T) {
	w := threeNodes(t, true)
	put := func(id string, stopped bool) {
		w.Index++
		if err := w.Store.Write(w.Index, func(tx *state.WriteTx) error {
			a := state.Alloc(tx.ReadTx, "a1").Copy()
			a.ID = id
			a.Ports = []structs.AllocatedPort{{Label: "x", Value: 80, HostIP: "10.0.0.1"}}
			if stopped {
				a.DesiredStatus = structs.AllocDesiredStop
			}
			schema.Allocs.Put(tx, a)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	put("z", true)
	put("y", true)
	put("x", false)
	w.Check()
	n := state.Node(w.Store.Read(), state.Alloc(w.Store.Read(), "x").NodeID)
	address := &structs.NodeNetworkAddress{Address: "10.0.0.1"}
	if holder := state.PortsInUse(w.Store.Read(), n).HolderOf(address, 80); holder != "x" {
		t.Errorf("allocation %q has the port, want the newest, x", holder)
	}
	put("w", true)
	if len(state.Check(w.Store.Read())) == 0 {
		t.Error("an older allocation that is to run shares its port with a newer one")
	}
}

// The addresses of a node are its own, so they must not push shared parts of other rows out of the interner.
func TestNodeRegister_SharesResourcesWithoutNetworks(t *testing.T) {
	w := newFixture(t)
	register := func(id string) *structs.NodeResources {
		n := withNetwork(id, "default")
		n.NodeResources.NodeNetworks[0].MacAddress = id
		n.NodeResources.CPU.ReservableCpuCores = []uint16{1, 2}
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: n, WriteOptions: w.Now()})
		return state.Node(w.Store.Read(), id).NodeResources
	}
	a := register("n1")
	b := register("n2")
	if &a.CPU.ReservableCpuCores[0] != &b.CPU.ReservableCpuCores[0] {
		t.Error("two nodes with equal processors do not share them")
	}
	if a.NodeNetworks[0].MacAddress != "n1" || b.NodeNetworks[0].MacAddress != "n2" {
		t.Errorf("the networks are %+v and %+v", a.NodeNetworks[0], b.NodeNetworks[0])
	}
}

func TestComputedClass_OfNetworkModes(t *testing.T) {
	class := func(mode, device string) string {
		n := aNode("n1")
		n.NodeResources = &structs.NodeResources{
			NodeNetworks: []*structs.NodeNetworkResource{{Mode: mode, Device: device}},
		}
		return state.ComputedClass(n)
	}
	if class("bridge", "a") != class("bridge", "b") {
		t.Error("the interface changes the class")
	}
	if class("bridge", "a") == class("cni/x", "a") || class("bridge", "a") == class("host", "a") {
		t.Error("the mode does not change the class")
	}
}
