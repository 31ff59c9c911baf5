package validate

import (
	"net/netip"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// checkNetworks checks the network of a group.
func checkNetworks(f field.Errors, g *structs.TaskGroup) {
	f.Require(len(g.Networks) <= 1, "%d networks; a group has at most one", len(g.Networks))
	if len(g.Networks) == 0 {
		return
	}

	if g.Networks[0] == nil {
		f.Addf("network 1 is null")
		return
	}

	checkNetwork(f.At("network"), g.Networks[0])
	checkIsolation(f.At("network"), g)
}

// checkIsolation checks the mode of the network and the settings that depend on it.
func checkIsolation(f field.Errors, g *structs.TaskGroup) {
	n := g.Networks[0]
	f.Require(field.IsNetworkMode(n.Mode),
		`mode %q is none of "host", "bridge", "none" and "cni/NAME"`, structs.Cut(n.Mode, structs.MaxQuoted))
	ports := len(n.ReservedPorts) + len(n.DynamicPorts)
	f.Require(n.Mode != structs.NetworkModeNone || ports == 0,
		"a network with mode %q has no ports, because nothing reaches its tasks; use %q",
		structs.NetworkModeNone, structs.NetworkModeBridge)
	f.Require(n.Hostname == "" || n.Isolated(),
		"hostname: the tasks have the name of the node with mode %q; use %q", n.Mode,
		structs.NetworkModeBridge)
}

// staticPort is a static port of a host network.
type staticPort struct {
	network string
	port    int
}

// checkNetwork checks the ports of a group and the settings of its namespace. The labels are unique in the
// form that variables have them, and static ports in their host network.
func checkNetwork(f field.Errors, n *structs.NetworkResource) {
	checkDNS(f.At("dns"), n.DNS)
	f.Require(n.Hostname == "" || strings.Contains(n.Hostname, "${") || field.IsDomain(n.Hostname),
		"hostname %q must be a name of letters, digits, dashes and dots with at most %d characters",
		structs.Cut(n.Hostname, structs.MaxQuoted), field.MaxDomain)
	f.Require(n.Device == "" && n.CIDR == "" && n.IP == "",
		"device, cidr and ip are not settings of a group; a port names a host_network")
	ports := len(n.ReservedPorts) + len(n.DynamicPorts)
	if f.AtMost("ports", ports, structs.MaxGroupPorts) < ports {
		return
	}

	labels := map[string]string{}     // by the name in variables
	values := map[staticPort]string{} // by host network
	for i := range n.ReservedPorts {
		p := &n.ReservedPorts[i]
		f := f.At("port %q", p.Label)
		f.CheckRange("static", p.Value, field.Between(1, structs.MaxPort))
		checkPort(f, p, labels)
		key := staticPort{p.HostNetwork, p.Value}
		f.Require(values[key] == "", "static %d is that of port %q too", p.Value, values[key])
		values[key] = p.Label
	}

	for i := range n.DynamicPorts {
		p := &n.DynamicPorts[i]
		f := f.At("port %q", p.Label)

		// The scheduler chooses the number of a dynamic port.
		f.Require(p.Value == 0, "Value %d: a dynamic port has none; ReservedPorts has the static ones",
			p.Value)
		checkPort(f, p, labels)
	}
}

// portLabelForm is the form of a label, which becomes a part of the names of variables.
var portLabelForm = field.Pattern(`^[a-zA-Z0-9_-]{1,64}$`)

// checkPort checks a static or dynamic port, and notes its label. -1 in to means the number of the port
// itself.
func checkPort(f field.Errors, p *structs.Port, labels map[string]string) {
	f.Require(portLabelForm().MatchString(p.Label),
		"the label must be 1 to 64 letters, digits, dashes and underscores")
	f.CheckRange("to", p.To, field.Between(-1, structs.MaxPort))
	f.Require(field.IsHostNetwork(p.HostNetwork),
		"host_network %q must be 1 to 64 letters, digits, dots, dashes and underscores", p.HostNetwork)

	// The label has a fault already, and is too long to be kept and quoted.
	if len(p.Label) > structs.MaxName {
		return
	}

	name := structs.VariableName(p.Label)
	other, taken := labels[name]
	f.Require(!taken, "port %q has the same name in variables; each port has its own", other)
	labels[name] = p.Label
}

// checkDNS checks the resolver of a group. The node knows the values of placeholders.
func checkDNS(f field.Errors, d *structs.DNSConfig) {
	if d == nil {
		return
	}

	check := func(list string, texts []string, ok func(string) bool, form string) {
		for i, text := range field.FirstOf(f, list, texts, structs.MaxResolvers) {
			f.Require(ok(text) || len(text) <= structs.MaxText && strings.Contains(text, "${"),
				"%s %d: %q is not %s", list, i+1, structs.Cut(text, structs.MaxQuoted), form)
		}
	}

	isAddress := func(text string) bool {
		_, err := netip.ParseAddr(text)
		return err == nil
	}

	check("servers", d.Servers, isAddress, "an IP address")
	check("searches", d.Searches, field.IsSearch, "a domain")
	check("options", d.Options, field.IsResolverOption, "an option such as ndots:2")
}
