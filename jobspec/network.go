package jobspec

import (
	"maps"
	"slices"

	"berth/structs"
)

// resource returns the network with its static and its dynamic ports.
func (n *network) resource() *structs.NetworkResource {
	out := &structs.NetworkResource{
		Mode:     n.Mode,
		Hostname: n.Hostname,
	}
	if n.DNS != nil {
		out.DNS = (*structs.DNSConfig)(n.DNS)
	}
	for _, p := range n.Ports {
		p.addTo(out)
	}
	return out
}

func (p *port) addTo(n *structs.NetworkResource) {
	demand := structs.Port{
		Label:       p.Label,
		To:          p.To,
		HostNetwork: p.HostNetwork,
	}
	// Without a number the scheduler chooses the port.
	if p.Static == nil {
		n.DynamicPorts = append(n.DynamicPorts, demand)
		return
	}
	demand.Value = *p.Static
	n.ReservedPorts = append(n.ReservedPorts, demand)
}

// moveNetworks adds the ports in the resources of a task to the network of the group. The dialect had them
// there before groups had networks.
func (c *converter) moveNetworks(g *structs.TaskGroup, t *task) {
	if t.Resources == nil {
		return
	}

	spec := g.Tasks[len(g.Tasks)-1]
	for _, n := range t.Resources.Networks {
		c.warn(n.At, "the ports of a network in resources are those of the group; write network in the group")
		if n.Mode != "" || n.DNS != nil || n.Hostname != "" {
			c.fault(n.At, "a network in resources has no mode, dns and hostname; write network in the group")
		}

		if len(g.Networks) == 0 {
			g.Networks = []*structs.NetworkResource{{}}
		}

		// In other drivers a task has no network of its own, so a port is the same inside.
		if t.Driver == "docker" {
			n.mapPorts(spec)
		}

		for _, p := range n.Ports {
			p.addTo(g.Networks[0])
		}
	}
}

// mapPorts turns the ports into ports of a container. A port_map, which goes with such a network, has the
// ports within the container.
func (n *network) mapPorts(t *structs.Task) {
	_, ownNetwork := t.Config["network_mode"]
	// The task is in the network that it names, into which these ports do not lead.
	if ownNetwork {
		return
	}

	inside := portMap(t.Config["port_map"])
	listed, _ := t.Config["ports"].([]any)
	// The list belongs to the file, which the locator of faults reads later.
	listed = slices.Clone(listed)
	for _, p := range n.Ports {
		if to, mapped := inside[p.Label].(int64); mapped && 0 < to && to <= structs.MaxPort {
			p.To = int(to)
			delete(inside, p.Label)
		}

		if !slices.Contains(listed, any(p.Label)) {
			listed = append(listed, p.Label)
		}
	}

	config := maps.Clone(t.Config)
	if config == nil {
		config = map[string]any{}
	}

	config["ports"] = listed
	if len(inside) == 0 { // the driver rejects what is left
		delete(config, "port_map")
	}

	t.Config = config
}

// portMap returns a copy of a port_map, which is a block, several ones, or a map.
func portMap(written any) map[string]any {
	all := map[string]any{}
	blocks, ok := written.([]any)
	if !ok {
		blocks = []any{written}
	}
	for _, b := range blocks {
		ports, _ := b.(map[string]any)
		maps.Copy(all, ports)
	}
	return all
}
