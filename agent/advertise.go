package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/client/machine"
	"berth/structs"
)

// The two addresses that stand for all addresses of a machine. The second one includes IPv4.
const (
	allIPv4 = "0.0.0.0"
	allIPv6 = "::"
)

// bindDefault returns the address to bind to without bind_addr: all addresses of both families, of IPv4 alone
// where the kernel has no IPv6.
func bindDefault() string {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return allIPv4
	}
	_ = unix.Close(fd)
	return allIPv6
}

// forOthers is the address of this machine at which other agents reach this one, where the configuration has
// none.
type forOthers struct {
	machine.AddressChoice
	fault error // there is none: the agent must not start
}

// chooseAddress finds the address for others, if one is needed. The fault is not one of the configuration:
// the network of the machine may come later.
func (c *Config) chooseAddress(read func() (machine.Routing, error)) {
	c.others = forOthers{}
	needed := false
	fit := machine.AddressFamilies{IPv4: true, IPv6: true}
	for _, p := range c.addressesOfPorts() {
		if p.advertised == "" && !c.advertisesBound(p.own) {
			needed = true
			fit.IPv6 = fit.IPv6 && cmp.Or(p.own, c.BindAddr) != allIPv4
		}
	}
	if !needed {
		return
	}

	// A port with all addresses beside others with one.
	bound, err := netip.ParseAddr(c.BindAddr)
	if err == nil && !bound.IsUnspecified() && !bound.IsLoopback() {
		c.others.AddressChoice = machine.AddressChoice{Address: bound, Why: "bind_addr"}
		return
	}

	m, err := read()
	if err == nil {
		c.others.AddressChoice, err = m.Choose(fit, c.Client.BridgeName)
	}
	if err != nil && c.Dev {
		c.others.AddressChoice = machine.AddressChoice{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Why: "-dev"}
		return
	}
	c.others.fault = err
}

// bindsAll reports whether bind_addr stands for all addresses of the machine.
func (c *Config) bindsAll() bool {
	ip, err := netip.ParseAddr(c.BindAddr)
	return err == nil && ip.IsUnspecified()
}

// portAddress has the addresses of one port.
type portAddress struct{ name, own, advertised string }

// addressesOfPorts lists the ports of the agent. A node has one alone.
func (c *Config) addressesOfPorts() []portAddress {
	all := []portAddress{{"http", c.Addresses.HTTP, c.Advertise.HTTP}}
	if c.Server.Enabled {
		all = append(all,
			portAddress{"rpc", c.Addresses.RPC, c.Advertise.RPC},
			portAddress{"serf", c.Addresses.Serf, c.Advertise.Serf})
	}
	return all
}

// advertisesBound reports whether others reach a port at the address to which it is bound. own overrides
// bind_addr. A loopback address makes the port one for this machine alone, also if others reach the other
// ports.
func (c *Config) advertisesBound(own string) bool {
	ip, err := netip.ParseAddr(cmp.Or(own, c.BindAddr))
	return err != nil || !ip.IsUnspecified() && (!ip.IsLoopback() || !c.bindsAll())
}

// advertise adds the port to a configured host. Without one it returns the address that was chosen, or "" if
// others reach the bound one. own overrides bind_addr.
func (c *Config) advertise(own, configured string, port int) string {
	if configured != "" {
		if _, _, err := net.SplitHostPort(configured); err == nil {
			return configured
		}
		return net.JoinHostPort(strings.Trim(configured, "[]"), strconv.Itoa(port))
	}

	if c.advertisesBound(own) || !c.others.Address.IsValid() {
		return ""
	}
	return net.JoinHostPort(c.others.Address.String(), strconv.Itoa(port))
}

// addressForOthers returns the address at which others reach this agent, and the reason of it.
func (c *Config) addressForOthers() (address, why string) {
	p := c.addressesOfPorts()[0]
	if c.Server.Enabled {
		p = c.addressesOfPorts()[1]
	}
	switch {
	case p.advertised != "":
		return p.advertised, "advertise." + p.name
	case c.others.Address.IsValid() && !c.advertisesBound(p.own):
		return c.others.Address.String(), c.others.Why
	case p.own != "":
		return p.own, "addresses." + p.name
	}
	return c.BindAddr, "bind_addr"
}

// AddressForOthers returns the address at which others reach the agent of a complete configuration, and the
// reason of it. The error says why this machine has none, so that the agent does not start.
func (c *Config) AddressForOthers() (address, why string, err error) {
	if c.others.fault != nil {
		return "", "", c.others.fault
	}
	address, why = c.addressForOthers()
	return address, why, nil
}

// checkFamilies rejects ports that are bound to one family and advertised in the other: nobody would reach
// them.
func (c *Config) checkFamilies() error {
	var faults []error
	for _, p := range c.addressesOfPorts() {
		bound, err := netip.ParseAddr(cmp.Or(p.own, c.BindAddr))
		host, _, splitErr := net.SplitHostPort(p.advertised)
		if splitErr != nil {
			host = strings.Trim(p.advertised, "[]")
		}
		advertised, hostErr := netip.ParseAddr(host)
		sameFamily := bound.Is4() == advertised.Unmap().Is4() || bound == netip.IPv6Unspecified()
		if err != nil || hostErr != nil || sameFamily {
			continue
		}
		faults = append(faults, fmt.Errorf("advertise.%s is %s, and the port is bound to %s, which is of the other "+
			"family: bind to an address of the same one, or to :: for both (-bind, bind_addr, addresses.%s)",
			p.name, structs.Cut(p.advertised, structs.MaxQuoted), bound, p.name))
	}
	return errors.Join(faults...)
}
