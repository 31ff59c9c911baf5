package structs

import (
	"strings"
	"testing"
)

// withAddresses returns a node with two addresses of the default network and one of another.
func withAddresses() *Node {
	return &Node{
		ID: "n1",
		NodeResources: &NodeResources{
			MinDynamicPort: 1000,
			MaxDynamicPort: 1003,
			NodeNetworks: []*NodeNetworkResource{
				{
					Mode:       NetworkModeHost,
					Device:     "eth0",
					MacAddress: "02:00:00:00:00:01",
					Addresses: []*NodeNetworkAddress{
						{Family: FamilyIPv4, Alias: DefaultHostNetwork, Address: "10.0.0.1", ReservedPorts: "1000"},
						{Family: FamilyIPv6, Alias: DefaultHostNetwork, Address: "2001:db8::1"},
					},
				},
				{
					Mode:      NetworkModeHost,
					Device:    "eth1",
					Addresses: []*NodeNetworkAddress{{Family: FamilyIPv4, Alias: "private", Address: "192.168.0.1"}},
				},
			},
		},
		ReservedResources: &NodeReservedResources{
			Networks: &NodeReservedNetworks{ReservedHostPorts: "22,4646-4648"},
		},
	}
}

// withPorts returns the group of a canonical job with a network.
func withPorts(n NetworkResource) *TaskGroup {
	g := &TaskGroup{Name: "g", Networks: []*NetworkResource{&n}}
	Canonicalize(&Job{ID: "j", TaskGroups: []*TaskGroup{g}})
	return g
}

// TestNodePorts_RejectsWhatIsNotFree checks the rule by which the entry of a plan accepts ports.
func TestNodePorts_RejectsWhatIsNotFree(t *testing.T) {
	g := withPorts(NetworkResource{
		ReservedPorts: []Port{{Label: "ssh", Value: 2222, To: 22}},
		DynamicPorts:  []Port{{Label: "http", To: -1}, {Label: "db", HostNetwork: "private"}},
	})
	const first, private = "10.0.0.1", "192.168.0.1"
	given := func() *Allocation {
		return &Allocation{ID: "a", Ports: []AllocatedPort{
			{Label: "ssh", Value: 2222, To: 22, HostIP: first},
			{Label: "http", Value: 1001, To: 1001, HostIP: first},
			{Label: "db", Value: 1001, HostIP: private},
		}}
	}
	other := &Allocation{ID: "b", Ports: []AllocatedPort{{Label: "x", Value: 1002, HostIP: first}}}
	for want, edit := range map[string]func([]AllocatedPort) []AllocatedPort{
		"": func(p []AllocatedPort) []AllocatedPort { return p },
		`group "g" demands 3 ports and is given 2`: func(p []AllocatedPort) []AllocatedPort { return p[1:] },
		`port "ssh" is not given`: func(p []AllocatedPort) []AllocatedPort {
			p[0].Label = "other"
			return p
		},
		`port "ssh" is given as another one`: func(p []AllocatedPort) []AllocatedPort {
			p[0].Value = 2223
			return p
		},
		`port "http" is given as another one`: func(p []AllocatedPort) []AllocatedPort {
			p[1].To = 0
			return p
		},
		`it has no address 192.168.0.1 in host network "default"`: func(p []AllocatedPort) []AllocatedPort {
			p[1].HostIP = private
			return p
		},
		"it reserves port 10.0.0.1:1000": func(p []AllocatedPort) []AllocatedPort {
			p[1].Value, p[1].To = 1000, 1000
			return p
		},
		"port 1004 is not one of its dynamic ports, 1000 to 1003": func(p []AllocatedPort) []AllocatedPort {
			p[2].Value = 1004
			return p
		},
		"allocation b has port 10.0.0.1:1002": func(p []AllocatedPort) []AllocatedPort {
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
	two := withPorts(NetworkResource{DynamicPorts: []Port{{Label: "a"}, {Label: "b"}}})
	twice := &Allocation{Ports: []AllocatedPort{
		{Label: "a", Value: 1001, HostIP: first},
		{Label: "b", Value: 1001, HostIP: first},
	}}
	if got := NewNodePorts(withAddresses(), PortUse{}).Rejection(twice, two, nil); got !=
		"port 10.0.0.1:1001 is given twice" {
		t.Errorf("got %q", got)
	}
}
