package machine

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/validate/report"
)

// machine has two interfaces of which others reach one, and the loopback interface.
func machine() []networkLink {
	ips := func(texts ...string) (all []netip.Addr) {
		for _, s := range texts {
			all = append(all, netip.MustParseAddr(s))
		}
		return all
	}
	return []networkLink{
		{name: "lo", loopback: true, addresses: ips("127.0.0.1", "::1")},
		{name: "eth1", mac: "02:00:00:00:00:01", addresses: ips("192.168.0.5", "192.168.0.6", "2001:db8::5")},
		{name: "eth0", addresses: ips("10.0.0.5")},
		{name: "tun0"},
	}
}

// describe writes the networks as "interface: network address [reserved] ...".
func describe(all []*structs.NodeNetworkResource) string {
	var lines []string
	for _, r := range all {
		line := r.Device + ":"
		for _, a := range r.Addresses {
			line += fmt.Sprintf(" %s %s %s[%s]", a.Alias, a.Family, a.Address, a.ReservedPorts)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestAssign_GivesAddressesTheirNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		cfg     NetworkConfig
		route   string
		links   []networkLink
		want    string
		missing string
	}{
		"no route":        {NetworkConfig{}, "", machine(), "eth0: default ipv4 10.0.0.5[]", ""},
		"default route":   {NetworkConfig{}, "eth1", machine(), "eth1: default ipv4 192.168.0.5[]", ""},
		"without address": {NetworkConfig{}, "tun0", machine(), "eth0: default ipv4 10.0.0.5[]", ""},
		"only loopback":   {NetworkConfig{}, "", machine()[:1], "lo: default ipv4 127.0.0.1[]", ""},
		"nothing":         {NetworkConfig{}, "", nil, "", ""},
		"named":           {NetworkConfig{Interface: "lo"}, "eth1", machine(), "lo: default ipv4 127.0.0.1[]", ""},
		"network by names": {
			NetworkConfig{Networks: []*HostNetwork{{Name: "back", Interface: "eth1", ReservedPorts: "22"}}},
			"eth0",
			machine(),
			"eth0: default ipv4 10.0.0.5[]; " +
				"eth1: back ipv4 192.168.0.5[22] back ipv4 192.168.0.6[22] back ipv6 2001:db8::5[22]",
			"",
		},
		"network by CIDR": {
			NetworkConfig{Networks: []*HostNetwork{
				{Name: "six", CIDR: "2001:db8::/32"}, {Name: "four", CIDR: "0.0.0.0/0"},
			}},
			"eth0",
			machine()[1:],
			"eth0: default ipv4 10.0.0.5[] four ipv4 10.0.0.5[]; " +
				"eth1: six ipv6 2001:db8::5[] four ipv4 192.168.0.5[] four ipv4 192.168.0.6[]",
			"",
		},
		"network by both": {
			NetworkConfig{Networks: []*HostNetwork{
				{Name: "a", Interface: "eth1", CIDR: "192.168.0.6/32"},
				{Name: "b", Interface: "eth0", CIDR: "192.168.0.6/32"},
			}},
			"eth0",
			machine(),
			"eth0: default ipv4 10.0.0.5[]; eth1: a ipv4 192.168.0.6[]",
			"b",
		},
	} {
		got, err := assign(c.cfg, c.links, c.route)
		if err != nil || describe(got.Links) != c.want || strings.Join(got.Missing, " ") != c.missing {
			t.Errorf("%s: got %s without %q, %v\nwant %s without %q",
				name, describe(got.Links), got.Missing, err, c.want, c.missing)
		}
	}
}

func TestAssign_RejectsAnUnknownInterface(t *testing.T) {
	for _, name := range []string{"eth7", "tun0"} {
		_, err := assign(NetworkConfig{Interface: name}, machine(), "eth0")
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), "it has: eth0, eth1, lo") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAssign_IsBounded(t *testing.T) {
	l := networkLink{name: "eth0"}
	for i := range 2 * structs.MaxNodeAddresses {
		l.addresses = append(l.addresses, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	all := NetworkConfig{Networks: []*HostNetwork{{Name: "all", Interface: "eth0"}}}
	got, err := assign(all, []networkLink{l}, "")
	if err != nil || len(got.Links[0].Addresses) != structs.MaxNodeAddresses ||
		got.LeftOut != structs.MaxNodeAddresses+1 {
		t.Fatalf("%d addresses and %d are left out, %v", len(got.Links[0].Addresses), got.LeftOut, err)
	}
	n := &structs.Node{ID: "n", NodeResources: &structs.NodeResources{NodeNetworks: got.Links}}
	if err := report.Node(n); err != nil {
		t.Error(err)
	}
}

// The report of this machine is one that the servers accept.
func TestRead_OfThisMachine(t *testing.T) {
	got, err := ReadNetworks(NetworkConfig{Networks: []*HostNetwork{
		{Name: "local", CIDR: "127.0.0.0/8"},
		{Name: "none", CIDR: "203.0.113.7/32"},
	}})
	if err != nil || !slices.Equal(got.Missing, []string{"none"}) {
		t.Fatalf("without %q: %v", got.Missing, err)
	}
	n := &structs.Node{ID: "n", NodeResources: &structs.NodeResources{NodeNetworks: got.Links}}
	if err := report.Node(n); err != nil {
		t.Error(err)
	}
	if len(n.HostAddresses(structs.DefaultHostNetwork)) != 1 {
		t.Errorf("found %s", describe(got.Links))
	}
	if local := n.HostAddresses("local"); len(local) == 0 || local[0].Address != "127.0.0.1" {
		t.Errorf("found %s", describe(got.Links))
	}
}

func TestUsable_LeavesOutWhatNeedsAZone(t *testing.T) {
	var all []net.Addr
	for _, s := range []string{
		"fe80::1/64", "2001:db8::1/64", "169.254.0.1/16", "10.0.0.1/8", "224.0.0.1/4", "0.0.0.0/0",
	} {
		ip, prefix, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &net.IPNet{IP: ip, Mask: prefix.Mask})
	}
	all = append(all, &net.UnixAddr{})
	if got := fmt.Sprint(usable(all)); got != "[10.0.0.1 2001:db8::1]" {
		t.Errorf("got %s", got)
	}
}

func TestDefaultRoute_HasTheLowestMetric(t *testing.T) {
	const head = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
	const four = head +
		"wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n" +
		"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n" +
		"half\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n" +
		"bad\n"
	const zero = "00000000000000000000000000000000"
	const six = zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200 lo\n" +
		zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000400 00000002 00000000 00450003 eth5\n" +
		zero + " 00 " + zero + " 00 fe800000000000000000000000000001 000000ff 00000002 00000000 00450003 eth6\n" +
		"fe800000000000000000000000000000 40 " + zero + " 00 " + zero + " 00000001 00000001 00000000 00000001 eth7\n"
	for name, c := range map[string]struct{ four, six, want string }{
		"both":       {four, six, "eth0"},
		"only IPv6":  {head, six, "eth6"},
		"none":       {head, "", ""},
		"no support": {"", "", ""},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"route": c.four, "ipv6_route": c.six} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := defaultRoute(dir); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestHostNetwork_NamesTheFault(t *testing.T) {
	for want, n := range map[string]HostNetwork{
		"":                               {Name: "a", CIDR: "10.0.0.0/8", ReservedPorts: "22,80-90"},
		"it needs cidr or interface":     {Name: "a"},
		`client.host_network "a b": the`: {Name: "a b", Interface: "eth0"},
		"network_interface sets this":    {Name: "default", Interface: "eth0"},
		`cidr: "10.0.0.0" is no prefix`:  {Name: "a", CIDR: "10.0.0.0"},
		`reserved_ports: "x" is neither`: {Name: "a", Interface: "eth0", ReservedPorts: "x"},
	} {
		err := n.Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("a valid network: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The address of the bridge of allocations must not become the node's.
func TestRead_LeavesAnInterfaceOut(t *testing.T) {
	for _, left := range []string{"", "lo"} {
		found, err := ReadNetworks(NetworkConfig{
			Networks: []*HostNetwork{{Name: "own", Interface: "lo"}},
			Exclude:  left,
		})
		if err != nil {
			t.Fatal(err)
		}
		if missing := slices.Contains(found.Missing, "own"); missing != (left == "lo") {
			t.Errorf("without %q: %+v", left, found)
		}
	}
}
