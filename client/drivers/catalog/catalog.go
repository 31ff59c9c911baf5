// Package catalog finds the external plugins of a node: programs in one directory that serve a driver
// or devices over gRPC. The catalog asks each program once for its name, its type and the schema of its
// configuration, and checks the operator's configuration against it. Later it starts processes, and finds
// those again that an earlier agent started. A plugin that runs as a CSI task is not its subject (see
// registry).
//
// A process runs in a session of its own and may outlive the agent. Its socket is in a private directory,
// because whoever reaches the socket of a driver can start processes as root. A file beside the socket names
// the process from its start, so that the next agent ends a process that a killed agent did not record.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth/client/drivers/protocol/base"
	"berth/client/drivers/protocol/driver"
	"berth/client/machine"
	"berth/structs"
)

// apiVersion is the version of the driver and of the device interface that berth speaks.
const apiVersion = "v0.1.0"

// callTimeout bounds a call that takes no time in a healthy plugin. Tests shorten it.
var callTimeout = 10 * time.Second

// MaxPrograms bounds the programs of the directory. The agent asks all of them at once.
const MaxPrograms = 64

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
	// Compute is the MHz of all cores that the operator set instead of the machine's, 0: none.
	Compute int
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
	digest string // of all that a process gets from its program and its configuration, "" if it is absent

	// Only the Supervisor of the plugin uses reason after Open: see askAgain.
	reason error
	absent bool
}

// File returns the path of the program.
func (p *Plugin) File() string { return p.path }

// Catalog has the external plugins of a node. It does not change.
type Catalog struct {
	cfg     Config
	logger  hclog.Logger
	plugins map[string]*Plugin
	// topology is the machine's at the start of the agent.
	topology *machine.Topology
}

// Open asks all programs of the directory and of the blocks at once. The error names the faults of the
// configuration. A program that is missing, that does not answer or that has the name of another one is in
// the catalog, and its Supervisor asks it again.
func Open(ctx context.Context, cfg Config, logger hclog.Logger) (*Catalog, error) {
	c := &Catalog{
		cfg:      cfg,
		logger:   logger.Named("plugins"),
		plugins:  map[string]*Plugin{},
		topology: machine.ReadTopology(),
	}

	err := c.checkBlocks()
	if err != nil {
		return c, err
	}

	names, err := c.files()
	if err != nil {
		return c, err
	}

	asked, failed := c.askAll(ctx, names)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}

	return c, c.addPlugins(names, asked, failed)
}

// askAll asks programs at the same time: one that hangs holds the start of the agent up for startTimeout
// once. It returns a plugin or an error for each.
func (c *Catalog) askAll(ctx context.Context, names []string) ([]*Plugin, []error) {
	asked := make([]*Plugin, len(names))
	failed := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { asked[i], failed[i] = c.ask(ctx, name) })
	}

	all.Wait()
	return asked, failed
}

// addPlugins enters the plugins. Those that have answered come first, so that an absent one takes no name
// from them. It returns the faults of the configuration.
func (c *Catalog) addPlugins(names []string, asked []*Plugin, failed []error) error {
	var faults []error

	// Of two programs with one name the first file has it, at every start of the agent.
	for i, p := range asked {
		switch err := failed[i]; {
		case errors.As(err, new(misfit)):
			faults = append(faults, structs.Invalidf("plugin %s: %w", names[i], err))
		case err == nil && c.plugins[p.Name] == nil:
			c.plugins[p.Name] = p
		case err == nil:
			failed[i] = c.taken(p.Name)
		}
	}

	for i, err := range failed {
		if err != nil && !errors.As(err, new(misfit)) {
			c.addAbsent(names[i], err)
		}
	}

	return errors.Join(faults...)
}

