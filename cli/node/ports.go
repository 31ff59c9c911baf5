package node

import (
	"fmt"

	"berth/cli/command"
	"berth/structs"
)

// printHostNetworks shows the addresses of a node from which allocations get ports, and the networks that
// allocations may have.
func printHostNetworks(c *command.Call, r *structs.NodeResources) {
	if r == nil {
		return
	}

	var rows command.Grid
	for _, link := range r.NodeNetworks {
		for _, a := range link.Addresses {
			rows.AddRow(a.Alias, link.Device, a.Address, a.ReservedPorts)
		}
	}

	command.PrintSome(c, "Host networks", "Name|Interface|Address|Reserved Ports", rows)
	rows = command.Grid{}
	for _, link := range r.NodeNetworks {
		if link.Mode != structs.NetworkModeHost {
			rows.AddRow(link.Mode, link.Device)
		}
	}

	command.PrintSome(c, "Networks of allocations", "Mode|Interface", rows)
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
