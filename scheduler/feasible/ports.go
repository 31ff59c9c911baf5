package feasible

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
	"berth/structs/capacity"
)

// hasNetwork is a group filter: the node has the network of the group, and its drivers can start tasks in
// it.
func hasNetwork(g *Group, n *structs.Node) string {
	if !g.network.Isolated() {
		return hasPorts(g, n)
	}
	mode := g.network.Mode
	if mode != structs.NetworkModeNone && !n.HasNetworkMode(mode) {
		return fmt.Sprintf("the node has no network with mode %q", structs.Cut(mode, structs.MaxQuoted))
	}
	for _, name := range g.drivers {
		// A driver that cannot join a network namespace would start the task in the network of the host.
		d := n.Drivers[name]
		if d == nil || d.Attributes[structs.AttrNetworkNamespace(name)] == "" {
			return fmt.Sprintf("driver %s cannot start tasks in the network of a group here", name)
		}
	}
	return hasPorts(g, n)
}

// hasPorts reports whether the node has the host networks that the group names, and does not reserve its
// static ports.
func hasPorts(g *Group, n *structs.Node) string {
	if len(g.ports) == 0 {
		return ""
	}

	// Only reservations count here, which do not change with the plan. portsFree knows the allocations.
	reserved := capacity.NewNodePorts(n, nil)
	for i := range g.ports {
		p := &g.ports[i]
		addresses := n.HostAddresses(p.HostNetwork)

		// One address is enough: a port is given on the first that has it free.
		usable := 0
		for _, a := range addresses {
			if !p.Static() || !reserved.Reserves(a, p.Value) {
				usable++
			}
		}

		switch {
		case len(addresses) == 0:
			return fmt.Sprintf("the node has no host network %q", p.HostNetwork)
		case usable == 0:
			return fmt.Sprintf("the node reserves port %d of host network %q", p.Value, p.HostNetwork)
		}
	}

	return ""
}

// portsFree checks that the node has free ports for the allocation.
func (p *Outlook) portsFree(d *Demand, v *NodeView) *rejects.Rejection {
	if len(d.Group.ports) == 0 {
		return nil
	}
	_, short := p.choosePorts(d.Group, v)
	if short == nil {
		return nil
	}
	reason := fmt.Sprintf("dynamic ports of host network %q exhausted", short.HostNetwork)
	if short.Static() {
		reason = fmt.Sprintf("port %d of host network %q is in use", short.Value, short.HostNetwork)
	}
	return &rejects.Rejection{
		Reason:    reason,
		Dimension: "ports",
	}
}

// choosePorts chooses free ports of a node for each demand of a group, in order: static ones come first. It
// returns the first demand without a free port, nil if there is none.
func (p *Outlook) choosePorts(g *Group, v *NodeView) ([]structs.AllocatedPort, *structs.Port) {
	if v.ports == nil {
		// Most groups demand no ports, so the ports of a node are read at the first demand.
		v.ports = state.PortsInUse(p, v.Node)
	}
	c := portChoice{view: v, stopped: p.stopped}
	for i := range g.ports {
		if !c.choose(&g.ports[i]) {
			return nil, &g.ports[i]
		}
	}
	return c.given, nil
}

// portChoice chooses ports for one allocation.
type portChoice struct {
	view    *NodeView
	stopped map[string]bool // allocations that the plan stops
	given   []structs.AllocatedPort
}

// choose adds a port of the first address that has one for the demand, and reports whether one has.
func (c *portChoice) choose(demand *structs.Port) bool {
	for _, a := range c.view.Node.HostAddresses(demand.HostNetwork) {
		// A static port may be one of an allocation that stops: no other port can take its place.
		port := demand.Value
		found := c.isFree(a, port, true)
		if !demand.Static() {
			port, found = c.drawPort(a)
		}
		if found {
			c.given = append(c.given, demand.Give(a.Address, port))
			return true
		}
	}
	return false
}

// isFree reports whether the allocation may have a port: with takeOver also one of an allocation that the
// plan stops.
func (c *portChoice) isFree(a *structs.NodeNetworkAddress, port int, takeOver bool) bool {
	own := func(p structs.AllocatedPort) bool { return p.Value == port && p.HostIP == a.Address }
	holder := c.view.ports.HolderOf(a, port)
	return (holder == "" || takeOver && c.stopped[holder]) &&
		!c.view.ports.Reserves(a, port) &&
		!slices.ContainsFunc(c.given, own)
}

// drawn is the number of random tries for a dynamic port before all are listed.
const drawn = 32

// drawPort returns a random dynamic port of an address. All have the same chance, so two plans that are made
// from one state seldom choose the same port. A port of an allocation that the plan stops is the last choice,
// because the new allocation has to wait for its end.
func (c *portChoice) drawPort(a *structs.NodeNetworkAddress) (port int, found bool) {
	low, high := c.view.Node.DynamicPorts()
	for range drawn {
		port = low + rand.IntN(high-low+1)
		if c.isFree(a, port, false) {
			return port, true
		}
	}

	// After that many misses few ports are free, and the list finds each of them.
	for _, takeOver := range []bool{false, true} {
		var free []int
		for port = low; port <= high; port++ {
			if c.isFree(a, port, takeOver) {
				free = append(free, port)
			}
		}

		if len(free) > 0 {
			return free[rand.IntN(len(free))], true
		}
	}

	return 0, false
}
