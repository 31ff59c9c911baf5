package report

import "berth/structs"

// gpus is a group of devices "0", "1", ...
func gpus(name string, n int) *structs.NodeDeviceResource {
	g := &structs.NodeDeviceResource{Vendor: "acme", Type: "gpu", Name: name}
	for i := range n {
		g.Instances = append(g.Instances, &structs.NodeDevice{ID: string(rune('0' + i)), Healthy: true})
	}
	return g
}

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
						{Family: structs.FamilyIPv4, Alias: structs.DefaultHostNetwork, Address: "10.0.0.1",
							ReservedPorts: "1000"},
						{Family: structs.FamilyIPv6, Alias: structs.DefaultHostNetwork, Address: "2001:db8::1"},
					},
				},
				{
					Mode:   structs.NetworkModeHost,
					Device: "eth1",
					Addresses: []*structs.NodeNetworkAddress{{Family: structs.FamilyIPv4, Alias: "private",
						Address: "192.168.0.1"}},
				},
			},
		},
		ReservedResources: &structs.NodeReservedResources{
			Networks: &structs.NodeReservedNetworks{ReservedHostPorts: "22,4646-4648"},
		},
	}
}
