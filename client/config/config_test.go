package config

import (
	"strings"
	"testing"
	"time"

	"berth/client/devices"
	"berth/client/machine"
	"berth/structs"
)

func validConfig() *Config {
	c := DefaultConfig()
	c.Enabled, c.DataDir = true, "/var/lib/berth"
	return c
}

func TestDefaultConfig_IsValid(t *testing.T) {
	if err := validConfig().Validate(); err != nil {
		t.Error(err)
	}
	if err := (&Config{}).Validate(); err != nil {
		t.Errorf("a client that is off: %v", err)
	}
}

func TestValidate_NamesEveryFault(t *testing.T) {
	c := validConfig()
	c.DataDir = "rel"
	c.Datacenter = ""
	c.NodePool = "all"
	c.NodeID = "a/b"
	c.Servers = []string{"one:1", "two"}
	c.UpdateInterval, c.GCMaxAllocs = -time.Second, -1
	c.Reserved.CPU, c.MemoryTotalMB = -5, structs.MaxMemoryMB+1
	c.Options = map[string]string{"nope": "1", OptionUserDenylist: "root"}
	c.Drivers.RawExec.CgroupParent = "/abs"
	c.NodeClass = strings.Repeat("c", structs.MaxName+1)
	c.Meta = map[string]string{"k": strings.Repeat("v", structs.MaxNodeBytes)}
	c.Devices = []*devices.HostGroup{
		{ID: "a/b/c", Paths: []string{"/dev/x"}},
		{ID: "a/b/c", Paths: []string{"/dev/x"}},
		{ID: "two/parts", Paths: []string{"dev/y"}, Permissions: "rx"},
	}
	c.HostNetworks = []*machine.HostNetwork{
		{Name: "back", Interface: "eth0"},
		{Name: "back", CIDR: "10.0.0.0"},
	}
	c.HostVolumes = []*HostVolume{{Name: "data", Path: "/srv"}, {Name: "data", Path: "srv"}}
	c.MinDynamicPort, c.MaxDynamicPort = 70_000, 66_000
	c.Reserved.Ports = "22,x"
	c.SecretsSizeMB = 1025
	c.Users.Min = 90_000
	c.VolumeStatsInterval = 9 * time.Second
	err := c.Validate()
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Fatalf("got %v, want invalid", err)
	}
	for _, want := range []string{"data_dir:", "datacenter:", "client.node_pool:", "client.node_id:",
		`"two" is not host:port`,
		"client.update_interval:", "client.gc_max_allocs:", "client.reserved.cpu:", "client.drivers:",
		"client.memory_total_mb: 1073741825 is more than",
		"client.volume_stats_interval: 9s is not between 10s and 1h0m0s",
		"client.secrets_size_mb: 1025 is more than 1024",
		"client.users: dynamic_user_min, 90000, and dynamic_user_max, 89999, are no range",
		`no option "nope"`,
		"client.node_class: it has 256 bytes; at most 255",
		"client.meta: it has 1 entries with 1048577 bytes; at most 4096 with 1048576",
		`client.device "a/b/c": there are two of them`,
		`client.device "two/parts": the name has three parts`,
		`client.device "two/parts": the path "dev/y"`,
		`client.device "two/parts": the permissions "rx"`,
		`client.host_network "back": there are two of them`,
		`client.host_network "back": cidr: "10.0.0.0" is no prefix`,
		`client.host_volume "data": there are two of them`,
		`client.host_volume "data": path "srv" is not absolute`,
		"client.min_dynamic_port: 70000 is not within 1 to max_dynamic_port, 66000",
		"client.max_dynamic_port: 66000 is more than 65535",
		`client.reserved.reserved_ports: "x" is neither a port`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among the faults:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "one:1") {
		t.Errorf("a good setting is among the faults:\n%v", err)
	}
}

func TestDriverConfig_HasTheUsersOfTasks(t *testing.T) {
	c := validConfig()
	c.Users.Max = 80_005
	if got := c.DriverConfig().Users; got.Min != 80_000 || got.Max != 80_005 {
		t.Errorf("got %+v", got)
	}
}
