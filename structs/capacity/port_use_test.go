package capacity

import (
	"berth/structs"
	"berth/structs/defaults"
	"strings"
	"testing"
)

// withAddresses returns a node with two addresses of the default network and one of another.
func withAddresses() *structs.Node {
	return &structs.Node{
		ID: "n1",
		NodeResources: &structs.NodeResources{
			MinDynamicPort: 1000,
			MaxDynamicPort: 1003,
			NodeNetworks: []*structs.NodeNetworkResource{
				{
					Mode:       structs.NetworkModeHost,
					Device:     "eth0",
					MacAddress: "02:00:00:00:00:01",
					Addresses: []*structs.NodeNetworkAddress{
						{
							Family:        structs.FamilyIPv4,
							Alias:         structs.DefaultHostNetwork,
							Address:       "10.0.0.1",
							ReservedPorts: "1000",
						},
						{Family: structs.FamilyIPv6, Alias: structs.DefaultHostNetwork, Address: "2001:db8::1"},
					},
				},
				{
					Mode:   structs.NetworkModeHost,
					Device: "eth1",
					Addresses: []*structs.NodeNetworkAddress{
						{Family: structs.FamilyIPv4, Alias: "private", Address: "192.168.0.1"},
					},
				},
			},
		},
		ReservedResources: &structs.NodeReservedResources{
			Networks: &structs.NodeReservedNetworks{ReservedHostPorts: "22,4646-4648"},
		},
	}
}

// withPorts returns the group of a canonical job with a network.
func withPorts(n structs.NetworkResource) *structs.TaskGroup {
	g := &structs.TaskGroup{Name: "g", Networks: []*structs.NetworkResource{&n}}
	defaults.Canonicalize(&structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{g}})
	return g
}

// TestNodePorts_RejectsWhatIsNotFree checks the rule by which the entry of a plan accepts ports.
func TestNodePorts_RejectsWhatIsNotFree(t *testing.T) {
	g := withPorts(structs.NetworkResource{
		ReservedPorts: []structs.Port{{Label: "ssh", Value: 2222, To: 22}},
		DynamicPorts:  []structs.Port{{Label: "http", To: -1}, {Label: "db", HostNetwork: "private"}},
	})
	const first, private = "10.0.0.1", "192.168.0.1"
	given := func() *structs.Allocation {
		return &structs.Allocation{ID: "a", Ports: []structs.AllocatedPort{
			{Label: "ssh", Value: 2222, To: 22, HostIP: first},
			{Label: "http", Value: 1001, To: 1001, HostIP: first},
			{Label: "db", Value: 1001, HostIP: private},
		}}
	}
	other := &structs.Allocation{ID: "b", Ports: []structs.AllocatedPort{{Label: "x", Value: 1002, HostIP: first}}}
	for want, edit := range map[string]func([]structs.AllocatedPort) []structs.AllocatedPort{
		"": func(p []structs.AllocatedPort) []structs.AllocatedPort { return p },
		`group "g" demands 3 ports and is given 2`: func(p []structs.AllocatedPort) []structs.AllocatedPort { return p[1:] },
		`port "ssh" is not given`: func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[0].Label = "other"
			return p
		},
		`port "ssh" is given as another one`: func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[0].Value = 2223
			return p
		},
		`port "http" is given as another one`: func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[1].To = 0
			return p
		},
		`it has no address 192.168.0.1 in host network "default"`: func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[1].HostIP = private
			return p
		},
		"it reserves port 10.0.0.1:1000": func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[1].Value, p[1].To = 1000, 1000
			return p
		},
		"port 1004 is not one of its dynamic ports, 1000 to 1003": func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[2].Value = 1004
			return p
		},
		"allocation b has port 10.0.0.1:1002": func(p []structs.AllocatedPort) []structs.AllocatedPort {
			p[1].Value, p[1].To = 1002, 1002
			return p
		},
	} {
		a := given()
		a.Ports = edit(a.Ports)
		use := PortUse{}
		use.Add(other)
		ports := NewNodePorts(withAddresses(), use)
		if got := ports.Rejection(a, g, nil); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		stopped := map[string]bool{"b": true}
		if got := ports.Rejection(a, g, stopped); strings.HasPrefix(want, "allocation b") && got != "" {
			t.Errorf("with b stopped: %s", got)
		}
	}
	reserving := withAddresses()
	reserving.ReservedResources.Networks.ReservedHostPorts = "2000-3000"
	if got := NewNodePorts(reserving, PortUse{}).Rejection(given(), g, nil); got !=
		"it reserves port 10.0.0.1:2222" {
		t.Errorf("got %q", got)
	}
	two := withPorts(structs.NetworkResource{DynamicPorts: []structs.Port{{Label: "a"}, {Label: "b"}}})
	twice := &structs.Allocation{Ports: []structs.AllocatedPort{
		{Label: "a", Value: 1001, HostIP: first},
		{Label: "b", Value: 1001, HostIP: first},
	}}
	if got := NewNodePorts(withAddresses(), PortUse{}).Rejection(twice, two, nil); got !=
		"port 10.0.0.1:1001 is given twice" {
		t.Errorf("got %q", got)
	}
}
