package machine

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/structs"
)

// Interface is an interface of a machine with the addresses that others may use.
type Interface struct {
	Name     string
	Loopback bool
	Prefixes []netip.Prefix // addresses with the bits of their networks, in the order of the kernel
}

// Route is a default route.
type Route struct {
	Interface string
	Gateway   netip.Addr // the zero address for a route without one
}

// Routing is all of a machine on which its address for others depends.
type Routing struct {
	Interfaces []Interface
	IPv4, IPv6 Route // those with the lowest metric; without an interface: there is none
}

// AddressChoice is the address of a machine for others.
type AddressChoice struct {
	Address netip.Addr
	Why     string // such as: the address of the default route, on eth0
}

// AddressFamilies says which addresses fit to the address to which an agent is bound.
type AddressFamilies struct{ IPv4, IPv6 bool }

// containerInterfaces matches the names of interfaces that lead to containers and virtual machines of this
// machine alone. One of them may have the default route, such as the bridge br-lan of a router. Then it leads
// further.
var containerInterfaces = regexp.MustCompile(`^(docker|cni|br-|virbr|veth|podman|` +
	`nerdctl|lxcbr|lxdbr|incusbr|flannel|cali|cilium|kube-|weave|vboxnet|vmnet|dummy)`)

// Choose returns the address at which other machines reach this one: the address of the default route,
// private or public, IPv4 before IPv6, else the only one. It is never the address of loopback or of a bridge
// of containers. own is the bridge of this agent. The error is a precondition and names the settings.
func (m Routing) Choose(fit AddressFamilies, own string) (AddressChoice, error) {
	for _, route := range []struct {
		Route
		family string
		fits   bool
	}{
		{m.IPv4, "IPv4", fit.IPv4},
		{m.IPv6, "IPv6", fit.IPv6},
	} {
		if !route.fits || route.Interface == "" || route.Interface == own {
			continue
		}
		address, ok := m.onRoute(route.Route, route.family == "IPv4")
		if ok {
			why := fmt.Sprintf("the address of the default route of %s, on %s", route.family, route.Interface)
			return AddressChoice{address, why}, nil
		}
	}

	for _, v4 := range []bool{true, false} {
		if v4 && !fit.IPv4 || !v4 && !fit.IPv6 {
			continue
		}
		found := m.others(v4, own)
		switch {
		case len(found) == 1:
			return AddressChoice{found[0].Address, "the only address that others may reach, on " + found[0].Why}, nil
		case len(found) > 1:
			return AddressChoice{}, undecided(found)
		}
	}
	return AddressChoice{}, structs.Preconditionf("this machine has no address at which others reach it, " +
		"only those of loopback and of bridges of containers: wait for its network, " +
		"or name an address with advertise { http, rpc, serf }, or bind to an address with -bind (bind_addr), " +
		"such as -bind 127.0.0.1 for an agent that only this machine reaches")
}

// onRoute returns the address of the interface of a route: the first in the network of the gateway, else the
// first.
func (m Routing) onRoute(r Route, v4 bool) (found netip.Addr, ok bool) {
	for _, i := range m.Interfaces {
		if i.Name != r.Interface || i.Loopback {
			continue
		}
		for _, p := range i.Prefixes {
			if p.Addr().Is4() != v4 {
				continue
			}
			if r.Gateway.IsValid() && p.Masked().Contains(r.Gateway) {
				return p.Addr(), true
			}
			if !ok {
				found, ok = p.Addr(), true
			}
		}
	}
	return found, ok
}

// others returns the addresses of a family that may lead to other machines, each with its interface.
func (m Routing) others(v4 bool, own string) (found []AddressChoice) {
	for _, i := range m.Interfaces {
		if i.Loopback || i.Name == own || containerInterfaces.MatchString(i.Name) {
			continue
		}
		for _, p := range i.Prefixes {
			if p.Addr().Is4() == v4 {
				found = append(found, AddressChoice{p.Addr(), i.Name})
			}
		}
	}
	return found
}

// maxShown bounds the addresses that an error names.
const maxShown = 8

func undecided(found []AddressChoice) error {
	var names []string
	for _, c := range found[:min(len(found), maxShown)] {
		names = append(names, fmt.Sprintf("%s (%s)", c.Address, c.Why))
	}
	return structs.Preconditionf("this machine has %d addresses and no default route, "+
		"so the one at which others reach it is not known: %s: name one of them with -bind (bind_addr), "+
		"or with advertise { http, rpc, serf }",
		len(found), strings.Join(names, ", "))
}

// ReadRouting reads the interfaces and default routes of this machine.
func ReadRouting() (Routing, error) {
	all, err := net.Interfaces()
	if err != nil {
		return Routing{}, structs.Internalf("reading the interfaces of this machine: %w", err)
	}

	passing := passingAddresses("/proc/net/if_inet6")
	var m Routing
	for _, i := range all {
		addresses, err := i.Addrs()
		if i.Flags&net.FlagUp == 0 || err != nil {
			continue // it is down, or has just been removed
		}
		m.Interfaces = append(m.Interfaces, Interface{
			Name:     i.Name,
			Loopback: i.Flags&net.FlagLoopback != 0,
			Prefixes: lasting(addresses, passing),
		})
	}

	v4, _ := os.ReadFile("/proc/net/route") // a kernel without the family has no such file
	v6, _ := os.ReadFile("/proc/net/ipv6_route")
	m.IPv4 = Route{Interface: defaultIPv4(string(v4))}
	m.IPv6 = Route{Interface: defaultIPv6(string(v6))}
	m.IPv4.Gateway = gatewayIPv4(string(v4), m.IPv4.Interface)
	return m, nil
}

// lasting returns the usable addresses that stay, with their networks.
func lasting(all []net.Addr, passing map[netip.Addr]bool) (out []netip.Prefix) {
	ips := usable(all)
	for _, a := range all {
		p, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, _ := netip.AddrFromSlice(p.IP)
		ip = ip.Unmap()
		bits, size := p.Mask.Size()
		if ip.Is4() && size == 128 {
			bits -= 96
		}
		if slices.Contains(ips, ip) && !passing[ip] {
			out = append(out, netip.PrefixFrom(ip, bits))
		}
	}
	return out
}

// passingAddresses returns the IPv6 addresses that end by themselves, such as addresses of the privacy
// extensions, or that are not usable yet or any more. path is /proc/net/if_inet6: address, index, length,
// scope, flags and interface in hexadecimal.
func passingAddresses(path string) map[netip.Addr]bool {
	const temporary, dadFailed, deprecated, tentative = 0x01, 0x08, 0x20, 0x40
	found := map[netip.Addr]bool{}
	file, err := os.Open(path)
	if err != nil {
		return found
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 6 {
			continue
		}
		raw, err := hex.DecodeString(f[0])
		flags, flagsErr := strconv.ParseUint(f[4], 16, 32)
		ip, ok := netip.AddrFromSlice(raw)
		if err == nil && flagsErr == nil && ok {
			found[ip] = flags&(temporary|dadFailed|deprecated|tentative) != 0
		}
	}
	return found
}

// gatewayIPv4 returns the gateway of the default route of an interface from /proc/net/route, whose third
// field has it in the byte order of the machine. The zero address: it has none.
func gatewayIPv4(text, name string) netip.Addr {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != name || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		n, err := strconv.ParseUint(f[2], 16, 32)
		if err != nil || n == 0 {
			continue
		}
		var raw [4]byte
		binary.NativeEndian.PutUint32(raw[:], uint32(n))
		return netip.AddrFrom4(raw)
	}
	return netip.Addr{}
}
