package machine

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// both are the families of an agent that is bound to ::.
var both = AddressFamilies{IPv4: true, IPv6: true}

// nic returns an interface with addresses.
func nic(name string, prefixes ...string) Interface {
	i := Interface{Name: name, Loopback: name == "lo"}
	for _, p := range prefixes {
		i.Prefixes = append(i.Prefixes, netip.MustParsePrefix(p))
	}
	return i
}

// TestChoose_KnowsMachines has the machines on which berth is installed: their interfaces and default routes,
// and the address at which others reach them, or the words of the rejection.
func TestChoose_KnowsMachines(t *testing.T) {
	lo := nic("lo", "127.0.0.1/8", "::1/128")
	docker := nic("docker0", "172.17.0.1/16")
	via := func(name, gateway string) Route {
		r := Route{Interface: name}
		if gateway != "" {
			r.Gateway = netip.MustParseAddr(gateway)
		}
		return r
	}
	for name, c := range map[string]struct {
		machine    Routing
		fit        AddressFamilies
		want, text string
	}{
		"one private NIC": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "10.0.0.1/24")}, IPv4: via("eth0", "10.0.0.254")},
			both, "10.0.0.1", "the default route of IPv4, on eth0",
		},
		"one public NIC": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "203.0.113.5/24")}, IPv4: via("eth0", "203.0.113.1")},
			both, "203.0.113.5", "on eth0",
		},
		"a public NIC and a private one": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "203.0.113.5/24"), nic("eth1", "10.0.0.1/24")},
				IPv4: via("eth0", "203.0.113.1")},
			both, "203.0.113.5", "on eth0",
		},
		"docker beside a private NIC": {
			Routing{Interfaces: []Interface{lo, docker, nic("eth0", "10.0.0.1/24")}, IPv4: via("eth0", "10.0.0.254")},
			both, "10.0.0.1", "on eth0",
		},
		"docker beside a public NIC": {
			Routing{
				Interfaces: []Interface{lo, docker, nic("eth0", "203.0.113.5/24")},
				IPv4:       via("eth0", "203.0.113.1"),
			},
			both, "203.0.113.5", "on eth0",
		},
		"docker and a LAN without a default route": {
			Routing{
				Interfaces: []Interface{
					lo, docker, nic("br-0123456789ab", "172.18.0.1/16"), nic("virbr0", "192.168.122.1/24"),
					nic("cni0", "10.42.0.1/24"), nic("berth", "10.99.0.1/20"), nic("eth0", "192.168.1.7/24"),
				},
			},
			both, "192.168.1.7", "the only address that others may reach, on eth0",
		},
		"docker alone": {
			Routing{Interfaces: []Interface{lo, docker}}, both, "", "no address at which others reach it",
		},
		"loopback alone": {
			Routing{Interfaces: []Interface{lo}}, both, "", "-bind (bind_addr)",
		},
		"two NICs without a default route": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "10.0.0.1/24"), nic("eth1", "192.168.1.7/24")}},
			both, "", "10.0.0.1 (eth0), 192.168.1.7 (eth1): name one of them with -bind (bind_addr), or with advertise",
		},
		"two addresses on one NIC without a default route": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "10.0.0.1/24", "10.9.0.1/24")}},
			both, "", "2 addresses and no default route",
		},
		"two addresses on the NIC of the default route": {
			Routing{
				Interfaces: []Interface{lo, nic("eth0", "10.0.0.1/24", "203.0.113.5/24")},
				IPv4:       via("eth0", "203.0.113.1"),
			},
			both, "203.0.113.5", "on eth0",
		},
		"a VPN beside a NIC": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "192.168.1.7/24"), nic("wg0", "10.8.0.2/24")},
				IPv4: via("eth0", "192.168.1.1")},
			both, "192.168.1.7", "on eth0",
		},
		"a VPN with the default route": {
			Routing{
				Interfaces: []Interface{lo, nic("eth0", "192.168.1.7/24"), nic("wg0", "10.8.0.2/24")},
				IPv4:       via("wg0", ""),
			},
			both, "10.8.0.2", "on wg0",
		},
		"a VPN and a NIC without a default route": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "192.168.1.7/24"), nic("tailscale0", "100.64.0.2/32")}},
			both, "", "100.64.0.2 (tailscale0)",
		},
		"IPv6 alone": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "2001:db8::5/64")}, IPv6: via("eth0", "")},
			both, "2001:db8::5", "the default route of IPv6, on eth0",
		},
		"IPv6 alone without a default route": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "fd00::5/64")}}, both, "fd00::5", "the only address",
		},
		"both families": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "203.0.113.5/24", "2001:db8::5/64")},
				IPv4: via("eth0", "203.0.113.1"), IPv6: via("eth0", "")},
			both, "203.0.113.5", "IPv4",
		},
		"IPv6 and docker": {
			Routing{Interfaces: []Interface{lo, docker, nic("eth0", "2001:db8::5/64")}, IPv6: via("eth0", "")},
			both, "2001:db8::5", "IPv6",
		},
		"IPv6 alone, bound to IPv4": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "2001:db8::5/64")}, IPv6: via("eth0", "")},
			AddressFamilies{IPv4: true}, "", "no address",
		},
		"both families, bound to IPv6": {
			Routing{Interfaces: []Interface{lo, nic("eth0", "203.0.113.5/24", "2001:db8::5/64")},
				IPv4: via("eth0", "203.0.113.1"), IPv6: via("eth0", "")},
			AddressFamilies{IPv6: true}, "2001:db8::5", "IPv6",
		},
		"a router whose LAN is a bridge": {
			Routing{Interfaces: []Interface{lo, nic("br-lan", "192.168.1.7/24")}, IPv4: via("br-lan", "192.168.1.1")},
			both, "192.168.1.7", "on br-lan",
		},
		"a default route by an interface without an address": {
			Routing{Interfaces: []Interface{lo, nic("ppp0"), nic("eth0", "10.0.0.1/24")}, IPv4: via("ppp0", "")},
			both, "10.0.0.1", "the only address",
		},
	} {
		got, err := c.machine.Choose(c.fit, "berth")
		text := got.Why
		if err != nil {
			text = err.Error()
		}
		address := ""
		if got.Address.IsValid() {
			address = got.Address.String()
		}
		if address != c.want || (err == nil) != (c.want != "") || !strings.Contains(text, c.text) {
			t.Errorf("%s: got %q, %q; want %q, %q", name, address, text, c.want, c.text)
		}
		if err != nil && (!structs.IsKind(err, structs.KindPrecondition) ||
			!strings.Contains(text, "advertise {") || !strings.Contains(text, "-bind")) {
			t.Errorf("%s: got %v, want a precondition that names advertise and -bind", name, err)
		}
	}
}

