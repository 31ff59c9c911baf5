// Package config holds the node agent's configuration: one plain struct with its defaults and its
// validation. A Config does not change: a running node agent replaces it by another one, which differs in the
// live settings alone. Settings of the whole process (data directory, name, addresses) have no HCL tag: the
// agent fills them in.
package config

import (
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mitchellh/copystructure"

	"berth/client/devices"
	"berth/client/drivers/catalog"
	"berth/client/drivers/connectproxy"
	"berth/client/drivers/manager"
	"berth/client/hooks/artifact"
	"berth/client/hooks/disk"
	"berth/client/hooks/secrets"
	"berth/client/machine"
	"berth/client/machine/cni"
	"berth/client/membership"
	"berth/structs"
	"berth/structs/storage"
	"berth/vault"
)

// Config is the node agent's configuration: the `client {}` block and the fields that the agent fills in.
type Config struct {
	Enabled bool `hcl:"enabled"`

	// Filled in by the agent, which has them outside the client block.
	DataDir    string
	Region     string
	Datacenter string
	NodeName   string
	HTTPAddr   string // host:port at which others reach this agent's HTTP API
	TLSEnabled bool
	Version    string // berth's own, shown as an attribute of the node
	// Plugins are the external plugins: the agent has `plugin_dir` and the `plugin` blocks outside the client
	// block.
	Plugins catalog.Config
	// Connect has the programs of the proxies of Consul's service mesh: the agent has the consul block.
	Connect connectproxy.Config
	// Vault is the block vault of the agent.
	Vault vault.Config

	// OwnPorts are the ports of this agent. No allocation gets them.
	OwnPorts []int

	// NodeID fixes the node's identity; empty means the one in the data directory, made at first start.
	NodeID    string            `hcl:"node_id"`
	Servers   []string          `hcl:"servers"` // host:port of the servers' RPC
	NodePool  string            `hcl:"node_pool"`
	NodeClass string            `hcl:"node_class"`
	Meta      map[string]string `hcl:"meta"`
	Options   map[string]string `hcl:"options"` // see the constants
	Reserved  Reserved          `hcl:"reserved,block"`

	// FirstFingerprintTimeout bounds how long the first registration waits for drivers and for CSI
	// plugins that run already.
	FirstFingerprintTimeout time.Duration `hcl:"first_fingerprint_timeout"`
	// UpdateInterval is how long changes of allocations are gathered before they are sent.
	UpdateInterval time.Duration `hcl:"update_interval"`
	// VolumeStatsInterval is the time between two measurements of a mounted volume.
	VolumeStatsInterval time.Duration `hcl:"volume_stats_interval"`

	// CPUTotalCompute is in MHz over all cores. 0: the node uses the fingerprint.
	CPUTotalCompute int `hcl:"cpu_total_compute"`
	MemoryTotalMB   int `hcl:"memory_total_mb"` // likewise
	DiskTotalMB     int `hcl:"disk_total_mb"`   // likewise

	// NetworkInterface has the address of ports that name no host network; empty means the interface of the
	// default route.
	NetworkInterface string `hcl:"network_interface"`
	// HostNetworks are further networks of the node, which ports may name.
	HostNetworks []*machine.HostNetwork `hcl:"host_network,block"`
	// The settings of the networks of allocations.
	cni.Settings
	// HostVolumes are directories that jobs may mount by name.
	HostVolumes []*HostVolume `hcl:"host_volume,block"`
	// MinDynamicPort and MaxDynamicPort are the range of the ports that the servers choose.
	MinDynamicPort int `hcl:"min_dynamic_port"`
	MaxDynamicPort int `hcl:"max_dynamic_port"`

	// Drivers are the settings of the task drivers.
	Drivers manager.Config `hcl:"drivers,block"`
	// Devices are groups of device files that jobs may ask for.
	Devices []*devices.HostGroup `hcl:"device,block"`

	// Users are the user IDs that external drivers get for tasks without a user.
	Users manager.UserRange `hcl:"users,block"`
	// Artifact bounds the downloads of artifacts.
	Artifact artifact.Settings `hcl:"artifact,block"`

	// MovedData bounds the data that allocations take over from other nodes.
	MovedData disk.Settings `hcl:"moved_data,block"`

	// SecretsSizeMB is the most memory that the secrets of one task take. 0: they stay on disk.
	SecretsSizeMB int `hcl:"secrets_size_mb"`
	// GCMaxAllocs is how many ended allocations keep their directories (logs, data) on this node.
	GCMaxAllocs int `hcl:"gc_max_allocs"`
	// MaxKillTimeout bounds the kill_timeout of tasks on this node.
	MaxKillTimeout time.Duration `hcl:"max_kill_timeout"`
	// DestroyOnShutdown stops every allocation and takes down all it used when the agent stops. Without
	// it tasks run on and the next agent recovers them.
	DestroyOnShutdown bool `hcl:"destroy_on_shutdown"`
	// ShutdownTimeout bounds that.
	ShutdownTimeout time.Duration `hcl:"shutdown_timeout"`
	// Fencing has the settings of the guard.
	Fencing Fencing `hcl:"fencing,block"`
	// DrainOnShutdown drains the node before its agent stops. Nil: the agent stops at once.
	DrainOnShutdown *membership.LeaveConfig `hcl:"drain_on_shutdown,block"`
}

