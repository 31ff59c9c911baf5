// Package manager holds a node's task drivers: the one list of them, their fingerprints, the look-up by
// name, and the events of tasks. There are two kinds: drivers of the agent's own process, which are asked at
// intervals, and external ones, which run as processes and report by themselves. New makes the drivers once.
// A driver may become usable or unusable later. The package also installs the program of the supervisors.
package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/catalog"
	"berth/client/drivers/connectproxy"
	"berth/client/drivers/docker"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/client/drivers/external"
	"berth/client/drivers/rawexec"
	"berth/client/store"
	"berth/internal/backoff"
	"berth/structs"
)

// Config has the operator's settings of the drivers.
type Config struct {
	Exec    exec.Config         `hcl:"exec,block"`
	RawExec rawexec.Config      `hcl:"raw_exec,block"`
	Docker  taskconfig.Settings `hcl:"docker,block"`

	// Connect has the programs of the proxies of the service mesh. The agent fills it in from its consul
	// block.
	Connect connectproxy.Config
	// Users are the user IDs for tasks of external drivers. The agent fills them in from the client block.
	Users UserRange
	// Allowed are the only drivers of this node if there are any. Denied drivers do not run on it. The agent
	// fills both in from the options of the client block.
	Allowed []string
	Denied  []string
}

// Allows reports whether a driver may run on this node.
func (c Config) Allows(name string) bool {
	return !slices.Contains(c.Denied, name) &&
		(len(c.Allowed) == 0 || slices.Contains(c.Allowed, name))
}

// DefaultConfig has every driver with its defaults.
func DefaultConfig() Config {
	return Config{
		Exec:    exec.DefaultConfig(),
		RawExec: rawexec.DefaultConfig(),
		Docker:  taskconfig.DefaultSettings(),
		Users:   external.DefaultUserRange(),
	}
}

// Validate names every fault.
func (c Config) Validate() error {
	return errors.Join(c.Exec.Validate(), c.RawExec.Validate(), c.Docker.Validate())
}

const (
	fingerprintInterval = 30 * time.Second // between two fingerprints of a driver
	fingerprintTimeout  = 10 * time.Second // bounds one fingerprint
)

// Manager holds a node's drivers. It knows nothing of them before Run.
type Manager struct {
	logger  hclog.Logger
	drivers []driver.Driver
	denied  []driver.Driver // drivers that the configuration does not allow: see deniedDriver
	changes chan struct{}   // holds one signal, which stands for all changes before it is read
	first   chan struct{}   // closed when each was fingerprinted once
	events  taskEvents

	supervisor []string // the command of supervisors

	mu    sync.Mutex                     // guards infos
	infos map[string]*structs.DriverInfo // the last fingerprint of each driver, by name
}

// UserRange is the setting `client { users { } }`.
type UserRange = external.UserRange

// Node names the node in the configuration of a task of an external driver.
type Node = external.Node

// Options are what the drivers get from the agent.
type Options struct {
	// Dir has the records that find tasks again. It must not change while tasks run.
	Dir string
	// Plugins are the external drivers of the node, and Records the processes of them that run.
	Plugins *catalog.Catalog
	Records *store.DB
	Node    Node
	MHz     int // of the node, over all cores
	Logger  hclog.Logger
}

// New makes the drivers that the configuration allows. Omitted settings have their defaults.
func New(cfg Config, o Options) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}

	command, err := executor.DefaultCommand()
	if err != nil {
		return nil, err
	}

	supervisor, err := installEmbedded(filepath.Join(o.Dir, ".program"))
	if err != nil {
		return nil, fmt.Errorf("installing the program of supervisors: %w", err)
	}

	run := func(name string) executor.Config {
		return executor.Config{
			Dir:        filepath.Join(o.Dir, name),
			Command:    command,
			Supervisor: supervisor,
		}
	}

	m := newManager(nil, o.Logger)
	m.supervisor = supervisor
	if supervisor == nil {
		m.supervisor = command
	}

	builtIn := []driver.Driver{
		exec.New(cfg.Exec, run(exec.Name)),
		rawexec.New(cfg.RawExec, run(rawexec.Name)),
		m.newDocker(cfg.Docker, run(docker.Name), o),
		connectproxy.New(cfg.Connect, cfg.Exec, run(connectproxy.Name)),
	}
	for _, d := range builtIn {
		m.add(d, cfg)
	}

	err = m.addPlugins(cfg, run, o)
	if err != nil {
		return nil, err
	}

	return m, nil
}

