package machine

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// readLinks returns the interfaces that are up.
func readLinks() ([]networkLink, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}

	var links []networkLink
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 {
			continue
		}

		addresses, err := i.Addrs()
		if err != nil {
			continue // it has just been removed
		}

		links = append(links, networkLink{
			name:      i.Name,
			mac:       i.HardwareAddr.String(),
			loopback:  i.Flags&net.FlagLoopback != 0,
			addresses: usable(addresses),
		})
	}

	return links, nil
}

// usable returns the addresses to which a program can bind without a zone: IPv4 first, each family in the
// order of the kernel.
func usable(all []net.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		prefix, ok := a.(*net.IPNet)
		if !ok {
			continue
		}

		ip, ok := netip.AddrFromSlice(prefix.IP)
		// Package net may have an IPv4 address in 16 bytes.
		ip = ip.Unmap()
		if ok && !ip.IsLinkLocalUnicast() && !ip.IsMulticast() && !ip.IsUnspecified() {
			out = append(out, ip)
		}
	}
	// IPv4 has fewer bits.
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return out
}

// defaultRoute returns the interface of the default route with the lowest metric, of IPv4 before IPv6, "" if
// there is none. dir is /proc/net.
func defaultRoute(dir string) string {
	// A kernel without the family has no such file.
	b, _ := os.ReadFile(filepath.Join(dir, "route"))
	if name := defaultIPv4(string(b)); name != "" {
		return name
	}

	b, _ = os.ReadFile(filepath.Join(dir, "ipv6_route"))
	return defaultIPv6(string(b))
}

// defaultIPv4 reads /proc/net/route: interface, destination, gateway, flags, reference count, use, metric and
// mask, the metric in decimal.
func defaultIPv4(text string) string {
	return cheapest(text, func(f []string) (name, metric string, base int) {
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			return "", "", 0
		}
		return f[0], f[6], 10
	})
}

// defaultIPv6 reads /proc/net/ipv6_route: destination and its length, source and its length, next hop,
// metric, reference count, use, flags and interface, the numbers in hexadecimal.
func defaultIPv6(text string) string {
	return cheapest(text, func(f []string) (name, metric string, base int) {
		// The kernel has a default route on lo that leads nowhere.
		if len(f) < 10 || strings.Trim(f[0], "0") != "" || f[1] != "00" || f[9] == "lo" {
			return "", "", 0
		}
		return f[9], f[5], 16
	})
}

// cheapest returns the interface of the line with the lowest metric. read returns the interface of a default
// route and its metric in a base, and no interface for another line.
func cheapest(text string, read func(fields []string) (name, metric string, base int)) string {
	best := ""
	least := uint64(0)
	for line := range strings.Lines(text) {
		name, metric, base := read(strings.Fields(line))
		if name == "" {
			continue
		}

		n, err := strconv.ParseUint(metric, base, 64)
		if err == nil && (best == "" || n < least) {
			best = name
			least = n
		}
	}
	return best
}
