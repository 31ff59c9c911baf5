package structs

import (
	"net/netip"
)

var (
	// Labels become parts of the names of variables.
	portLabelForm   = pattern(`^[a-zA-Z0-9_-]{1,64}$`)
	hostNetworkForm = pattern(`^[a-zA-Z0-9_.-]{1,64}$`)
	notInVariables  = pattern(`[^a-zA-Z0-9_]`)
)

// VariableName replaces the characters that the name of an environment variable must not have.
func VariableName(s string) string { return notInVariables().ReplaceAllString(s, "_") }

// IsHostNetwork reports whether a text can be the name of a host network.
func IsHostNetwork(name string) bool { return hostNetworkForm().MatchString(name) }

// validateNetworks checks the network of a group.
func (g *TaskGroup) validateNetworks(f fieldErrors) {
	f.require(len(g.Networks) <= 1, "%d networks; a group has at most one", len(g.Networks))
	if len(g.Networks) == 0 {
		return
	}
	if g.Networks[0] == nil {
		f.addf("network 1 is null")
		return
	}
	g.Networks[0].validate(f.at("network"))
}

func (n *NetworkResource) validate(f fieldErrors) {
	f.require(n.Mode == NetworkModeHost,
		"mode %q is not supported by berth yet; leave it out or use %q", n.Mode, NetworkModeHost)
	f.require(n.Device == "" && n.CIDR == "" && n.IP == "",
		"device, cidr and ip are not settings of a group; a port names a host_network")
	ports := len(n.ReservedPorts) + len(n.DynamicPorts)
	if f.atMost("ports", ports, MaxGroupPorts) < ports {
		return
	}
	labels := map[string]string{}   // by the name in variables
	values := map[hostPort]string{} // by host network
	for i := range n.ReservedPorts {
		p := &n.ReservedPorts[i]
		f := f.at("port %q", p.Label)
		f.checkRange("static", p.Value, intRange{1, MaxPort, ""})
		p.validate(f, labels)
		key := hostPort{p.HostNetwork, p.Value}
		f.require(values[key] == "", "static %d is that of port %q too", p.Value, values[key])
		values[key] = p.Label
	}
	for i := range n.DynamicPorts {
		p := &n.DynamicPorts[i]
		f := f.at("port %q", p.Label)
		f.require(p.Value == 0, "Value %d: a dynamic port has none; ReservedPorts has the static ones", p.Value)
		p.validate(f, labels)
	}
}

func (p *Port) validate(f fieldErrors, labels map[string]string) {
	f.require(portLabelForm().MatchString(p.Label),
		"the label must be 1 to 64 letters, digits, dashes and underscores")
	f.checkRange("to", p.To, intRange{-1, MaxPort, ""})
	f.require(IsHostNetwork(p.HostNetwork),
		"host_network %q must be 1 to 64 letters, digits, dots, dashes and underscores", p.HostNetwork)
	if len(p.Label) > MaxName {
		return
	}
	name := VariableName(p.Label)
	other, taken := labels[name]
	f.require(!taken, "port %q has the same name in variables; each port has its own", other)
	labels[name] = p.Label
}

// validateNetworks checks the networks that a node reports.
func (r *NodeResources) validateNetworks(f fieldErrors) {
	f.checkDynamicPorts(r.MinDynamicPort, r.MaxDynamicPort)
	addresses := 0
	for i, link := range firstOf(f, "networks", r.NodeNetworks, MaxNodeAddresses) {
		if link == nil {
			f.addf("network %d is null", i+1)
			continue
		}
		f := f.at("network %d", i+1)
		f.checkOneOf("Mode", link.Mode, []string{NetworkModeHost})
		f.checkBytes("Device", len(link.Device), MaxName)
		f.checkBytes("MacAddress", len(link.MacAddress), MaxName)
		addresses += len(link.Addresses)
		if addresses > MaxNodeAddresses {
			break
		}
		for _, a := range link.Addresses {
			a.validate(f)
		}
	}
	f.atMost("addresses of its networks", addresses, MaxNodeAddresses)
}

// checkDynamicPorts checks the range of dynamic ports of a node. Both ends are 0 for the default.
func (f fieldErrors) checkDynamicPorts(low, high int) {
	if low == 0 && high == 0 {
		return
	}
	f.require(low >= 1 && low <= high && high <= MaxPort,
		"the dynamic ports are from %d to %d; expected a range within 1 to %d", low, high, MaxPort)
}

func (a *NodeNetworkAddress) validate(f fieldErrors) {
	if a == nil {
		f.addf("an address is null")
		return
	}
	f.checkOneOf("Family", a.Family, []string{FamilyIPv4, FamilyIPv6})
	f.require(IsHostNetwork(a.Alias), "alias %q is not the name of a host network", a.Alias)
	ip, err := netip.ParseAddr(a.Address)
	f.require(err == nil && ip.Zone() == "" && ip.String() == a.Address,
		"%q is not an IP address in its usual form", a.Address)
	_, err = ParsePorts(a.ReservedPorts)
	f.require(err == nil, "ReservedPorts: %v", err)
}
