package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client"
	"berth/client/drivers/catalog"
	"berth/client/drivers/connectproxy"
	"berth/client/machine"
	"berth/consul"
	"berth/endpoints/injection"
	"berth/endpoints/rights"
	"berth/internal/agentlog"
	"berth/internal/auditlog"
	"berth/internal/conf"
	"berth/internal/opsocket"
	"berth/internal/peertls"
	"berth/internal/telemetry"
	"berth/server"
	"berth/server/autopilot"
	"berth/structs"
	"berth/vault"
)

// A configuration passes three steps: the defaults, the files and options that override them, and Finish,
// which copies the settings that blocks share and validates the whole. Nothing is opened before Finish.

// Ports has the three ports of an agent.
type Ports struct {
	HTTP int `hcl:"http"`
	RPC  int `hcl:"rpc"`
	Serf int `hcl:"serf"`
}

// Addresses has an address for each port that does not use bind_addr.
type Addresses struct {
	HTTP string `hcl:"http"`
	RPC  string `hcl:"rpc"`
	Serf string `hcl:"serf"`
}

// Config is the whole configuration of one agent, as in its files.
type Config struct {
	Region     string `hcl:"region"`
	Datacenter string `hcl:"datacenter"`
	Name       string `hcl:"name"`     // default: the host name
	DataDir    string `hcl:"data_dir"` // absolute; it has all data of the agent; default: opsocket.DataDir
	// OperatorSocket is the path of the Unix socket on which root has the HTTP API. Default: berth.sock in
	// DataDir.
	OperatorSocket string `hcl:"operator_socket"`

	BindAddr string `hcl:"bind_addr"` // default: all addresses, see bindDefault
	LogLevel string `hcl:"log_level"` // trace, debug, info, warn, error
	LogJSON  bool   `hcl:"log_json"`
	// LogFile is a path that also gets the log. The settings below bound its size: see agentlog.Config.
	LogFile           string        `hcl:"log_file"`
	LogRotateBytes    conf.ByteSize `hcl:"log_rotate_bytes"`
	LogRotateDuration time.Duration `hcl:"log_rotate_duration"`
	LogRotateMaxFiles int           `hcl:"log_rotate_max_files"`
	// EnableDebug opens the profiles of the process and the facts of the machine to callers without tokens,
	// while access control is off.
	EnableDebug bool `hcl:"enable_debug"`

	LeaveOnInterrupt bool `hcl:"leave_on_interrupt"` // the server leaves the cluster on SIGINT
	LeaveOnTerminate bool `hcl:"leave_on_terminate"` // the server leaves the cluster on SIGTERM

	Ports     Ports     `hcl:"ports,block"`
	Addresses Addresses `hcl:"addresses,block"`
	Advertise Addresses `hcl:"advertise,block"` // host or host:port at which others reach this agent
	Limits    Limits    `hcl:"limits,block"`

	TLS peertls.Config `hcl:"tls,block"`
	// HTTPAllowedHosts lists the names by which clients may call the HTTP API, in addition to addresses,
	// localhost, name and the name in advertise. *.example.com allows every name below example.com.
	HTTPAllowedHosts []string `hcl:"http_allowed_hosts"`
	// HTTPHeaders are added to each answer of the HTTP API.
	HTTPHeaders map[string]string `hcl:"http_api_response_headers"`
	// UI is the page at /ui.
	UI PageSettings `hcl:"ui,block"`

	Telemetry telemetry.Config `hcl:"telemetry,block"`
	Server    server.Config    `hcl:"server,block"`
	// Autopilot is the configuration of autopilot that the first leader stores.
	Autopilot autopilot.Settings `hcl:"autopilot,block"`
	// ACL says whether callers need tokens. Servers alone have it.
	ACL rights.Settings `hcl:"acl,block"`
	// Audit is the audit log of the agent.
	Audit  auditlog.Config `hcl:"audit,block"`
	Client *client.Config  `hcl:"client,block"`
	Consul consul.Config   `hcl:"consul,block"`
	Vault  vault.Config    `hcl:"vault,block"`

	// PluginDir has the programs of external drivers and device plugins. A plugin block configures one of
	// them.
	PluginDir string                  `hcl:"plugin_dir"`
	Plugins   []*catalog.PluginConfig `hcl:"plugin,block"`

	// Dev is set by -dev. The agent then deletes its data at the end.
	Dev bool

	others    forOthers      // see chooseAddress
	positions conf.Positions // of the settings that files have
	sources   []string       // the paths of the files, and of their directories
}

