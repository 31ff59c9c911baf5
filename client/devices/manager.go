// Package devices holds a node's devices: the groups that device plugins and the built-in plugin `host`
// report, their statistics, and their reservation for tasks. Which task has which device is the servers'
// decision.
//
// A plugin that is gone or sends nonsense has no devices until it is back. Each plugin has goroutines of its
// own, so that one that hangs holds up no other.
package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/catalog"
	"berth/client/store"
	"berth/structs"
	"berth/structs/capacity"
	"berth/structs/nodecalls"
)

// reserveTimeout bounds the call of a plugin before a task starts.
const reserveTimeout = 30 * time.Second

// Reservation is what a task needs to use its devices.
type Reservation struct {
	Env     map[string]string
	Mounts  []Mount
	Devices []DeviceFile
}

// Mount binds a host path into the task.
type Mount struct {
	TaskPath string
	HostPath string
	ReadOnly bool
}

// DeviceFile is a device file in the task. Permissions are any of "rwm", as in a device cgroup.
type DeviceFile struct {
	TaskPath    string
	HostPath    string
	Permissions string
}

// add merges another reservation of the same task. A variable that both set is an error, because the task
// could use only one of its devices.
func (r *Reservation) add(other *Reservation) error {
	for name, value := range other.Env {
		if old, ok := r.Env[name]; ok && old != value {
			return structs.Conflictf("two device groups of the task set the environment variable %s", name)
		}
		r.Env[name] = value
	}
	r.Mounts = append(r.Mounts, other.Mounts...)
	r.Devices = append(r.Devices, other.Devices...)
	return nil
}

// source is a plugin. Its methods are safe for concurrent use.
type source interface {
	// run sends reports until ctx ends.
	run(ctx context.Context, to reporter)
	// reserve prepares devices of one group, "vendor/type/name", for a task of an allocation.
	reserve(ctx context.Context, alloc, group string, ids []string) (*Reservation, error)
}

// reporter takes the reports of a source.
type reporter struct {
	groups func([]*structs.NodeDeviceResource)
	stats  func([]*nodecalls.DeviceGroupStats)
	fault  func(error) // why there are no groups. A report of groups ends the fault.
}

// Config has the device plugins of a node.
type Config struct {
	Host    []*HostGroup     // of the built-in plugin
	Catalog *catalog.Catalog // of the external plugins
	Records *store.DB
	// Holds reports whether an allocation of this node may still use its devices.
	Holds func(allocID string) bool
	// Others returns the devices of the allocations of this node that have not ended and from which the
	// servers may have given some to that one.
	Others func(allocID string) capacity.DeviceUse
}

// Manager is a node's devices. Run must be running for anything to be known of them.
type Manager struct {
	logger  hclog.Logger
	others  func(allocID string) capacity.DeviceUse // see Config
	names   []string                                // of the sources, in order
	sources map[string]source
	host    *host // one of the sources
	changes chan struct{}
	first   chan struct{} // closed when each source has reported once

	// mu guards the last reports of the sources.
	mu     sync.Mutex
	groups map[string][]*structs.NodeDeviceResource // by source
	stats  map[string][]*nodecalls.DeviceGroupStats // by source
	faults map[string]string                        // by source, if it has one
}

// New makes the manager. The configuration is valid.
func New(cfg Config, logger hclog.Logger) *Manager {
	m := newManager(logger)
	m.others = cfg.Others
	m.host = newHost(cfg, m.logger)
	m.addSource(hostName, m.host)
	for _, p := range cfg.Catalog.Plugins(catalog.Device) {
		m.addSource(p.Name, newPlugin(cfg, p.Name, m.logger))
	}
	return m
}

// newManager makes a manager without sources.
func newManager(logger hclog.Logger) *Manager {
	return &Manager{
		logger:  logger.Named("devices"),
		others:  func(string) capacity.DeviceUse { return nil },
		sources: map[string]source{},
		changes: make(chan struct{}, 1),
		first:   make(chan struct{}),
		groups:  map[string][]*structs.NodeDeviceResource{},
		stats:   map[string][]*nodecalls.DeviceGroupStats{},
		faults:  map[string]string{},
	}
}

// addSource adds a source. An earlier one wins if two report the same group.
func (m *Manager) addSource(name string, s source) {
	m.names = append(m.names, name)
	m.sources[name] = s
}

