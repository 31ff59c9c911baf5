package cli

import (
	"fmt"
	"strconv"

	"berth/structs"
)

// printAllocPorts shows the ports of an allocation.
func printAllocPorts(c *Call, r *structs.AllocatedResources) {
	if r == nil {
		return
	}
	var rows grid
	for _, p := range r.Shared.Ports {
		rows.addRow(p.Label, p.HostAddr(), strconv.Itoa(p.Inside()))
	}
	printSome(c, "Ports", "Label|Address|Task's Port", rows)
}

// printAllocNetwork shows the network of an allocation that has one of its own.
func printAllocNetwork(c *Call, a *structs.Allocation) {
	s := a.NetworkStatus
	if s == nil {
		return
	}
	var rows grid
	rows.addRow(a.ModeOf(), s.InterfaceName, s.Address)
	printSome(c, "Network", "Mode|Interface|Address", rows)
}

// printHostNetworks shows the addresses of a node from which allocations get ports, and the networks that
// allocations may have.
func printHostNetworks(c *Call, r *structs.NodeResources) {
	if r == nil {
		return
	}
	var rows grid
	for _, link := range r.NodeNetworks {
		for _, a := range link.Addresses {
			rows.addRow(a.Alias, link.Device, a.Address, a.ReservedPorts)
		}
	}
	printSome(c, "Host networks", "Name|Interface|Address|Reserved Ports", rows)
	rows = grid{}
	for _, link := range r.NodeNetworks {
		if link.Mode != structs.NetworkModeHost {
			rows.addRow(link.Mode, link.Device)
		}
	}
	printSome(c, "Networks of allocations", "Mode|Interface", rows)
}

// dynamicPorts formats the dynamic ports of a node, "" for a node that reports no networks.
func dynamicPorts(n *structs.Node) string {
	if n.NodeResources == nil || len(n.NodeResources.NodeNetworks) == 0 {
		return ""
	}
	low, high := n.DynamicPorts()
	return fmt.Sprintf("%d to %d", low, high)
}

func reservedPorts(n *structs.Node) string {
	if n.ReservedResources == nil || n.ReservedResources.Networks == nil {
		return ""
	}
	return n.ReservedResources.Networks.ReservedHostPorts
}