// DefaultConfig returns the configuration that files and options override.
func DefaultConfig() Config {
	name, err := os.Hostname()
	if err != nil {
		// A host without a name is one of a test or a container. The operator can set one.
		name = "localhost"
	}

	return Config{
		Region:     structs.DefaultRegion,
		Datacenter: "dc1",
		Name:       name,
		DataDir:    opsocket.DataDir,
		LogLevel:   "info",

		LogRotateBytes:    100 << 20,
		LogRotateDuration: 24 * time.Hour,
		LogRotateMaxFiles: 7,

		Ports:     Ports{HTTP: 4746, RPC: 4747, Serf: 4748},
		Limits:    defaultLimits(),
		UI:        PageSettings{Enabled: true},
		Telemetry: telemetry.DefaultConfig(),
		Server:    server.DefaultConfig(),
		Autopilot: autopilot.DefaultSettings(),
		ACL:       rights.DefaultSettings(),
		Client:    client.DefaultConfig(),
		Consul:    consul.DefaultConfig(),
		Vault:     vault.DefaultConfig(),
	}
}

// LoadFiles reads configuration files (HCL, or JSON by their ending) into c. A later file overrides an
// earlier one. A directory stands for the .hcl and .json files in it, in the order of their names.
func (c *Config) LoadFiles(paths []string) error {
	var faults []error
	c.positions = conf.Positions{}
	c.sources = paths
	for _, path := range paths {
		files, err := configFiles(path)
		if err != nil {
			faults = append(faults, structs.Invalidf("reading the configuration: %w", err))
			continue
		}

		for _, file := range files {
			src, err := os.ReadFile(file)
			if err == nil {
				err = conf.Decode(file, src, c, c.positions)
			}

			// All files are read, so that an operator sees the faults of all of them at once.
			faults = append(faults, err)
		}
	}

	return errors.Join(faults...)
}

// configFiles returns the path of a file, or the configuration files of a directory.
func configFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}

	var files []string
	for _, pattern := range []string{"*.hcl", "*.json"} {
		// Files of other endings, such as the backups of editors, are left out.
		matches, err := filepath.Glob(filepath.Join(path, pattern))
		if err != nil {
			return nil, err
		}

		files = append(files, matches...)
	}

	return files, nil
}

// Finish copies the settings that blocks share and validates the configuration. It joins all faults. A fault
// of a setting from a file has its position there.
func (c *Config) Finish() error {
	c.BindAddr = cmp.Or(c.BindAddr, bindDefault())
	c.chooseAddress(machine.ReadRouting)
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}

	if hclog.LevelFromString(c.LogLevel) == hclog.NoLevel {
		fault("log_level is %q; expected one of trace, debug, info, warn, error", c.LogLevel)
	}

	if !c.Server.Enabled && !c.Client.Enabled {
		fault("neither server nor client is enabled; " +
			"expected server { enabled = true }, client { enabled = true }, or -dev")
	}

	// Each block validates itself. Here are the checks that need several blocks.
	faults = append(faults, c.Limits.validate(), c.TLS.Validate(), c.checkOpenPorts(),
		checkHeaders(c.HTTPHeaders), c.Telemetry.Validate(), c.Consul.Validate(), c.Vault.Validate(),
		c.ACL.Validate())
	if !filepath.IsAbs(c.DataDir) {
		fault("data_dir is %q; expected an absolute path, here or with -data-dir", c.DataDir)
	}

	log := c.logFile()
	faults = append(faults, log.Validate())
	c.LogFile = log.Path

	c.Audit.Finish(c.DataDir)
	faults = append(faults, c.Audit.Validate())
	c.OperatorSocket = cmp.Or(c.OperatorSocket, filepath.Join(c.DataDir, "berth.sock"))

	// A relative data_dir has its fault above. One for the path of the socket would only repeat it.
	if filepath.IsAbs(c.DataDir) {
		faults = append(faults, opsocket.CheckPath("operator_socket", c.OperatorSocket))
	}

	faults = append(faults, c.checkAddresses(), c.checkFamilies())

	// The blocks are validated with what they share, so it is copied first.
	c.finishServer()
	c.finishClient()
	if c.Server.Enabled {
		faults = append(faults, c.Server.Validate())
	}

	// The key of -dev is in the data directory, which is a fault for any other agent: a thief of the data
	// would have the key, too.
	if c.Server.Enabled && !c.usesDevKeyring() {
		faults = append(faults, c.Server.Keyring.CheckPlace(c.DataDir))
	}

	if c.Client.Enabled {
		faults = append(faults, c.Client.Validate())
	}

	return c.positions.Locate(structs.InvalidAll(faults))
}

