// Package drivermanager holds a node's task drivers: the one list of them, their fingerprints, and the
// look-up by name. New makes the drivers once. A driver may become usable or unusable later.
package drivermanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/client/drivers/rawexec"
	"berth/internal/backoff"
	"berth/structs"
)

// Config has the operator's settings of the drivers.
type Config struct {
	Exec    exec.Config    `hcl:"exec,block"`
	RawExec rawexec.Config `hcl:"raw_exec,block"`
}

// DefaultConfig has every driver with its defaults.
func DefaultConfig() Config {
	return Config{Exec: exec.DefaultConfig(), RawExec: rawexec.DefaultConfig()}
}

// Validate names every fault.
func (c Config) Validate() error {
	return errors.Join(c.Exec.Validate(), c.RawExec.Validate())
}

const (
	fingerprintInterval = 30 * time.Second // between two fingerprints of a driver
	fingerprintTimeout  = 10 * time.Second // bounds one fingerprint
)

// Manager holds a node's drivers. It knows nothing of them before Run.
type Manager struct {
	logger  hclog.Logger
	drivers []driver.Driver
	changes chan struct{}
	first   chan struct{} // closed when each was fingerprinted once

	mu    sync.Mutex
	infos map[string]*structs.DriverInfo
}

// New makes the drivers. Omitted settings have their defaults. The drivers keep in dir the records that find
// tasks again, so it must not change while tasks run.
func New(cfg Config, dir string, logger hclog.Logger) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	command, err := executor.DefaultCommand()
	if err != nil {
		return nil, err
	}
	run := func(name string) executor.Config {
		return executor.Config{
			Dir:     filepath.Join(dir, name),
			Command: command,
		}
	}
	drivers := []driver.Driver{
		exec.New(cfg.Exec, run(exec.Name)),
		rawexec.New(cfg.RawExec, run(rawexec.Name)),
	}
	return newManager(drivers, logger), nil
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

// Run fingerprints all drivers at once, and each again at intervals. It returns when ctx has ended and
// all it started has, too.
func (m *Manager) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, d := range m.drivers {
		all.Go(func() { m.watch(ctx, d) })
	}
	all.Wait()
}

func (m *Manager) watch(ctx context.Context, d driver.Driver) {
	m.fingerprint(ctx, d)
	for backoff.Sleep(ctx, fingerprintInterval) {
		m.fingerprint(ctx, d)
	}
}

// fingerprint calls a driver and notifies when its answer has changed.
func (m *Manager) fingerprint(ctx context.Context, d driver.Driver) {
	ctx, cancel := context.WithTimeout(ctx, fingerprintTimeout)
	defer cancel()
	info := d.Fingerprint(ctx)
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

// WaitFirst returns when every driver was fingerprinted once, or with an error that names those that were
// not when ctx ends.
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
	for _, d := range m.drivers {
		if d.Name() == name {
			return d, nil
		}
	}
	return nil, structs.Invalidf("there is no task driver %q, only %s",
		name, strings.Join(m.names(), ", "))
}