// The options. Each is a list of names, separated by commas.
const (
	// OptionUserDenylist names the users that no task may run as. The driver decides on the user of a task
	// that names none.
	OptionUserDenylist = "user.denylist"
	// OptionDriverAllowlist names the only drivers of the node, and OptionDriverDenylist the drivers that it
	// does not have.
	OptionDriverAllowlist = "driver.allowlist"
	OptionDriverDenylist  = "driver.denylist"
)

var options = []string{OptionUserDenylist, OptionDriverAllowlist, OptionDriverDenylist}

func (c *Config) optionList(name string) []string {
	return strings.FieldsFunc(c.Options[name], func(r rune) bool {
		return r == ',' || r == ' '
	})
}

// DeniedUsers are the users that no task may run as.
func (c *Config) DeniedUsers() []string {
	return c.optionList(OptionUserDenylist)
}

// DriverConfig has the settings of the task drivers, with the lists of the options.
func (c *Config) DriverConfig() manager.Config {
	drivers := c.Drivers
	drivers.Allowed = c.optionList(OptionDriverAllowlist)
	drivers.Denied = c.optionList(OptionDriverDenylist)
	drivers.Connect = c.Connect
	drivers.Users = c.Users
	return drivers
}

// Reserved is kept back from allocations: MHz, MiB of memory and of disk, and ports of all addresses
// (structs.ParsePorts).
type Reserved struct {
	CPU      int    `hcl:"cpu"`
	MemoryMB int    `hcl:"memory"`
	DiskMB   int    `hcl:"disk"`
	Ports    string `hcl:"reserved_ports"`
}

// Fencing are the settings of the guard, which ends tasks with the lease of the node.
type Fencing struct {
	// Watchdog is the device of a watchdog that reboots the machine if the guard cannot end tasks in time. ""
	// is none.
	Watchdog string `hcl:"watchdog"`
}

func (f Fencing) validate() error {
	if f.Watchdog == "" || filepath.IsAbs(f.Watchdog) {
		return nil
	}
	return structs.Invalidf("client.fencing.watchdog: %q is not an absolute path such as /dev/watchdog",
		f.Watchdog)
}

// ReservedPorts are the ports of all addresses that no allocation gets, as structs.ParsePorts reads them.
func (c *Config) ReservedPorts() string {
	var parts []string
	if ports := strings.TrimSpace(c.Reserved.Ports); ports != "" {
		parts = append(parts, ports)
	}
	for _, port := range c.OwnPorts {
		parts = append(parts, strconv.Itoa(port))
	}
	return strings.Join(parts, ",")
}

// Copy returns a copy that shares no slice, map or pointer with c.
func (c *Config) Copy() *Config {
	all := copystructure.Must(copystructure.Copy(c))
	return all.(*Config)
}

// WithLive returns a copy with the live settings of another configuration, which a running node agent takes
// over. It shares nothing with the two.
func (c *Config) WithLive(next *Config) *Config {
	changed := c.Copy()
	next = next.Copy()
	changed.Meta = next.Meta
	changed.NodeClass = next.NodeClass
	changed.Servers = next.Servers
	changed.Devices = next.Devices
	changed.HostVolumes = next.HostVolumes
	changed.MovedData = next.MovedData
	return changed
}

