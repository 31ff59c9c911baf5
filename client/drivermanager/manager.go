// Package drivermanager holds a node's task drivers: the one list of them, their fingerprints, and the
// look-up by name. Drivers are made once, at start; whether one can be used may change while it lives.
package drivermanager

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/client/drivers/rawexec"
	"berth/structs"
)

// Config is the operator's say about the drivers.
type Config struct {
	Exec    *exec.Config    `hcl:"exec,block"`
	RawExec *rawexec.Config `hcl:"raw_exec,block"`
	// Dir is where drivers keep what they need to find tasks again; the agent puts it below its data_dir.
	// It must not change as long as tasks run.
	Dir string
	// Executor runs a supervisor (executor.Config.Command); nil is this executable as `berth executor`.
	Executor []string
}

// DefaultConfig has every driver with its defaults.
func DefaultConfig() Config {
	e, r := exec.DefaultConfig(), rawexec.DefaultConfig()
	return Config{Exec: &e, RawExec: &r}
}

// Validate names every fault.
func (c Config) Validate() error {
	var errs []error
	if c.Exec != nil {
		errs = append(errs, c.Exec.Validate())
	}
	if c.RawExec != nil {
		errs = append(errs, c.RawExec.Validate())
	}
	if c.Dir != "" && !filepath.IsAbs(c.Dir) {
		errs = append(errs, structs.Errorf(structs.KindInvalid, "drivers: dir %q: expected an absolute path", c.Dir))
	}
	return errors.Join(errs...)
}

// drivers is the list of all there are.
func drivers(c Config, command []string) []driver.Driver {
	return []driver.Driver{
		exec.New(*c.Exec, executor.Config{Dir: filepath.Join(c.Dir, exec.Name), Command: command}),
		rawexec.New(*c.RawExec, executor.Config{Dir: filepath.Join(c.Dir, rawexec.Name), Command: command}),
	}
}

// interval is the time between two fingerprints of a driver, patience how long one may take.
const (
	interval = 30 * time.Second
	patience = 10 * time.Second
)

// Manager is a node's drivers. Run must be running for anything to be known of them.
type Manager struct {
	logger   hclog.Logger
	drivers  []driver.Driver
	onChange func(map[string]*structs.DriverInfo)
	first    chan struct{} // closed when each was fingerprinted once

	mu    sync.Mutex
	infos map[string]*structs.DriverInfo
}

// New makes the drivers. onChange is called from Run, with a copy of what is known of all drivers,
// whenever what is known of one has changed (but for its time); it may be nil and must not block long.
func New(cfg Config, logger hclog.Logger, onChange func(map[string]*structs.DriverInfo)) (*Manager, error) {
	defaults := DefaultConfig()
	if cfg.Exec == nil {
		cfg.Exec = defaults.Exec
	}
	if cfg.RawExec == nil {
		cfg.RawExec = defaults.RawExec
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	command := cfg.Executor
	if len(command) == 0 {
		var err error
		if command, err = executor.DefaultCommand(); err != nil {
			return nil, err
		}
	}
	return newManager(drivers(cfg, command), logger, onChange), nil
}

func newManager(ds []driver.Driver, logger hclog.Logger, onChange func(map[string]*structs.DriverInfo)) *Manager {
	if onChange == nil {
		onChange = func(map[string]*structs.DriverInfo) {}
	}
	return &Manager{
		logger: logger.Named("drivers"), drivers: ds, onChange: onChange,
		first: make(chan struct{}), infos: map[string]*structs.DriverInfo{},
	}
}

// Run fingerprints all drivers at once, and each again at intervals. It returns when ctx has ended and
// all it started has, too.
func (m *Manager) Run(ctx context.Context) {
	var first, all sync.WaitGroup
	changed := make(chan struct{}, 1)
	for _, d := range m.drivers {
		first.Add(1)
		all.Go(func() { m.watch(ctx, d, changed, first.Done) })
	}
	all.Go(func() {
		first.Wait()
		close(m.first)
	})
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				m.onChange(m.Infos())
			}
		}
	})
	all.Wait()
}

// watch fingerprints one driver; once is called after the first time.
func (m *Manager) watch(ctx context.Context, d driver.Driver, changed chan<- struct{}, once func()) {
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		if m.fingerprint(ctx, d) {
			select {
			case changed <- struct{}{}:
			default: // one that is waiting will tell of this change, too
			}
		}
		if once != nil {
			once()
			once = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// fingerprint asks a driver and reports whether it answers differently from before.
func (m *Manager) fingerprint(ctx context.Context, d driver.Driver) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info := d.Fingerprint(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.infos[d.Name()]
	m.infos[d.Name()] = info
	if old != nil && same(old, info) {
		return false
	}
	m.logger.Info("driver fingerprinted", "driver", d.Name(), "detected", info.Detected, "healthy", info.Healthy,
		"description", info.HealthDescription)
	return true
}

func same(a, b *structs.DriverInfo) bool {
	x, y := *a, *b
	x.UpdateTime, y.UpdateTime = time.Time{}, time.Time{}
	return reflect.DeepEqual(x, y)
}

// Infos is what is known of each driver that was fingerprinted; the values are read-only.
func (m *Manager) Infos() map[string]*structs.DriverInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(map[string]*structs.DriverInfo, len(m.infos))
	for name, info := range m.infos {
		c[name] = info
	}
	return c
}

// WaitFirst returns when every driver was fingerprinted once, or with ctx's error.
func (m *Manager) WaitFirst(ctx context.Context) error {
	select {
	case <-m.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Get finds a driver by its name, whether it can be used or not.
func (m *Manager) Get(name string) (driver.Driver, error) {
	var names []string
	for _, d := range m.drivers {
		if d.Name() == name {
			return d, nil
		}
		names = append(names, d.Name())
	}
	slices.Sort(names)
	return nil, structs.Errorf(structs.KindNotFound, "no driver %q; there are %s", name, strings.Join(names, ", "))
}
