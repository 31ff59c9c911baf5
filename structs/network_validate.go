package structs

import (
	"net/netip"
	"strings"
)

var (
	// Labels become parts of the names of variables.
	portLabelForm   = pattern(`^[a-zA-Z0-9_-]{1,64}$`)
	hostNetworkForm = pattern(`^[a-zA-Z0-9_.-]{1,64}$`)
	cniNameForm     = pattern(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)
	domainForm      = pattern(`^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?` +
		`(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	resolverOption = pattern(`^[!-~]{1,64}$`)
)

// IsHostNetwork reports whether a text can be the name of a host network.
func IsHostNetwork(name string) bool { return hostNetworkForm().MatchString(name) }

// maxDomain is the length of the longest name of a host that Linux takes.
const maxDomain = 64

// IsDomain reports whether a text can be the name of a host.
func IsDomain(name string) bool { return len(name) <= maxDomain && domainForm().MatchString(name) }

// IsSearch reports whether a text can be a domain in which names are looked up.
func IsSearch(name string) bool {
	return name == "." || len(name) <= MaxName && domainForm().MatchString(strings.TrimSuffix(name, "."))
}

// IsResolverOption reports whether a text can be an option of name resolution.
func IsResolverOption(text string) bool { return resolverOption().MatchString(text) }

func (d *DNSConfig) validate(f fieldErrors) {
	if d == nil {
		return
	}
	check := func(list string, texts []string, ok func(string) bool, form string) {
		for i, text := range firstOf(f, list, texts, MaxResolvers) {
			f.require(ok(text) || len(text) <= MaxText && strings.Contains(text, "${"),
				"%s %d: %q is not %s", list, i+1, Cut(text, MaxQuoted), form)
		}
	}
	isAddress := func(text string) bool {
		_, err := netip.ParseAddr(text)
		return err == nil
	}
	check("servers", d.Servers, isAddress, "an IP address")
	check("searches", d.Searches, IsSearch, "a domain")
	check("options", d.Options, IsResolverOption, "an option such as ndots:2")
}

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
	g.validateIsolation(f.at("network"))
}

// validateIsolation checks the mode of the network and the settings that depend on it.
func (g *TaskGroup) validateIsolation(f fieldErrors) {
	n := g.Networks[0]
	f.require(IsNetworkMode(n.Mode),
		`mode %q is none of "host", "bridge", "none" and "cni/NAME"`, Cut(n.Mode, MaxQuoted))
	ports := len(n.ReservedPorts) + len(n.DynamicPorts)
	f.require(n.Mode != NetworkModeNone || ports == 0,
		"a network with mode %q has no ports, because nothing reaches its tasks; use %q",
		NetworkModeNone, NetworkModeBridge)
	f.require(n.Hostname == "" || n.Isolated(),
		"hostname: the tasks have the name of the node with mode %q; use %q", n.Mode, NetworkModeBridge)
}

func (n *NetworkResource) validate(f fieldErrors) {
	n.DNS.validate(f.at("dns"))
	f.require(n.Hostname == "" || strings.Contains(n.Hostname, "${") || IsDomain(n.Hostname),
		"hostname %q must be a name of letters, digits, dashes and dots with at most %d characters",
		Cut(n.Hostname, MaxQuoted), maxDomain)
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
		f.require(IsNetworkMode(link.Mode), "Mode %q is not a mode of networks", Cut(link.Mode, MaxQuoted))
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
