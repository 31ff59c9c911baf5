package structs

import (
	"cmp"
	"slices"
)

// The modes of a network whose allocations have a network namespace of their own, which all their tasks
// share. NetworkModeCNI is a prefix: the name of a network of the node follows it.
const (
	NetworkModeBridge = "bridge" // on the bridge of the node
	NetworkModeNone   = "none"   // with a loopback interface alone
	NetworkModeCNI    = "cni/"   // in a network that the node has a CNI configuration for
)

// DNSConfig has the settings of name resolution of an allocation. An empty list is the node's.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// IsEmpty reports whether all settings are the node's.
func (d *DNSConfig) IsEmpty() bool {
	return d == nil || len(d.Servers)+len(d.Searches)+len(d.Options) == 0
}

// Fill sets each empty list to the list of others.
func (d *DNSConfig) Fill(others *DNSConfig) {
	if len(d.Servers) == 0 {
		d.Servers = others.Servers
	}
	if len(d.Searches) == 0 {
		d.Searches = others.Searches
	}
	if len(d.Options) == 0 {
		d.Options = others.Options
	}
}

// AllocNetworkStatus is the network of a running allocation with a network namespace of its own.
type AllocNetworkStatus struct {
	InterfaceName string
	Address       string // without a prefix length; "" if it has none
	// DNS are the settings that the network gives, nil if it gives none.
	DNS *DNSConfig `json:",omitempty" codec:",omitempty"`
}

// Isolated reports whether the allocations of the network have network namespaces of their own.
func (n *NetworkResource) Isolated() bool {
	return n != nil && n.Mode != "" && n.Mode != NetworkModeHost
}

// Network returns the network of the group, nil if it has none.
func (g *TaskGroup) Network() *NetworkResource {
	if g == nil || len(g.Networks) == 0 {
		return nil
	}
	return g.Networks[0]
}

// AttrNetworkNamespace returns the attribute of a driver that can start tasks in a given network namespace.
func AttrNetworkNamespace(driver string) string { return "driver." + driver + ".network_namespace" }

// NetworkModes returns the modes of networks that a node has besides NetworkModeHost and NetworkModeNone, in
// order.
func (n *Node) NetworkModes() []string {
	var modes []string
	for _, link := range n.networks() {
		if link != nil && link.Mode != "" && link.Mode != NetworkModeHost {
			modes = append(modes, link.Mode)
		}
	}
	slices.Sort(modes)
	return slices.Compact(modes)
}

// HasNetworkMode reports whether the node has a network with the mode.
func (n *Node) HasNetworkMode(mode string) bool {
	return slices.ContainsFunc(n.networks(), func(link *NodeNetworkResource) bool {
		return link != nil && link.Mode == mode
	})
}

// Bounded returns the status with cut texts and lists.
func (s *AllocNetworkStatus) Bounded() *AllocNetworkStatus {
	if s == nil {
		return nil
	}
	c := &AllocNetworkStatus{
		InterfaceName: Cut(s.InterfaceName, MaxName),
		Address:       Cut(s.Address, MaxName),
	}
	if s.DNS != nil {
		c.DNS = &DNSConfig{
			Servers:  cutTexts(s.DNS.Servers),
			Searches: cutTexts(s.DNS.Searches),
			Options:  cutTexts(s.DNS.Options),
		}
	}
	return c
}

func (s *AllocNetworkStatus) bounded() bool {
	if s == nil {
		return true
	}
	long := func(text string) bool { return len(text) > MaxName }
	ok := !long(s.InterfaceName) && !long(s.Address)
	if s.DNS != nil {
		for _, list := range [][]string{s.DNS.Servers, s.DNS.Searches, s.DNS.Options} {
			ok = ok && len(list) <= MaxResolvers && !slices.ContainsFunc(list, long)
		}
	}
	return ok
}

func cutTexts(list []string) []string {
	var cut []string
	for _, text := range list[:min(len(list), MaxResolvers)] {
		cut = append(cut, Cut(text, MaxName))
	}
	return cut
}

// ModeOf returns the mode of the network of an allocation with its job: NetworkModeHost if it has none.
func (a *Allocation) ModeOf() string {
	if a.Job == nil {
		return NetworkModeHost
	}
	n := a.Job.Group(a.TaskGroup).Network()
	if n == nil {
		return NetworkModeHost
	}
	return cmp.Or(n.Mode, NetworkModeHost)
}
