package capacity

import (
	"berth/structs"
	"fmt"
	"slices"
)

// hostPort is a port of an address of a node.
type hostPort struct {
	ip   string
	port int
}

func hostPortOf(p *structs.AllocatedPort) hostPort { return hostPort{p.HostIP, p.Value} }

// PortUse has the ports of one node that allocations have: the allocation of each.
type PortUse map[hostPort]string

// Add records the ports of an allocation. It takes them over from others.
func (u PortUse) Add(a *structs.Allocation) {
	for i := range a.Ports {
		u[hostPortOf(&a.Ports[i])] = a.ID
	}
}

// Holder returns an allocation that has a port of a, "" if none has.
func (u PortUse) Holder(a *structs.Allocation) string {
	for i := range a.Ports {
		holder := u[hostPortOf(&a.Ports[i])]
		if holder != "" {
			return holder
		}
	}
	return ""
}

// NodePorts are the ports of one node that allocations have or that the node reserves.
type NodePorts struct {
	use      PortUse
	node     *structs.Node
	reserved map[*structs.NodeNetworkAddress]structs.PortRanges
}

// NewNodePorts returns the ports of a node that allocations use.
func NewNodePorts(n *structs.Node, use PortUse) *NodePorts {
	return &NodePorts{
		use:      use,
		node:     n,
		reserved: map[*structs.NodeNetworkAddress]structs.PortRanges{},
	}
}

// Reserves reports whether the node keeps a port of an address from allocations.
func (u *NodePorts) Reserves(a *structs.NodeNetworkAddress, port int) bool {
	ranges, known := u.reserved[a]
	if !known {
		ranges = u.node.ReservedPorts(a)
		u.reserved[a] = ranges
	}
	return ranges.Has(port)
}

// Add records the ports of an allocation. It takes them over from others.
func (u *NodePorts) Add(a *structs.Allocation) { u.use.Add(a) }

// HolderOf returns the allocation that has a port of an address, "" if none has.
func (u *NodePorts) HolderOf(a *structs.NodeNetworkAddress, port int) string {
	return u.use[hostPort{a.Address, port}]
}

// Rejection returns why an allocation of the group cannot have its ports, "" if it can: each port that the
// group demands is there once, and it is a port of the node that no allocation has and that the node does not
// reserve. An allocation of stopped gives its ports up. The reason is the same on each server.
func (u *NodePorts) Rejection(a *structs.Allocation, g *structs.TaskGroup, stopped map[string]bool) string {
	demands := g.PortDemands()
	if len(demands) != len(a.Ports) {
		return fmt.Sprintf("group %q demands %d ports and is given %d", g.Name, len(demands), len(a.Ports))
	}

	given := map[hostPort]bool{}
	for i := range demands {
		d := &demands[i]
		p := structs.FindPort(a.Ports, d.Label)
		if p == nil {
			return fmt.Sprintf("port %q is not given", d.Label)
		}

		why := u.misfit(d, p)
		if why != "" {
			return why
		}

		key := hostPortOf(p)
		holder := u.use[key]
		switch {
		case given[key]:
			return fmt.Sprintf("port %s is given twice", p.HostAddr())
		case holder != "" && !stopped[holder]:
			return fmt.Sprintf("allocation %s has port %s", holder, p.HostAddr())
		}

		given[key] = true
	}

	return ""
}

// misfit returns why a port is not one of the node for the demand.
func (u *NodePorts) misfit(d *structs.Port, p *structs.AllocatedPort) string {
	if *p != d.Give(p.HostIP, p.Value) || d.Static() && d.Value != p.Value {
		return fmt.Sprintf("port %q is given as another one", d.Label)
	}

	addresses := u.node.HostAddresses(d.HostNetwork)
	at := slices.IndexFunc(addresses,
		func(a *structs.NodeNetworkAddress) bool { return a.Address == p.HostIP })
	if at < 0 {
		return fmt.Sprintf("it has no address %s in host network %q", p.HostIP, d.HostNetwork)
	}

	if u.Reserves(addresses[at], p.Value) {
		return fmt.Sprintf("it reserves port %s", p.HostAddr())
	}

	low, high := u.node.DynamicPorts()
	if !d.Static() && (p.Value < low || p.Value > high) {
		return fmt.Sprintf("port %d is not one of its dynamic ports, %d to %d", p.Value, low, high)
	}

	return ""
}
