package machine

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// HostNetwork is a host network of the configuration: the addresses of an interface, those in a CIDR, or the
// addresses of the interface that are in the CIDR.
type HostNetwork struct {
	Name          string `hcl:",label"`
	CIDR          string `hcl:"cidr"`
	Interface     string `hcl:"interface"`
	ReservedPorts string `hcl:"reserved_ports"`
}

// Validate reports every fault, each beginning with the setting's path.
func (n *HostNetwork) Validate() error {
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			path := fmt.Sprintf("client.host_network %q: ", n.Name)
			faults = append(faults, structs.Invalidf(path+format, args...))
		}
	}

	require(field.IsHostNetwork(n.Name),
		"the name must be 1 to 64 letters, digits, dots, dashes and underscores")
	require(n.Name != structs.DefaultHostNetwork, "network_interface sets this network; use another name")
	require(n.CIDR != "" || n.Interface != "", "it needs cidr or interface")

	_, err := netip.ParsePrefix(n.CIDR)
	require(n.CIDR == "" || err == nil, "cidr: %q is no prefix such as 10.0.0.0/8", n.CIDR)

	_, err = structs.ParsePorts(n.ReservedPorts)
	require(err == nil, "reserved_ports: %v", err)
	return structs.InvalidAll(faults)
}

// has reports whether an address of an interface belongs to the network.
func (n *HostNetwork) has(device string, address netip.Addr) bool {
	if n.Interface != "" && n.Interface != device {
		return false
	}

	prefix, err := netip.ParsePrefix(n.CIDR)
	return n.CIDR == "" || err == nil && prefix.Contains(address)
}

// NetworkConfig selects the host networks.
type NetworkConfig struct {
	Interface string // of the default network; "": the default route's
	Networks  []*HostNetwork
	Exclude   string // an interface that is in no host network: the bridge of allocations
}

// networkLink is an interface of the machine.
type networkLink struct {
	name, mac string
	loopback  bool
	addresses []netip.Addr // the ones that others may use
}

// Networks is what ReadNetworks found.
type Networks struct {
	Links   []*structs.NodeNetworkResource // those with addresses in host networks, by name
	Missing []string                       // networks of the configuration without an address here
	LeftOut int                            // addresses beyond structs.MaxNodeAddresses
}

// ReadNetworks finds the host networks of this machine. An unknown interface of the default network is an
// error.
func ReadNetworks(cfg NetworkConfig) (Networks, error) {
	links, err := readLinks()
	if err != nil {
		return Networks{}, fmt.Errorf("reading the interfaces of this machine: %w", err)
	}
	links = slices.DeleteFunc(links, func(l networkLink) bool { return l.name == cfg.Exclude })
	return assign(cfg, links, defaultRoute("/proc/net"))
}

// assign gives the addresses of the interfaces their networks. route is the interface of the default route,
// "" if there is none.
func assign(cfg NetworkConfig, links []networkLink, route string) (found Networks, err error) {
	// In this order the same interfaces make the same report.
	slices.SortFunc(links, func(a, b networkLink) int { return strings.Compare(a.name, b.name) })
	main, address, err := mainAddress(links, cfg.Interface, route)
	if err != nil {
		return found, err
	}

	seen := map[string]bool{}
	left := structs.MaxNodeAddresses
	for _, l := range links {
		r := &structs.NodeNetworkResource{
			Mode:       structs.NetworkModeHost,
			Device:     l.name,
			MacAddress: l.mac,
		}

		if l.name == main {
			// This address comes first, because the bound leaves out the last ones.
			r.Addresses = append(r.Addresses, addressOf(structs.DefaultHostNetwork, address, ""))
		}

		for _, n := range cfg.Networks {
			for _, ip := range l.addresses {
				if n.has(l.name, ip) {
					seen[n.Name] = true
					r.Addresses = append(r.Addresses, addressOf(n.Name, ip, n.ReservedPorts))
				}
			}
		}

		// The servers bound the addresses of a node.
		kept := min(len(r.Addresses), left)
		left -= kept
		found.LeftOut += len(r.Addresses) - kept
		r.Addresses = r.Addresses[:kept]
		if kept > 0 {
			found.Links = append(found.Links, r)
		}
	}

	for _, n := range cfg.Networks {
		if !seen[n.Name] {
			found.Missing = append(found.Missing, n.Name)
		}
	}

	return found, nil
}

// addressOf returns an address for the row of the node.
func addressOf(network string, ip netip.Addr, reserved string) *structs.NodeNetworkAddress {
	family := structs.FamilyIPv6
	if ip.Is4() {
		family = structs.FamilyIPv4
	}
	return &structs.NodeNetworkAddress{
		Family:        family,
		Alias:         network,
		Address:       ip.String(),
		ReservedPorts: reserved,
	}
}

// mainAddress returns the address of the default network: the first of the named interface, or else of the
// interface of the default route, of any interface that others reach, of a bridge of containers, of the
// loopback interface. It is the zero address if no interface has one.
func mainAddress(links []networkLink, named, route string) (name string, address netip.Addr, err error) {
	rank := func(l networkLink) int {
		switch {
		case l.name == route:
			return 0
		case l.loopback:
			return 3
		case containerInterfaces.MatchString(l.name):
			return 2
		}
		return 1
	}

	// Interfaces of one rank stay in the order of their names.
	inOrder := slices.SortedStableFunc(slices.Values(links), func(a, b networkLink) int {
		return cmp.Compare(rank(a), rank(b))
	})
	var names []string
	for _, l := range inOrder {
		if len(l.addresses) == 0 {
			continue
		}

		// The error below names the interfaces that could be chosen.
		names = append(names, l.name)
		if named == "" || l.name == named {
			return l.name, l.addresses[0], nil
		}
	}

	if named == "" {
		return "", netip.Addr{}, nil
	}

	slices.Sort(names)
	return "", netip.Addr{}, structs.Invalidf(
		"client.network_interface: this machine has no interface %q with an address; it has: %s",
		named, strings.Join(names, ", "))
}