// addPlugins enters a driver for each external plugin. It follows the built-in drivers, whose names have
// priority.
func (m *Manager) addPlugins(cfg Config, run func(name string) executor.Config, o Options) error {
	for _, p := range o.Plugins.Plugins(catalog.Driver) {
		if m.has(p.Name) {
			err := m.skipBuiltIn(p)
			if err != nil {
				return err
			}
			continue
		}

		m.add(m.newExternal(p, run(p.Name), cfg, o), cfg)
	}
	return nil
}

// has reports whether there is a driver of that name. The catalog has each name once, so it is a built-in
// one.
func (m *Manager) has(name string) bool {
	return slices.ContainsFunc(slices.Concat(m.drivers, m.denied), func(d driver.Driver) bool {
		return d.Name() == name
	})
}

// add enters a driver. One that is not allowed is kept for the tasks that it has started before.
func (m *Manager) add(d driver.Driver, cfg Config) {
	if cfg.Allows(d.Name()) {
		m.drivers = append(m.drivers, d)
	} else {
		m.denied = append(m.denied, deniedDriver{d})
	}
}

// Supervisor returns the command that runs executor.Main in a small program, if this build has one.
func (m *Manager) Supervisor() []string { return slices.Clone(m.supervisor) }

// skipBuiltIn tells of a plugin with the name of a built-in driver, which has the name. A block without a
// program is one for the built-in driver itself: without an error its settings would be lost.
func (m *Manager) skipBuiltIn(p *catalog.Plugin) error {
	_, err := os.Lstat(p.File())
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(p.File()) == p.Name {
		return structs.Invalidf("plugin %q: this driver is built in and plugin_dir has no such program; "+
			"the settings of a built-in driver are in client { drivers { } }", p.Name)
	}
	if !p.IsAbsent() { // only the name of its file may be that one
		m.logger.Error("plugin is not used: its name is that of a built-in driver; remove its program",
			"driver", p.Name, "file", p.File())
	}
	return nil
}

func newManager(ds []driver.Driver, logger hclog.Logger) *Manager {
	return &Manager{
		logger:  logger.Named("drivers"),
		drivers: ds,
		changes: make(chan struct{}, 1),
		first:   make(chan struct{}),
		infos:   map[string]*structs.DriverInfo{},
	}
}

// newDocker makes the driver of containers. command starts the processes that keep the output of its tasks.
func (m *Manager) newDocker(cfg taskconfig.Settings, run executor.Config, o Options) *docker.Driver {
	return docker.New(cfg, docker.Options{
		Dir:        run.Dir,
		Command:    run.Command,
		Supervisor: run.Supervisor,
		NodeID:     o.Node.ID,
		NodeName:   o.Node.Name,
		MHz:        o.MHz,
		Events:     m.events.deliver,
		Logger:     m.logger,
	})
}

// newExternal makes the driver of a plugin. logs starts the processes that keep the output of its tasks.
func (m *Manager) newExternal(
	p *catalog.Plugin, logs executor.Config, cfg Config, o Options,
) *external.Driver {
	// Missing settings have the defaults of exec, which fills in only its own copy.
	chroot := cfg.Exec.ChrootEnv
	if chroot == nil {
		chroot = exec.DefaultConfig().ChrootEnv
	}

	users := cfg.Users
	if users == (UserRange{}) {
		users = external.DefaultUserRange()
	}

	return external.New(p.Name, external.Config{
		Catalog: o.Plugins,
		Records: o.Records,
		Version: p.Version,
		Node:    o.Node,
		MHz:     o.MHz,
		Logs:    external.NewLogs(p.Name, logs),
		Users:   users,
		Chroot:  chroot,
		Covers: func() ([]driver.Mount, error) {
			return coversOf(cfg.Exec, filepath.Join(o.Dir, ".covers"))
		},
		Events: m.events.deliver,
	}, m.logger)
}

// deniedDriver is a driver that the configuration does not allow. It has no fingerprint and starts no task.
// The tasks that a built-in one started for an earlier agent are found again and run to their ends. An
// external one has no process, which could tell whether its tasks run: they count as running, and keep their
// volumes.
type deniedDriver struct{ driver.Driver }

// HostPaths reports what the driver does.
func (d deniedDriver) HostPaths() bool {
	rootless, ok := d.Driver.(interface{ HostPaths() bool })
	return ok && rootless.HostPaths()
}

// Validate implements driver.Driver.
func (d deniedDriver) Validate(map[string]any) error {
	return structs.Deniedf("the driver %q is not allowed on this node (client.options)", d.Name())
}

// Start implements driver.Driver.
func (d deniedDriver) Start(context.Context, *driver.TaskConfig) (*driver.Handle, error) {
	return nil, d.Validate(nil)
}