// checkBlocks returns the faults of the operator's blocks that no program can end.
func (c *Catalog) checkBlocks() error {
	var faults []error
	seen := map[string]bool{}
	for _, given := range c.cfg.Plugins {
		switch name := given.Name; {
		case seen[name]:
			faults = append(faults, structs.Invalidf("plugin %q: there are two blocks for it", name))
		case c.cfg.Dir == "":
			faults = append(faults, structs.Invalidf("plugin %q: plugin_dir, the directory of its program, "+
				"is not set; the settings of a built-in driver are in client { drivers { } }", name))
		case !filepath.IsLocal(name) || filepath.Base(name) != name || name == ".":
			faults = append(faults,
				structs.Invalidf("plugin %q: expected the name of a file in plugin_dir", name))
		}
		seen[given.Name] = true
	}
	return errors.Join(faults...)
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

// files lists the programs of the directory and of the operator's blocks, which may be missing.
func (c *Catalog) files() ([]string, error) {
	names := c.programs()
	for _, given := range c.cfg.Plugins {
		names = append(names, given.Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > MaxPrograms {
		return nil, structs.Invalidf("plugin_dir: %s and the plugin blocks have %d programs, "+
			"at most %d are allowed", c.cfg.Dir, len(names), MaxPrograms)
	}
	return names, nil
}

// programs lists the executable files of the directory, and the links in it to files that cannot be reached
// now.
func (c *Catalog) programs() (names []string) {
	if c.cfg.Dir == "" {
		return nil
	}
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.logger.Error("cannot read plugin_dir", "error", err)
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(c.cfg.Dir, e.Name()))
		// A link may lead to a disk that is mounted later. Its program is absent until then.
		isLink := e.Type()&fs.ModeSymlink != 0
		if err != nil && isLink || err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			names = append(names, e.Name())
		}
	}
	return names
}

// given returns the operator's configuration of a program, nil if there is no block for it.
func (c *Catalog) given(file string) *PluginConfig {
	for _, g := range c.cfg.Plugins {
		if g.Name == file {
			return g
		}
	}
	return nil
}

// Start starts a process of the plugin and configures it. It leaves no process behind if it fails or ctx
// ends.
func (c *Catalog) Start(ctx context.Context, name string) (*Process, error) {
	p := c.plugins[name]
	if p == nil {
		return nil, structs.NotFoundf("there is no plugin %q", name)
	}

	err := c.askAgain(ctx, p)
	if err != nil {
		return nil, err
	}

	process, err := c.run(ctx, p)
	if err != nil {
		return nil, err
	}

	err = c.configure(ctx, process, p)
	if err != nil {
		// Kill removes the file from which explain reads.
		err = process.attached.explain(err)
		process.Kill()
		return nil, err
	}

	return process, nil
}

// configure passes the configuration to a new process, and lets a driver prepare itself.
func (c *Catalog) configure(ctx context.Context, process *Process, p *Plugin) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := base.NewBasePluginClient(process.Conn()).SetConfig(ctx, &base.SetConfigRequest{
		MsgpackConfig:    p.config,
		NomadConfig:      &base.NomadConfig{Driver: c.driverConfig()},
		PluginApiVersion: apiVersion,
	})
	if err != nil {
		return fmt.Errorf("configuring: %w", err)
	}

	if p.Kind != Driver {
		return nil
	}

	_, err = driver.NewDriverClient(process.Conn()).Init(ctx, &driver.InitRequest{})
	if err != nil && status.Code(err) != codes.Unimplemented { // an older driver
		return fmt.Errorf("initialising: %w", err)
	}

	return nil
}

// Reattach connects to the process of an earlier agent. It returns nil if that process is gone, or was
// started with another program or configuration.
func (c *Catalog) Reattach(ctx context.Context, name string, record Reattach) (*Process, error) {
	p := c.plugins[name]
	// A process of another program or configuration does not do what the operator asks for now.
	if p == nil || p.digest != record.Digest {
		return nil, nil
	}
	return reattach(ctx, record, c.logger.Named(filepath.Base(p.path)))
}