// Run runs all plugins until ctx ends, and returns when all it started has ended.
func (m *Manager) Run(ctx context.Context) {
	if len(m.sources) == 0 {
		close(m.first)
	}
	var all sync.WaitGroup
	for name, s := range m.sources {
		to := reporter{
			groups: func(groups []*structs.NodeDeviceResource) { m.setGroups(name, groups, nil) },
			stats:  func(stats []*nodecalls.DeviceGroupStats) { m.setStats(name, stats) },
			// A source with a fault has no devices.
			fault: func(err error) { m.setGroups(name, nil, err) },
		}
		all.Go(func() { s.run(ctx, to) })
	}
	all.Wait()
}

// setGroups keeps the report of a source, or the fault for which it has none, and notifies when it is another
// one.
func (m *Manager) setGroups(name string, groups []*structs.NodeDeviceResource, fault error) {
	m.mu.Lock()
	old, known := m.groups[name]
	// A fault is a report, too: WaitFirst does not wait for a plugin that fails.
	m.groups[name] = groups
	before := m.faults[name]
	delete(m.faults, name)
	if fault != nil {
		m.faults[name] = structs.Cut(fault.Error(), maxText)
	}

	sameFault := before == m.faults[name]
	if !known && len(m.groups) == len(m.sources) {
		close(m.first)
	}

	// The log names the groups that the report leaves out.
	_, left := m.merge()
	m.mu.Unlock()
	// A report of the node is a log entry of the servers, so one that changes nothing ends here.
	if sameFault && slices.EqualFunc(old, groups, sameGroup) {
		return
	}

	m.logger.Info("devices fingerprinted", "plugin", name, "groups", len(groups))
	if len(left) > 0 {
		m.logger.Warn("device groups left out: two plugins report them, or the node has too many",
			"groups", left)
	}

	select {
	case m.changes <- struct{}{}:
	default: // the reader has not yet seen the last one, and will see this, too
	}
}

// setStats keeps the statistics of a source for the next reader. Nothing waits for them.
func (m *Manager) setStats(name string, stats []*nodecalls.DeviceGroupStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats[name] = stats
}

// SetHost replaces the groups of the built-in plugin. They are valid.
func (m *Manager) SetHost(groups []*HostGroup) { m.host.setGroups(groups) }

// Changes receives when Groups or Faults may answer something new. It has one reader.
func (m *Manager) Changes() <-chan struct{} { return m.changes }

// Groups returns the groups of all plugins by vendor, type and name. If two plugins report one group, the
// built-in one has it, or the first of them by its name. Groups beyond the bounds of the servers are left
// out. The values are read-only.
func (m *Manager) Groups() []*structs.NodeDeviceResource {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, _ := m.merge()
	return all
}

// Faults returns why plugins have no devices, by their names. The map is the caller's.
func (m *Manager) Faults() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.faults)
}

// merge returns the groups of the node, and the IDs of the groups that it leaves out. The caller holds m.mu.
func (m *Manager) merge() (all []*structs.NodeDeviceResource, left []string) {
	devices := 0
	bytes := 0
	seen := map[string]bool{}
	for _, name := range m.names {
		for _, g := range m.groups[name] {
			id := g.ID()
			// The servers would reject a report beyond their bounds, and the node with it.
			if seen[id] ||
				len(all) == structs.MaxDeviceGroups ||
				devices+len(g.Instances) > structs.MaxDevices ||
				bytes+g.Bytes() > structs.MaxDeviceBytes {
				left = append(left, id)
				continue
			}

			seen[id] = true
			devices += len(g.Instances)
			bytes += g.Bytes()
			all = append(all, g)
		}
	}

	// The order does not depend on the plugin that has a group.
	slices.SortFunc(all, func(a, b *structs.NodeDeviceResource) int { return cmp.Compare(a.ID(), b.ID()) })
	return all, left
}

// WaitFirst returns when every plugin has reported once, or with an error that names the missing ones when
// ctx ends.
func (m *Manager) WaitFirst(ctx context.Context) error {
	select {
	case <-m.first:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(m.names), func(name string) bool {
		_, known := m.groups[name]
		return known
	})
	return fmt.Errorf("device plugins that were not fingerprinted yet: %s: %w", strings.Join(missing, ", "),
		ctx.Err())
}