// Exec implements driver.Execer for the tasks that still run.
func (d deniedDriver) Exec(
	ctx context.Context, taskID string, x *driver.ExecConfig,
) (*driver.ExitResult, error) {
	execer, ok := d.Driver.(driver.Execer)
	if !ok {
		return nil, structs.Preconditionf("the driver %s runs no commands in its tasks", d.Name())
	}
	return execer.Exec(ctx, taskID, x)
}

// reporter is a driver that reports its fingerprints by itself.
type reporter interface {
	// Run runs the driver until ctx ends, and passes each fingerprint to report.
	Run(ctx context.Context, report func(*structs.DriverInfo))
}

// Run runs all drivers, each by itself: one that hangs holds up no other. It returns when ctx has ended and
// all it started has, too.
func (m *Manager) Run(ctx context.Context) {
	// No fingerprint comes, so nothing else closes it.
	if len(m.drivers) == 0 {
		close(m.first)
	}
	var all sync.WaitGroup
	for _, d := range m.drivers {
		all.Go(func() { m.watch(ctx, d) })
	}
	all.Wait()
}

// watch follows the fingerprints of a driver until ctx ends.
func (m *Manager) watch(ctx context.Context, d driver.Driver) {
	r, reports := d.(reporter)
	if reports {
		r.Run(ctx, func(info *structs.DriverInfo) { m.report(d, info) })
		return
	}

	m.fingerprint(ctx, d)
	for backoff.Sleep(ctx, fingerprintInterval) {
		m.fingerprint(ctx, d)
	}
}

// fingerprint calls a driver.
func (m *Manager) fingerprint(ctx context.Context, d driver.Driver) {
	ctx, cancel := context.WithTimeout(ctx, fingerprintTimeout)
	defer cancel()
	m.report(d, d.Fingerprint(ctx))
}

// addUnguarded adds the reason for which no guard can end the tasks of a driver to its attributes.
func addUnguarded(d driver.Driver, info *structs.DriverInfo) *structs.DriverInfo {
	// A driver that cannot guard one task cannot guard any: the machine decides, not the task.
	_, err := driver.Guardable(d, "any/task")
	if !info.Healthy || !structs.IsKind(err, structs.KindPrecondition) {
		return info
	}

	// The report belongs to the driver, which may give it out again.
	told := *info
	told.Attributes = maps.Clone(info.Attributes)
	if told.Attributes == nil {
		told.Attributes = map[string]string{}
	}
	told.Attributes[structs.AttrUnguarded(d.Name())] = structs.Cut(err.Error(), structs.MaxReason/2)
	return &told
}

// report stores the fingerprint of a driver and notifies when it has changed.
func (m *Manager) report(d driver.Driver, info *structs.DriverInfo) {
	info = addUnguarded(d, info)
	if !m.setInfo(d.Name(), info) {
		return
	}
	m.logger.Info("driver fingerprinted", "driver", d.Name(),
		"detected", info.Detected, "healthy", info.Healthy,
		"description", info.HealthDescription)
	select {
	case m.changes <- struct{}{}:
	default: // a signal is pending already
	}
}

// setInfo stores a driver's answer and reports whether it has changed, apart from its time.
func (m *Manager) setInfo(name string, info *structs.DriverInfo) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.infos[name]
	m.infos[name] = info
	// Each driver enters infos once, so this holds once: at the last of the first fingerprints.
	if old == nil && len(m.infos) == len(m.drivers) {
		close(m.first)
	}
	return !structs.SameDriver(old, info)
}

// Infos returns the last answer of each fingerprinted driver, by name. The values are read-only.
func (m *Manager) Infos() map[string]*structs.DriverInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.infos)
}

// Changes receives a value after Infos may have changed. It has one reader.
func (m *Manager) Changes() <-chan struct{} { return m.changes }

// WaitFirst returns when every driver was fingerprinted once, or with an error that names the missing ones
// when ctx ends.
func (m *Manager) WaitFirst(ctx context.Context) error {
	select {
	case <-m.first:
		return nil
	case <-ctx.Done():
	}

	infos := m.Infos()
	missing := slices.DeleteFunc(m.names(), func(name string) bool {
		return infos[name] != nil
	})
	return fmt.Errorf("drivers that were not fingerprinted yet: %s: %w",
		strings.Join(missing, ", "), ctx.Err())
}

// names lists the drivers that jobs may name. Denied ones are not among them.
func (m *Manager) names() []string {
	var names []string
	for _, d := range m.drivers {
		names = append(names, d.Name())
	}
	return names
}

// Driver returns a driver by its name, even if it cannot start tasks now: its earlier tasks may run. An
// unknown name is an invalid error.
func (m *Manager) Driver(name string) (driver.Driver, error) {
	for _, d := range slices.Concat(m.drivers, m.denied) {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, structs.Invalidf("there is no task driver %q, only %s",
		name, strings.Join(m.names(), ", "))
}