func TestPassingAddresses_AreThoseThatEndByThemselves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "if_inet6")
	text := "20010db8000000000000000000000005 02 40 00 80     eth0\n" +
		"20010db8000000000000000000000006 02 40 00 01     eth0\n" + // of the privacy extensions
		"20010db8000000000000000000000007 02 40 00 20     eth0\n" + // deprecated
		"odd line\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found := passingAddresses(path)
	for address, want := range map[string]bool{
		"2001:db8::5": false, "2001:db8::6": true, "2001:db8::7": true, "2001:db8::8": false,
	} {
		if got := found[netip.MustParseAddr(address)]; got != want {
			t.Errorf("%s is passing: %t, want %t", address, got, want)
		}
	}
	kept := lasting([]net.Addr{
		&net.IPNet{IP: net.ParseIP("2001:db8::6"), Mask: net.CIDRMask(64, 128)},
		&net.IPNet{IP: net.ParseIP("2001:db8::5"), Mask: net.CIDRMask(64, 128)},
		&net.IPNet{IP: net.ParseIP("fe80::1"), Mask: net.CIDRMask(64, 128)},
		&net.IPNet{IP: net.ParseIP("10.0.0.1"), Mask: net.CIDRMask(24, 32)},
		&net.IPAddr{},
	}, found)
	want := []netip.Prefix{netip.MustParsePrefix("2001:db8::5/64"), netip.MustParsePrefix("10.0.0.1/24")}
	if !slices.Equal(kept, want) {
		t.Errorf("got the addresses %v, want %v", kept, want)
	}
	if got := passingAddresses(path + ".none"); len(got) != 0 {
		t.Errorf("got %v without a file", got)
	}
}

func TestGatewayIPv4_ReadsTheTableOfTheKernel(t *testing.T) {
	const table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" +
		"eth0\t00000000\tFE00000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	if got := gatewayIPv4(table, "eth0"); got != netip.MustParseAddr("10.0.0.254") {
		t.Errorf("got the gateway %s", got)
	}
	if got := gatewayIPv4(table, "eth1"); got.IsValid() {
		t.Errorf("got the gateway %s of another interface", got)
	}
}

// The bridge of docker comes before the NIC in the order of the names.
func TestMainAddress_PrefersNICsToBridgesOfContainers(t *testing.T) {
	links := []networkLink{
		{name: "docker0", addresses: []netip.Addr{netip.MustParseAddr("172.17.0.1")}},
		{name: "eth0", addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		{name: "lo", loopback: true, addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
	}
	name, _, err := mainAddress(links, "", "")
	if name != "eth0" || err != nil {
		t.Errorf("got the interface %q, %v", name, err)
	}
	name, _, err = mainAddress(links[:1], "", "")
	if name != "docker0" || err != nil {
		t.Errorf("without a NIC: got the interface %q, %v", name, err)
	}
}