// DefaultConfig is a node agent that is off, with every setting that has a default.
func DefaultConfig() *Config {
	return &Config{
		Region:                  structs.DefaultRegion,
		Datacenter:              "dc1",
		NodePool:                structs.DefaultNodePool,
		FirstFingerprintTimeout: 50 * time.Second,
		UpdateInterval:          200 * time.Millisecond,
		VolumeStatsInterval:     storage.DefaultUsageInterval,
		MinDynamicPort:          structs.DefaultMinDynamicPort,
		MaxDynamicPort:          structs.DefaultMaxDynamicPort,
		Drivers:                 manager.DefaultConfig(),
		Settings:                cni.DefaultSettings(),
		Users:                   manager.DefaultConfig().Users,
		Artifact:                artifact.DefaultSettings(),
		MovedData:               disk.DefaultSettings(),
		SecretsSizeMB:           secrets.DefaultSizeMB,
		GCMaxAllocs:             50,
		MaxKillTimeout:          30 * time.Second,
		ShutdownTimeout:         30 * time.Second,
	}
}

// StateDir holds the node's records and identity.
func (c *Config) StateDir() string {
	return filepath.Join(c.DataDir, "client")
}

// AllocDir holds one directory for each allocation.
func (c *Config) AllocDir() string {
	return filepath.Join(c.DataDir, "alloc")
}

// DriverDir holds the records by which the task drivers find their tasks.
func (c *Config) DriverDir() string {
	return filepath.Join(c.DataDir, "drivers")
}

// GuardDir holds the orders to the guard of the node.
func (c *Config) GuardDir() string {
	return filepath.Join(c.DataDir, "guard")
}

// ArtifactDir is the root of the sandboxes of downloads.
func (c *Config) ArtifactDir() string {
	return filepath.Join(c.DataDir, "artifacts")
}

// PluginSocketDir holds the sockets and logs of external plugins. Its path is short, because a socket's path
// has at most 107 bytes.
func (c *Config) PluginSocketDir() string {
	return filepath.Join(c.DataDir, "plugins")
}

// NetworkDir holds the locks and files of the networks of allocations.
func (c *Config) NetworkDir() string {
	return filepath.Join(c.DataDir, "networks")
}

// CSIDir holds the sockets, staging and publish paths of CSI plugins.
func (c *Config) CSIDir() string {
	return filepath.Join(c.DataDir, "csi")
}

// checkSizes reports texts that the servers would reject: the node could not register.
func (c *Config) checkSizes(require func(ok bool, format string, args ...any)) {
	for _, s := range []struct{ name, text string }{
		{"name", c.NodeName},
		{"datacenter", c.Datacenter},
		{"client.node_id", c.NodeID},
		{"client.node_class", c.NodeClass},
		{"client.node_pool", c.NodePool},
	} {
		require(len(s.text) <= structs.MaxName, "%s: it has %d bytes; at most %d are allowed",
			s.name, len(s.text), structs.MaxName)
	}
	bytes := structs.PairBytes(c.Meta)
	require(len(c.Meta) <= structs.MaxNodeAttributes && bytes <= structs.MaxNodeBytes,
		"client.meta: it has %d entries with %d bytes; at most %d with %d are allowed",
		len(c.Meta), bytes, structs.MaxNodeAttributes, structs.MaxNodeBytes)
}

// checkAmounts reports settings that are negative or above their bounds.
func (c *Config) checkAmounts(require func(ok bool, format string, args ...any)) {
	within := func(name string, v, most int64, shown any) {
		require(v >= 0, "client.%s: %v is negative", name, shown)
		require(v <= most, "client.%s: %v is more than %d", name, shown, most)
	}
	span := func(name string, d time.Duration) {
		within(name, int64(d), int64(structs.MaxInterval), d)
	}
	count := func(name string, v int, most int64) {
		within(name, int64(v), most, v)
	}
	span("first_fingerprint_timeout", c.FirstFingerprintTimeout)
	span("update_interval", c.UpdateInterval)
	require(c.VolumeStatsInterval >= storage.MinUsageInterval &&
		c.VolumeStatsInterval <= storage.MaxUsageInterval,
		"client.volume_stats_interval: %s is not between %s and %s",
		c.VolumeStatsInterval, storage.MinUsageInterval, storage.MaxUsageInterval)
	span("shutdown_timeout", c.ShutdownTimeout)
	span("max_kill_timeout", c.MaxKillTimeout)
	count("cpu_total_compute", c.CPUTotalCompute, structs.MaxCPU)
	count("memory_total_mb", c.MemoryTotalMB, structs.MaxMemoryMB)
	count("disk_total_mb", c.DiskTotalMB, structs.MaxDiskMB)
	count("secrets_size_mb", c.SecretsSizeMB, secrets.MaxSizeMB)
	count("gc_max_allocs", c.GCMaxAllocs, math.MaxInt32)
	count("reserved.cpu", c.Reserved.CPU, structs.MaxCPU)
	count("reserved.memory", c.Reserved.MemoryMB, structs.MaxMemoryMB)
	count("reserved.disk", c.Reserved.DiskMB, structs.MaxDiskMB)
}