// Reserve prepares the devices of a task of an allocation. It is unavailable while the plugin of a group is
// gone, or another allocation has a device under an earlier name of its group, and not-found if the node has
// no such device.
func (m *Manager) Reserve(
	ctx context.Context, alloc string, devices []*structs.AllocatedDeviceResource,
) (*Reservation, error) {
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	all := &Reservation{Env: map[string]string{}}
	// m.mu is not held, because others takes locks of its own.
	others := m.others(alloc)
	for _, d := range devices {
		s, err := m.sourceOf(d, others)
		if err != nil {
			return nil, err
		}

		// The plugin may take as long as reserveTimeout, so no lock is held.
		r, err := s.reserve(ctx, alloc, d.ID(), d.DeviceIDs)
		if err == nil {
			err = all.add(r)
		}
		if err != nil {
			return nil, fmt.Errorf("failed to reserve devices %s of %s: %w", strings.Join(d.DeviceIDs, ", "),
				d.ID(), err)
		}
	}

	return all, nil
}

// sourceOf finds the plugin of the devices. It rejects devices that others have.
func (m *Manager) sourceOf(d *structs.AllocatedDeviceResource, others capacity.DeviceUse) (source, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, g := m.find(d.ID())
	if g == nil {
		return nil, structs.Unavailablef("no device plugin reports the group %s now", d.ID())
	}
	for _, id := range d.DeviceIDs {
		if g.Instance(id) == nil {
			return nil, structs.NotFoundf("device group %s has no device %q now", d.ID(), id)
		}
	}
	return s, m.checkRenamed(d, others)
}

// checkRenamed rejects a device whose ID another allocation has in a group of the same vendor and type that
// does not have it now: the plugin has renamed the group. The caller holds m.mu.
func (m *Manager) checkRenamed(d *structs.AllocatedDeviceResource, others capacity.DeviceUse) error {
	for _, group := range slices.Sorted(maps.Keys(others)) {
		// A plugin that renames a group keeps its vendor and its type.
		if path.Dir(group) != path.Dir(d.ID()) {
			continue
		}
		_, g := m.find(group)
		for _, id := range d.DeviceIDs {
			holder := others[group][id]
			if holder != "" && (g == nil || g.Instance(id) == nil) {
				return structs.Unavailablef("allocation %s has the device %q as one of %s, which is gone",
					holder, id, group)
			}
		}
	}
	return nil
}

// find returns a group that is reported now, and its plugin, or nil. The caller holds m.mu.
func (m *Manager) find(group string) (source, *structs.NodeDeviceResource) {
	for _, name := range m.names {
		for _, g := range m.groups[name] {
			if g.ID() == group {
				return m.sources[name], g
			}
		}
	}
	return nil, nil
}

// StatsOf returns the last statistics of the devices that a task has: one entry per group, with the devices
// of the task alone. A group without statistics is left out. Nothing is shared with the manager.
func (m *Manager) StatsOf(devices []*structs.AllocatedDeviceResource) []*nodecalls.DeviceGroupStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*nodecalls.DeviceGroupStats
	for _, d := range devices {
		if g := m.groupStats(d.ID()); g != nil {
			found = appendStats(found, g, func(id string) bool { return slices.Contains(d.DeviceIDs, id) })
		}
	}
	return found
}

// Stats returns the last statistics of all devices.
func (m *Manager) Stats() []*nodecalls.DeviceGroupStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*nodecalls.DeviceGroupStats
	for _, name := range m.names {
		for _, g := range m.stats[name] {
			found = appendStats(found, g, func(string) bool { return true })
		}
	}
	return found
}

// groupStats returns the last statistics of a group, nil if there are none. The caller holds m.mu.
func (m *Manager) groupStats(id string) *nodecalls.DeviceGroupStats {
	for _, name := range m.names {
		for _, g := range m.stats[name] {
			if g.ID() == id {
				return g
			}
		}
	}
	return nil
}

// appendStats appends the chosen devices of a group, if there are any. The statistics of a device do not
// change, so they are shared; the map is not.
func appendStats(
	to []*nodecalls.DeviceGroupStats, g *nodecalls.DeviceGroupStats, chosen func(id string) bool,
) []*nodecalls.DeviceGroupStats {
	own := map[string]*nodecalls.DeviceStats{}
	for id, stats := range g.InstanceStats {
		if chosen(id) {
			own[id] = stats
		}
	}
	if len(own) == 0 {
		return to
	}
	return append(to, &nodecalls.DeviceGroupStats{
		Vendor:        g.Vendor,
		Type:          g.Type,
		Name:          g.Name,
		InstanceStats: own,
	})
}

// errGone is the reason why a plugin cannot be called.
var errGone = errors.New("the device plugin does not run now")

// sameGroup reports whether two reports of a group say the same.
func sameGroup(a, b *structs.NodeDeviceResource) bool { return reflect.DeepEqual(a, b) }
