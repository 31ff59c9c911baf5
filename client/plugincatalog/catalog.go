// Package plugincatalog finds the external plugins of a node: programs in one directory that serve a driver
// or devices over gRPC. The catalog asks each program once for its name, its type and the schema of its
// configuration, and checks the operator's configuration against it. Later it starts processes, and finds
// those again that an earlier agent started. A plugin that runs as a CSI task is not its subject (see
// dynamicplugins).
//
// A process runs in a session of its own and outlives the agent. Its socket is in a private directory,
// because whoever reaches the socket of a driver can start processes as root.
package plugincatalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/pluginschema"
	"berth/plugins/protocol/base"
	"berth/structs"
)

// apiVersion is the version of the driver and of the device interface that berth speaks.
const apiVersion = "v0.1.0"

// callTimeout bounds a call that takes no time in a healthy plugin. Tests shorten it.
var callTimeout = 10 * time.Second

// Kind is the type of a plugin.
type Kind = base.PluginType

// The kinds of plugins.
const (
	Driver = base.PluginType_DRIVER
	Device = base.PluginType_DEVICE
)

// Config is the operator's part: `plugin_dir` and the `plugin` blocks of the agent.
type Config struct {
	Dir     string // "" or missing: there are no external plugins
	Plugins []*PluginConfig
	Sockets string // a private directory of the node for sockets and logs; its path is short
}

// PluginConfig configures the plugin of that name: a file of the directory.
type PluginConfig struct {
	Name   string         `hcl:",label"`
	Args   []string       `hcl:"args"`
	Config map[string]any `hcl:"config"`
}

// Plugin is a program that has answered.
type Plugin struct {
	Name    string // as it says itself
	Kind    Kind
	Version string

	path   string
	args   []string
	config []byte // msgpack
}

// File returns the path of the program.
func (p *Plugin) File() string { return p.path }

// Catalog has the external plugins of a node. It does not change.
type Catalog struct {
	cfg     Config
	logger  hclog.Logger
	plugins map[string]*Plugin
}

// Open asks every program of the directory. It returns the catalog of those that answered, and an error that
// names the others: the agent decides whether it runs without them.
func Open(ctx context.Context, cfg Config, logger hclog.Logger) (*Catalog, error) {
	c := &Catalog{cfg: cfg, logger: logger.Named("plugins"), plugins: map[string]*Plugin{}}
	names, err := c.programs()
	if err != nil {
		return c, err
	}
	var faults []error
	for _, name := range names {
		p, err := c.ask(ctx, name)
		if err != nil {
			faults = append(faults, fmt.Errorf("plugin %s: %w", name, err))
			continue
		}
		if known := c.plugins[p.Name]; known != nil {
			faults = append(faults, fmt.Errorf("plugin %s: %s has the name %q, too", name, known.path, p.Name))
			continue
		}
		c.plugins[p.Name] = p
	}
	for _, given := range cfg.Plugins {
		if !slices.Contains(names, given.Name) {
			faults = append(faults, structs.Invalidf("plugin %q: there is no such program in plugin_dir %q",
				given.Name, cfg.Dir))
		}
	}
	return c, errors.Join(faults...)
}

// Plugins returns the plugins of a kind, by name. A nil catalog has none.
func (c *Catalog) Plugins(kind Kind) []*Plugin {
	if c == nil {
		return nil
	}
	var found []*Plugin
	for _, name := range slices.Sorted(maps.Keys(c.plugins)) {
		if c.plugins[name].Kind == kind {
			found = append(found, c.plugins[name])
		}
	}
	return found
}

// programs lists the executable files of the directory.
func (c *Catalog) programs() ([]string, error) {
	if c.cfg.Dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(c.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("plugin_dir: %w", err)
	}
	var names []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(c.cfg.Dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("plugin_dir: %w", err)
		}
		if info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// ask starts a program, reads what it is, and ends it.
func (c *Catalog) ask(ctx context.Context, file string) (*Plugin, error) {
	given := &PluginConfig{Name: file}
	for _, g := range c.cfg.Plugins {
		if g.Name == file {
			given = g
		}
	}
	p := &Plugin{path: filepath.Join(c.cfg.Dir, file), args: given.Args}
	process, err := c.run(p)
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	service := base.NewBasePluginClient(process.Conn())
	info, err := service.PluginInfo(ctx, &base.PluginInfoRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for its name: %w", err)
	}
	err = check(info)
	if err != nil {
		return nil, err
	}
	p.Name = info.GetName()
	p.Kind = info.GetType()
	p.Version = info.GetPluginVersion()
	answer, err := service.ConfigSchema(ctx, &base.ConfigSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the schema of its configuration: %w", err)
	}
	schema, err := pluginschema.Parse(answer.GetSpec())
	if err != nil {
		return nil, err
	}
	p.config, err = schema.Decode(given.Config)
	return p, err
}

// maxName bounds the name of a plugin and of its version.
const maxName = 128

func check(info *base.PluginInfoResponse) error {
	name := info.GetName()
	switch {
	case name == "" || len(name) > maxName || len(info.GetPluginVersion()) > maxName:
		return structs.Invalidf("its name has %d bytes, its version %d: 1 to %d and at most %d are allowed",
			len(name), len(info.GetPluginVersion()), maxName, maxName)
	case info.GetType() != Driver && info.GetType() != Device:
		return structs.Invalidf("%q is of type %s: only drivers and devices are known", name, info.GetType())
	case !slices.Contains(info.GetPluginApiVersions(), apiVersion):
		return structs.Invalidf("%q speaks versions %q of its interface, berth speaks %s",
			name, info.GetPluginApiVersions(), apiVersion)
	}
	return nil
}

// Start starts a process of the plugin and configures it.
func (c *Catalog) Start(ctx context.Context, name string) (*Process, error) {
	p := c.plugins[name]
	if p == nil {
		return nil, structs.NotFoundf("there is no plugin %q", name)
	}
	process, err := c.run(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = base.NewBasePluginClient(process.Conn()).SetConfig(ctx, &base.SetConfigRequest{
		MsgpackConfig:    p.config,
		PluginApiVersion: apiVersion,
	})
	if err != nil {
		process.Kill()
		return nil, fmt.Errorf("configuring: %w", err)
	}
	return process, nil
}

// Reattach connects to the process of an earlier agent. It returns nil if that process is gone. The process
// keeps the configuration that it has.
func (c *Catalog) Reattach(name string, record Reattach) (*Process, error) {
	return reattach(record, c.logger.Named(name))
}

// run starts a process without a configuration.
func (c *Catalog) run(p *Plugin) (*Process, error) {
	// Helpers of a driver, which outlive its process, may have their sockets here.
	shared := filepath.Join(c.cfg.Sockets, filepath.Base(p.path))
	err := os.MkdirAll(shared, 0o700)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.cfg.Sockets, "p")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(p.path, p.args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+shared)
	process, err := start(cmd, dir, c.logger.Named(filepath.Base(p.path)))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return process, nil
}