// checkDevices returns the faults of the device groups.
func (c *Config) checkDevices() (faults []error) {
	seen := map[string]bool{}
	for _, g := range c.Devices {
		faults = append(faults, g.Validate())
		if seen[g.ID] {
			faults = append(faults, structs.Invalidf("client.device %q: there are two of them", g.ID))
		}

		seen[g.ID] = true
	}

	return faults
}

func (c *Config) checkNetworks() (faults []error) {
	seen := map[string]bool{}
	for _, n := range c.HostNetworks {
		faults = append(faults, n.Validate())
		if seen[n.Name] {
			faults = append(faults, structs.Invalidf("client.host_network %q: there are two of them", n.Name))
		}

		seen[n.Name] = true
	}

	if c.MinDynamicPort < 1 || c.MinDynamicPort > c.MaxDynamicPort {
		faults = append(faults, structs.Invalidf(
			"client.min_dynamic_port: %d is not within 1 to max_dynamic_port, %d",
			c.MinDynamicPort, c.MaxDynamicPort))
	}

	if c.MaxDynamicPort > structs.MaxPort {
		faults = append(faults, structs.Invalidf("client.max_dynamic_port: %d is more than %d",
			c.MaxDynamicPort, structs.MaxPort))
	}

	if _, err := structs.ParsePorts(c.ReservedPorts()); err != nil {
		faults = append(faults, structs.Invalidf("client.reserved.reserved_ports: %w", err))
	}

	return faults
}

// checkParts returns the faults of settings that other packages have, before the faults of the lists.
func (c *Config) checkParts() (faults []error) {
	if err := c.Drivers.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("client.drivers: %w", err))
	}

	return append(faults, c.Users.Validate(), c.Artifact.Validate(), c.MovedData.Validate())
}

// Validate reports every fault at once, each beginning with the setting's path.
func (c *Config) Validate() error {
	if !c.Enabled {
		return nil
	}
	var faults []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, structs.Invalidf(format, args...))
		}
	}
	require(filepath.IsAbs(c.DataDir),
		"data_dir: %q is not an absolute path", c.DataDir)
	require(c.Datacenter != "", "datacenter: must not be empty")
	require(c.NodePool != "" && c.NodePool != "all",
		"client.node_pool: %q cannot be a node's pool", c.NodePool)
	require(!strings.ContainsAny(c.NodeID, "\x00/ "),
		"client.node_id: %q has characters that an ID may not have", c.NodeID)

	faults = append(faults, c.checkParts()...)
	for name := range c.Options {
		require(slices.Contains(options, name), "client.options: there is no option %q; expected %s",
			name, strings.Join(options, ", "))
	}

	faults = append(faults, c.checkDevices()...)
	faults = append(faults, c.checkNetworks()...)
	faults = append(faults, c.Settings.Faults()...)
	faults = append(faults, c.checkHostVolumes()...)
	faults = append(faults, c.DrainOnShutdown.Validate(), c.Fencing.validate())

	require(c.Plugins.Dir == "" || filepath.IsAbs(c.Plugins.Dir),
		"plugin_dir: %q is not an absolute path", c.Plugins.Dir)
	for _, addr := range c.Servers {
		_, _, err := net.SplitHostPort(addr)
		require(err == nil, "client.servers: %q is not host:port", addr)
	}
	c.checkSizes(require)
	c.checkAmounts(require)
	return structs.InvalidAll(faults)
}
