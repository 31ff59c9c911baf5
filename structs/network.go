package structs

import (
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// NetworkModeHost is the mode of a network with the node's ports: its tasks use the addresses of the node.
const NetworkModeHost = "host"

// DefaultHostNetwork is the host network of a port that names none. It is the main address of a node.
const DefaultHostNetwork = "default"

// The range of dynamic ports of a node that reports none.
const (
	DefaultMinDynamicPort = 20_000
	DefaultMaxDynamicPort = 32_000
)

// The families of addresses.
const (
	FamilyIPv4 = "ipv4"
	FamilyIPv6 = "ipv6"
)

// NetworkResource is the network of a group: the ports that each of its allocations demands. In an answer it
// is also the network of an allocation, or of an interface of a node. Only these have Device, CIDR and IP.
type NetworkResource struct {
	Mode          string // in a stored job never empty
	Device        string `json:",omitempty"`
	CIDR          string `json:",omitempty"`
	IP            string `json:",omitempty"`
	ReservedPorts []Port // static ones
	DynamicPorts  []Port
	// DNS replaces settings of the node in the tasks of the group.
	DNS *DNSConfig `json:",omitempty" codec:",omitempty"`
	// Hostname is the name that the tasks have for their host, "" for the node's.
	Hostname string `json:",omitempty" codec:",omitempty"`
}

// Port is a port that a group demands.
type Port struct {
	Label string
	Value int // the port of the node; 0 for a dynamic one
	// To is the port in the network of a task that has its own, for example of a container. 0: the same
	// number. -1: the same number, shown as To of the allocation.
	To          int
	HostNetwork string // in a stored job never empty
}

// Static reports whether the job names the port of the node.
func (p *Port) Static() bool { return p.Value != 0 }

// AllocatedPort is a port of an address of the node that an allocation has.
type AllocatedPort struct {
	Label  string
	Value  int
	To     int // see Port; never -1
	HostIP string
}

// Inside is the port in the network of a task that has its own, for example of a container.
func (p *AllocatedPort) Inside() int {
	if p.To > 0 {
		return p.To
	}
	return p.Value
}

// HostAddr returns host:port of the node.
func (p *AllocatedPort) HostAddr() string {
	return net.JoinHostPort(p.HostIP, strconv.Itoa(p.Value))
}

// FindPort returns the port with a label, nil if there is none.
func FindPort(ports []AllocatedPort, label string) *AllocatedPort {
	i := slices.IndexFunc(ports, func(p AllocatedPort) bool { return p.Label == label })
	if i < 0 {
		return nil
	}
	return &ports[i]
}

// PortNumber returns the number that stands for a port in the place of a label. The error is invalid.
func PortNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPort {
		return 0, Invalidf("port %q is neither a number nor a port of the allocation", Cut(text, MaxQuoted))
	}
	return n, nil
}

// NodeNetworkResource is an interface of a node with its addresses, or a mode of networks that the node has.
type NodeNetworkResource struct {
	// Mode is NetworkModeHost for an interface with addresses. An item with another mode says that the node
	// can run allocations of that mode.
	Mode       string
	Device     string
	MacAddress string
	Addresses  []*NodeNetworkAddress
}

// NodeNetworkAddress is an address of a node in one host network. An address of several host networks is
// there once for each.
type NodeNetworkAddress struct {
	Family        string
	Alias         string // the name of the host network
	Address       string // without a prefix length
	ReservedPorts string // see ParsePorts
}

// PortDemands returns the ports that each allocation of the group demands, static ones first.
func (g *TaskGroup) PortDemands() []Port {
	var all []Port
	for _, n := range g.Networks {
		if n != nil {
			all = append(all, n.ReservedPorts...)
		}
	}
	for _, n := range g.Networks {
		if n != nil {
			all = append(all, n.DynamicPorts...)
		}
	}
	return all
}

// Give returns the port of an allocation for the demand.
func (p *Port) Give(ip string, value int) AllocatedPort {
	to := p.To
	if to < 0 {
		to = value
	}
	return AllocatedPort{
		Label:  p.Label,
		Value:  value,
		To:     to,
		HostIP: ip,
	}
}

// VariableName replaces the characters that the name of an environment variable must not have.
func VariableName(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return r
		}
		return '_'
	}, s)
}

// HostAddresses returns the addresses of a node in a host network, in the order of its report.
func (n *Node) HostAddresses(network string) []*NodeNetworkAddress {
	var all []*NodeNetworkAddress
	for _, link := range n.networks() {
		for _, a := range link.Addresses {
			if a.Alias == network {
				all = append(all, a)
			}
		}
	}
	return all
}

// HostNetworks returns the names of the host networks of a node, without the default one, in order.
func (n *Node) HostNetworks() []string {
	var names []string
	for _, link := range n.networks() {
		for _, a := range link.Addresses {
			if a.Alias != DefaultHostNetwork {
				names = append(names, a.Alias)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SamePorts reports whether a demand for ports would find the same in two reports of a node.
func SamePorts(a, b *Node) bool {
	lowA, highA := a.DynamicPorts()
	lowB, highB := b.DynamicPorts()
	return lowA == lowB && highA == highB &&
		a.reservedHostPorts() == b.reservedHostPorts() &&
		reflect.DeepEqual(a.networks(), b.networks())
}

func (n *Node) reservedHostPorts() string {
	if n.ReservedResources == nil || n.ReservedResources.Networks == nil {
		return ""
	}
	return n.ReservedResources.Networks.ReservedHostPorts
}

func (n *Node) networks() []*NodeNetworkResource {
	if n.NodeResources == nil {
		return nil
	}
	return n.NodeResources.NodeNetworks
}

// DynamicPorts returns the lowest and the highest dynamic port of the node.
func (n *Node) DynamicPorts() (low, high int) {
	r := n.NodeResources
	if r == nil || r.MinDynamicPort < 1 || r.MinDynamicPort > r.MaxDynamicPort {
		return DefaultMinDynamicPort, DefaultMaxDynamicPort
	}
	return r.MinDynamicPort, r.MaxDynamicPort
}

// ReservedPorts returns the ports of an address that no allocation gets. The node or the address reserves
// them.
func (n *Node) ReservedPorts(a *NodeNetworkAddress) PortRanges {
	return append(reservedRanges(a.ReservedPorts), reservedRanges(n.reservedHostPorts())...)
}

// reservedRanges reads the ports of a row, which were checked when the node registered.
func reservedRanges(s string) PortRanges {
	ranges, _ := ParsePorts(s)
	return ranges
}

// HasPort reports whether the network of the group has a port with a label.
func (g *TaskGroup) HasPort(label string) bool {
	return slices.ContainsFunc(g.PortDemands(), func(p Port) bool { return p.Label == label })
}
