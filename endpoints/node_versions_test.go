package endpoints

import (
	"testing"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// A server of an earlier version would not store the devices, ports and host volumes of a node. The node
// registers without them.
func TestNodeRegister_DropsNewFieldsWhileAServerIsOlder(t *testing.T) {
	for _, c := range []struct{ version, devices, ports int }{
		{fsm.TasksSince, 1, 1},
		{fsm.TasksSince - 1, 1, 1},
		{fsm.PortsSince, 1, 1},
		{fsm.PortsSince - 1, 1, 0},
		{fsm.DevicesSince, 1, 0},
		{fsm.DevicesSince - 1, 0, 0},
		{0, 1, 1},
	} {
		s := newServer(t)
		s.Endpoints.version = func() int { return c.version }
		r := testRegistration("n1")
		given := r.Node.NodeResources
		given.Devices = []*structs.NodeDeviceResource{{Vendor: "acme", Type: "gpu", Name: "x1"}}
		given.NodeNetworks = []*structs.NodeNetworkResource{{Mode: structs.NetworkModeHost, Device: "eth0"}}
		given.MinDynamicPort = 1000
		given.MaxDynamicPort = 2000
		r.Node.ReservedResources = &structs.NodeReservedResources{
			Networks: &structs.NodeReservedNetworks{ReservedHostPorts: "22"},
		}
		r.Node.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/srv"}}
		resp := must(s, structs.NodeRegister, r)
		volumes := c.version == 0 || c.version >= fsm.TasksSince
		if resp.KeepsAll != volumes {
			t.Errorf("version %d: the answer says %v", c.version, resp.KeepsAll)
		}
		row := state.Node(s.store.Read(), "n1")
		if n := len(row.NodeResources.Devices); n != c.devices {
			t.Errorf("version %d: %d device groups are stored, want %d", c.version, n, c.devices)
		}
		if (len(row.HostVolumes) == 1) != volumes {
			t.Errorf("version %d: stored %d host volumes", c.version, len(row.HostVolumes))
		}
		has := row.NodeResources
		if len(has.NodeNetworks) != c.ports || has.MinDynamicPort != c.ports*1000 ||
			has.MaxDynamicPort != c.ports*2000 || (row.ReservedResources.Networks != nil) != (c.ports == 1) {
			t.Errorf("version %d: stored %+v and %+v", c.version, has, row.ReservedResources)
		}
		if len(given.Devices) != 1 || len(given.NodeNetworks) != 1 ||
			len(r.Node.HostVolumes) != 1 || r.Node.ReservedResources.Networks == nil {
			t.Error("the report itself has changed")
		}
	}
}

// Likewise for networks of allocations: the node keeps its other networks.
func TestNodeRegister_DropsNetworksOfAllocationsWhileAServerIsOlder(t *testing.T) {
	for version, want := range map[int]int{fsm.NetworksSince: 2, fsm.NetworksSince - 1: 1, 0: 2} {
		s := newServer(t)
		s.Endpoints.version = func() int { return version }
		r := testRegistration("n1")
		r.Node.NodeResources.NodeNetworks = []*structs.NodeNetworkResource{
			{Mode: structs.NetworkModeHost, Device: "eth0"},
			{Mode: structs.NetworkModeBridge, Device: "berth"},
		}
		resp := must(s, structs.NodeRegister, r)
		if resp.KeepsAll != (want == 2) {
			t.Errorf("version %d: the answer says %v", version, resp.KeepsAll)
		}
		stored := state.Node(s.store.Read(), "n1").NodeResources.NodeNetworks
		if len(stored) != want || stored[0].Device != "eth0" {
			t.Errorf("version %d: stored %+v", version, stored)
		}
		if len(r.Node.NodeResources.NodeNetworks) != 2 {
			t.Error("the report itself has changed")
		}
	}
}

// filledNetwork is a network with all settings that a job may have.
func filledNetwork() *structs.NetworkResource {
	return &structs.NetworkResource{
		Mode:     structs.NetworkModeBridge,
		Hostname: "h",
		DNS: &structs.DNSConfig{
			Servers:  []string{"10.0.0.1"},
			Searches: []string{"a.b"},
			Options:  []string{"ndots:2"},
		},
		ReservedPorts: []structs.Port{{Label: "a", Value: 80}},
		DynamicPorts:  []structs.Port{{Label: "b"}},
	}
}