// logFile returns the settings of the log file.
func (c *Config) logFile() agentlog.Config {
	cfg := agentlog.Config{
		Path:           c.LogFile,
		RotateBytes:    c.LogRotateBytes,
		RotateDuration: c.LogRotateDuration,
		RotateMaxFiles: c.LogRotateMaxFiles,
	}
	cfg.Finish()
	return cfg
}

// checkAddresses checks the addresses to bind and the names of the HTTP API. It joins all faults.
func (c *Config) checkAddresses() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}

	checkIP := func(setting, value string) {
		if value != "" && net.ParseIP(value) == nil {
			fault("%s is %q; expected an IP address", setting, value)
		}
	}

	checkIP("bind_addr", c.BindAddr)
	checkIP("addresses.http", c.Addresses.HTTP)
	for _, host := range c.HTTPAllowedHosts {
		if host == "" || strings.ContainsAny(host, ":/ \t") {
			fault("http_allowed_hosts: %q; expected a name without a port", host)
		}
	}

	return errors.Join(faults...)
}

// serverDir returns the folder with the data of the server.
func (c *Config) serverDir() string { return filepath.Join(c.DataDir, "server") }

// finishServer copies to the server what its block does not have.
func (c *Config) finishServer() {
	s := &c.Server
	s.DataDir = c.serverDir()
	s.Name = c.Name
	s.OperatorSocket = c.OperatorSocket
	s.Region = c.Region
	s.Datacenter = c.Datacenter
	s.Autopilot = c.Autopilot
	s.ACL = c.ACL
	s.WorkloadLogins = injection.Logins{
		Vault:         c.Vault.DefaultIdentity,
		ConsulTask:    c.Consul.TaskIdentity,
		ConsulService: c.Consul.ServiceIdentity,
	}
	s.RPCBind = c.bind(c.Addresses.RPC, c.Ports.RPC)
	s.SerfBind = c.bind(c.Addresses.Serf, c.Ports.Serf)
	s.RPCAdvertise = c.advertise(c.Addresses.RPC, c.Advertise.RPC, c.Ports.RPC)
	s.SerfAdvertise = c.advertise(c.Addresses.Serf, c.Advertise.Serf, c.Ports.Serf)
	if c.Dev && !s.Keyring.IsSet() {
		s.Keyring.File = devKeyring(c.DataDir)
	}

	// Validate accepts a server without retry_join that finds the others in this way.
	s.AutoJoin = c.Consul.Enabled() && c.Consul.ServerAutoJoin
}

// finishClient copies to the node what its block does not have.
func (c *Config) finishClient() {
	n := c.Client
	n.DataDir = c.DataDir
	n.Datacenter = c.Datacenter
	n.Region = c.Region
	n.NodeName = cmp.Or(n.NodeName, c.Name)

	// Nothing of -dev stays, so its tasks must not either.
	n.DestroyOnShutdown = n.DestroyOnShutdown || c.Dev

	// No allocation gets a port of the agent: it would fail at its start, or take the port after a restart.
	n.OwnPorts = []int{c.Ports.HTTP}
	if c.Server.Enabled {
		n.OwnPorts = append(n.OwnPorts, c.Ports.RPC, c.Ports.Serf)
	}

	// A port that the kernel chooses is known after the start: see chosenPorts.
	n.OwnPorts = slices.DeleteFunc(n.OwnPorts, func(port int) bool { return port <= 0 })
	n.Plugins = catalog.Config{
		Dir:     c.PluginDir,
		Plugins: c.Plugins,
		Sockets: n.PluginSocketDir(),
	}

	n.Drivers.Exec.OwnFiles = c.ownFiles()
	n.Connect = connectproxy.Config{
		Consul:     c.Consul.Enabled(),
		ConsulPath: c.Consul.ProxyPath,
		EnvoyPath:  c.Consul.EnvoyPath,
	}
	n.Vault = c.Vault
}

// bind returns the address to listen on. own overrides bind_addr.
func (c *Config) bind(own string, port int) string {
	return net.JoinHostPort(cmp.Or(own, c.BindAddr), strconv.Itoa(port))
}

// httpHosts returns the names by which clients may call the HTTP API.
func (c *Config) httpHosts() []string {
	hosts := append([]string{c.Name}, c.HTTPAllowedHosts...)
	advertised := c.Advertise.HTTP

	// The Host header is compared without its port.
	if host, _, err := net.SplitHostPort(advertised); err == nil {
		advertised = host
	}

	if advertised != "" {
		hosts = append(hosts, advertised)
	}

	return hosts
}
