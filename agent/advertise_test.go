package agent

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/machine"
	"berth/structs"
)

// lan is a machine with one NIC and docker. Its default route leads over the NIC.
func lan() (machine.Routing, error) {
	return machine.Routing{
		Interfaces: []machine.Interface{
			{Name: "lo", Loopback: true, Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
			{Name: "docker0", Prefixes: []netip.Prefix{netip.MustParsePrefix("172.17.0.1/16")}},
			{Name: "eth0", Prefixes: []netip.Prefix{
				netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("2001:db8::1/64"),
			}},
		},
		IPv4: machine.Route{Interface: "eth0"},
	}, nil
}

// alone is a machine with loopback alone.
func alone() (machine.Routing, error) {
	return machine.Routing{Interfaces: []machine.Interface{{Name: "lo", Loopback: true}}}, nil
}

func TestConfig_AdvertisesWhatOthersReach(t *testing.T) {
	for name, c := range map[string]struct {
		set                   func(*Config)
		machine               func() (machine.Routing, error)
		http, rpc, why, fault string
	}{
		"the default": {func(*Config) {}, lan, "10.0.0.1:4746", "10.0.0.1:4747", "default route of IPv4", ""},
		"IPv4 alone": {func(c *Config) { c.BindAddr = "0.0.0.0" }, lan,
			"10.0.0.1:4746", "10.0.0.1:4747", "default route", ""},
		"a bound address":      {func(c *Config) { c.BindAddr = "10.0.0.9" }, lan, "", "", "bind_addr", ""},
		"loopback":             {func(c *Config) { c.BindAddr = "127.0.0.1" }, alone, "", "", "bind_addr", ""},
		"loopback of IPv6":     {func(c *Config) { c.BindAddr = "::1" }, alone, "", "", "bind_addr", ""},
		"nothing but loopback": {func(*Config) {}, alone, "", "", "", "-bind (bind_addr)"},
		"-dev":                 {func(c *Config) { c.Dev = true }, alone, "127.0.0.1:4746", "127.0.0.1:4747", "-dev", ""},
		"all named": {func(c *Config) { c.Advertise = Addresses{HTTP: "a.example", RPC: "10.1.1.1:99", Serf: "[2001:db8::9]"} },
			alone, "a.example:4746", "10.1.1.1:99", "advertise.rpc", ""},
		"some named": {func(c *Config) { c.Advertise.RPC = "10.1.1.1" }, alone, "", "10.1.1.1:4747", "", "-bind"},
		"a port of its own": {func(c *Config) { c.Addresses.RPC = "10.0.0.9" }, lan,
			"10.0.0.1:4746", "", "addresses.rpc", ""},
		"HTTP on loopback": {func(c *Config) { c.Addresses.HTTP = "127.0.0.1" }, lan,
			"10.0.0.1:4746", "10.0.0.1:4747", "default route", ""},
		"HTTP everywhere": {func(c *Config) { c.BindAddr = "10.0.0.9"; c.Addresses.HTTP = "::" }, lan,
			"10.0.0.9:4746", "", "bind_addr", ""},
	} {
		cfg := DefaultConfig()
		cfg.Server.Enabled = true
		cfg.BindAddr = allIPv6
		c.set(&cfg)
		cfg.chooseAddress(c.machine)
		http := cfg.advertise(cfg.Addresses.HTTP, cfg.Advertise.HTTP, 4746)
		rpc := cfg.advertise(cfg.Addresses.RPC, cfg.Advertise.RPC, 4747)
		if http != c.http || rpc != c.rpc {
			t.Errorf("%s: got %q and %q, want %q and %q", name, http, rpc, c.http, c.rpc)
		}
		_, why, err := cfg.AddressForOthers()
		if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) ||
			!strings.Contains(why, c.why) {
			t.Errorf("%s: got %q, %v; want %q, %q", name, why, err, c.why, c.fault)
		}
	}
}

func TestConfig_AdvertisesAnAddressOfIPv6(t *testing.T) {
	c := DefaultConfig()
	for configured, want := range map[string]string{
		"2001:db8::9": "[2001:db8::9]:4747", "[2001:db8::9]": "[2001:db8::9]:4747",
		"[2001:db8::9]:1": "[2001:db8::9]:1",
	} {
		if got := c.advertise("", configured, 4747); got != want {
			t.Errorf("%s: got %s, want %s", configured, got, want)
		}
	}
}

// A port that is bound to one family cannot be reached at an address of the other.
func TestConfig_RejectsFamiliesThatDiffer(t *testing.T) {
	for _, c := range []struct {
		bind, own, advertised string
		fits                  bool
	}{
		{"0.0.0.0", "", "2001:db8::1", false},
		{"0.0.0.0", "::", "2001:db8::1", true},
		{"0.0.0.0", "", "10.0.0.1", true},
		{"10.0.0.1", "", "[2001:db8::1]:4747", false},
		{"2001:db8::1", "", "10.0.0.1:4747", false},
		{"::", "", "10.0.0.1", true},
		{"::", "", "2001:db8::1", true},
		{"::", "2001:db8::1", "10.0.0.1", false},
		{"0.0.0.0", "", "s1.example", true},
	} {
		cfg := DefaultConfig()
		cfg.Server.Enabled = true
		cfg.BindAddr = c.bind
		cfg.Addresses.RPC = c.own
		cfg.Advertise.RPC = c.advertised
		err := cfg.Finish() // it has faults of other settings, too
		named := err != nil && strings.Contains(err.Error(), "advertise.rpc is "+c.advertised)
		if named == c.fits {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestNew_RejectsAMachineThatOthersDoNotReach(t *testing.T) {
	cfg := DefaultConfig()
	cfg.BindAddr = allIPv6
	cfg.DataDir = t.TempDir()
	cfg.chooseAddress(alone)
	_, err := New(t.Context(), cfg, hclog.NewNullLogger())
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v, want a precondition", err)
	}
}

func TestBindDefault_HasBothFamiliesWhereThereIsIPv6(t *testing.T) {
	cfg := DefaultConfig()
	_ = cfg.Finish() // the faults are of other settings
	if cfg.BindAddr != bindDefault() || !cfg.bindsAll() {
		t.Errorf("got the address %q", cfg.BindAddr)
	}
	ln, err := listenHTTP(net.ListenConfig{}, cfg.bind("", 0), addressPatience)
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
}
