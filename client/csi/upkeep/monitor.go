// Package upkeep looks after the mounted volumes of a node. The Monitor finds ill mounts, and the Healer
// orders their repairs. The Poller measures how full volumes are, and the Trimmer frees unused blocks.
//
// The agent touches no mounted file system: processes of package helper do, because one whose server has
// failed never answers. Nothing is stored, and the servers ask the node when somebody reads.
package upkeep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/helper"
	"berth/client/csi/mounts"
	"berth/client/csi/volumes"
	"berth/structs/storage"
)

const (
	// MonitorInterval is the time between two rounds.
	MonitorInterval = 5 * time.Second
	// MonitorWait is the time after which a mount counts as hung.
	MonitorWait = 5 * time.Second

	// startTime is the time that a process has to start, beyond MonitorWait.
	startTime = 5 * time.Second
)

// MonitorConfig has what a Monitor needs.
type MonitorConfig struct {
	// List returns the mounts of this node. It touches none of them.
	List    func() ([]volumes.Mounted, error)
	Helpers *helper.Pool
	Logger  hclog.Logger
	// Interval and Wait are the constants if they are 0.
	Interval, Wait time.Duration
	// Table reads the mount table; nil reads the agent's.
	Table func() (*mounts.Table, error)
	// Now is the wall clock of the times that are shown; nil is time.Now.
	Now func() time.Time
}

// Monitor finds the mounts of volumes on a node that are ill: dead, hung, read-only or gone.
//
// Its rules:
//
//   - A process of package helper asks the mounts, all in one round, and the mount table tells of mounts that
//     are gone or read-only.
//   - A mount is hung at once when it does not answer within MonitorWait. It is asked again once the question
//     that hangs has ended. All other states need two rounds in a row, because the restart of a plugin may
//     take a mount away for a moment. Healthy counts at once.
//   - Those who follow a mount wait for Changed.
type Monitor struct {
	cfg MonitorConfig

	mu         sync.Mutex
	mounts     map[string]*monitorState // by path
	conditions map[storage.UsageKey]*storage.VolumeCondition
	changed    chan struct{} // closed at the next change
}

// monitorState is what is known of one mount.
type monitorState struct {
	volumes.Mounted
	health   storage.MountHealth
	identity string // of the file system that was seen first
	suspect  string // the ill state of the last round, if it is not the state yet
	asking   bool   // a process that does not answer has it
}

// NewMonitor makes a monitor, which looks once Run runs.
func NewMonitor(cfg MonitorConfig) *Monitor {
	if cfg.Interval == 0 {
		cfg.Interval = MonitorInterval
	}
	if cfg.Wait == 0 {
		cfg.Wait = MonitorWait
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	if cfg.Table == nil {
		cfg.Table = mounts.Read
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Monitor{
		cfg:        cfg,
		mounts:     map[string]*monitorState{},
		conditions: map[storage.UsageKey]*storage.VolumeCondition{},
		changed:    make(chan struct{}),
	}
}

// Run looks at all mounts in every interval until ctx ends. It does not wait for a process that hangs.
func (m *Monitor) Run(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	every(ctx, m.cfg.Interval, func() { m.round(ctx, &streams) })
}

// every looks at once, and then in every interval until ctx ends.
func every(ctx context.Context, interval time.Duration, look func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		look()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Look reads the list of the mounts and the mount table once. It asks no mount.
func (m *Monitor) Look() {
	_, err := m.look()
	if err != nil {
		m.cfg.Logger.Warn("failed to look at the mounts of volumes", "error", err)
	}
}

// round looks at all mounts. An answer that comes later than Wait is taken in the background.
func (m *Monitor) round(ctx context.Context, streams *sync.WaitGroup) {
	paths, err := m.look()
	if err != nil {
		m.cfg.Logger.Warn("failed to look at the mounts of volumes, retrying", "error", err)
		return
	}
	defer m.report()
	if len(paths) == 0 {
		return
	}

	first, err := m.ask(ctx, paths, streams)
	if err != nil {
		m.cfg.Logger.Warn("failed to ask the mounts of volumes, retrying", "error", err)
		return
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
}

// look reads the list of the mounts and the mount table. It returns the mounts to ask.
func (m *Monitor) look() (paths []string, err error) {
	list, err := m.cfg.List()
	if err != nil {
		return nil, err
	}
	table, err := m.cfg.Table()
	if err != nil {
		return nil, err
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[string]bool{}
	used := map[storage.UsageKey]bool{}
	for _, mount := range list {
		there[mount.Path] = true
		used[mount.Volume] = true
		s := m.mounts[mount.Path]
		if s == nil {
			s = &monitorState{health: storage.MountHealth{State: storage.MountHealthy, Since: m.now()}}
			m.mounts[mount.Path] = s
		}
		s.Mounted = mount
		s.health.AllocID = mount.AllocID
		if found, reason := s.inTable(table); found != storage.MountHealthy {
			m.observe(s, found, reason)
		} else if !s.asking {
			paths = append(paths, mount.Path)
		}
	}

	maps.DeleteFunc(m.mounts, func(path string, _ *monitorState) bool { return !there[path] })
	maps.DeleteFunc(m.conditions, func(k storage.UsageKey, _ *storage.VolumeCondition) bool {
		return !used[k]
	})
	return paths, nil
}

// inTable returns the state of a mount as the mount table shows it.
func (s *monitorState) inTable(table *mounts.Table) (found, reason string) {
	if !table.Mounted(s.Path) {
		return storage.MountGone, "nothing is mounted at its place any more"
	}

	identity := table.Identity(s.Path)
	switch {
	// The staged volume may be unstaged and staged again between two rounds.
	case s.identity == "" || s.AllocID == "":
		s.identity = identity
	case s.identity != identity:
		return storage.MountGone, fmt.Sprintf("another file system (%s) is mounted in the place of %s",
			identity, s.identity)
	}

	if s.Writes && table.ReadOnly(s.Path) {
		return storage.MountReadOnly, "its file system has turned read-only"
	}
	return storage.MountHealthy, ""
}

// ask starts a process that asks mounts. first is closed once each of them has answered, or counts as hung.
func (m *Monitor) ask(
	ctx context.Context, paths []string, streams *sync.WaitGroup,
) (first <-chan struct{}, err error) {
	q := helper.ProbeQuestion{Paths: paths, Wait: m.cfg.Wait}
	stream, err := helper.Start[helper.ProbeAnswer](m.cfg.Helpers, q, helper.ProbeArg)
	if err != nil {
		return nil, err
	}

	all := make(chan struct{})
	end := context.AfterFunc(ctx, stream.Close)
	// The process tells of each mount within Wait. One that does not is ended.
	limit := time.AfterFunc(m.cfg.Wait+startTime, stream.Close)
	streams.Go(func() {
		defer end()
		left := len(paths)
		held := map[string]bool{}
		for a := range stream.Answers {
			late := m.take(a)
			held[a.Path] = a.Hung
			if late {
				continue
			}
			left--
			if left == 0 {
				limit.Stop()
				close(all)
			}
		}
		m.forgive(held)
		stream.Close()
		if left > 0 {
			limit.Stop()
			close(all)
		}
	})
	return all, nil
}

// take takes an answer. It reports whether that is the late one of a mount that hung.
func (m *Monitor) take(a helper.ProbeAnswer) (late bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mounts[a.Path]
	if s == nil {
		return false
	}
	late = s.asking && !a.Hung
	s.asking = a.Hung
	found, reason := m.stateOf(a)
	m.observe(s, found, reason)
	return late
}

// stateOf returns the state of a mount that has given an answer.
func (m *Monitor) stateOf(a helper.ProbeAnswer) (found, reason string) {
	errno := syscall.Errno(a.Errno)
	switch {
	case a.Hung:
		return storage.MountHung, fmt.Sprintf("it has not answered for %s", m.cfg.Wait)
	case deadly(errno):
		return storage.MountDead, errno.Error()
	}
	return storage.MountHealthy, ""
}

// deadly reports whether an error of a system call on the root of a mount shows that the mount is dead. An
// error such as EACCES is an answer of a file system that lives.
func deadly(errno syscall.Errno) bool {
	return slices.Contains([]syscall.Errno{
		syscall.ENOTCONN, syscall.ESTALE, syscall.EIO, syscall.ECONNABORTED, syscall.ESHUTDOWN,
		syscall.EHOSTDOWN, syscall.ETIMEDOUT, syscall.EREMOTEIO, syscall.ENODEV, syscall.ENXIO,
	}, errno)
}

// forgive lets the next round ask the mounts whose process has ended without their answers.
func (m *Monitor) forgive(held map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, hung := range held {
		if s := m.mounts[path]; s != nil && hung {
			s.asking = false
		}
	}
}

// observe takes what one look at a mount has shown. The caller holds the lock.
func (m *Monitor) observe(s *monitorState, found, reason string) {
	once := found == storage.MountHealthy || found == storage.MountHung || found == s.health.State
	if !once && s.suspect != found {
		s.suspect = found
		return
	}

	s.suspect = ""
	if found == s.health.State {
		return
	}
	m.set(s, found, reason)
}

// set sets the state of a mount. The caller holds the lock.
func (m *Monitor) set(s *monitorState, found, reason string) {
	s.health.State = found
	s.health.Reason = reason
	s.health.Since = m.now()
	m.cfg.Logger.Warn("the state of a mount has changed", "volume", s.Volume.VolumeID,
		"namespace", s.Volume.Namespace, "alloc_id", s.AllocID, "state", found, "reason", reason)
	m.announce()
}

// announce wakes those who follow. The caller holds the lock.
func (m *Monitor) announce() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of any mount or condition. The caller takes it
// before it reads the state.
func (m *Monitor) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// find returns the mount of a volume for an allocation, nil for none. The caller holds the lock.
func (m *Monitor) find(k storage.UsageKey, allocID string) *monitorState {
	for _, s := range m.mounts {
		if s.Volume == k && s.AllocID == allocID {
			return s
		}
	}
	return nil
}

// State returns the state of the mount of a volume for an allocation, or with allocID "" of the staged
// volume. A mount that is not known is healthy.
func (m *Monitor) State(k storage.UsageKey, allocID string) storage.MountHealth {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.find(k, allocID); s != nil {
		return s.health
	}
	return storage.MountHealth{AllocID: allocID, State: storage.MountHealthy}
}

// Of returns the states of the mounts of a volume, the staged volume first, then by allocation.
func (m *Monitor) Of(k storage.UsageKey) []*storage.MountHealth {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*storage.MountHealth
	for _, s := range m.mounts {
		if s.Volume == k {
			h := s.health
			list = append(list, &h)
		}
	}
	slices.SortFunc(list, func(a, b *storage.MountHealth) int {
		return strings.Compare(a.AllocID, b.AllocID)
	})
	return list
}

// SetCondition takes what the plugin says of a volume, nil for nothing.
func (m *Monitor) SetCondition(k storage.UsageKey, c *storage.VolumeCondition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.conditions[k]
	if c == nil {
		delete(m.conditions, k)
	} else {
		m.conditions[k] = c
	}
	if isAbnormal(before) != isAbnormal(c) {
		m.announce()
	}
}

func isAbnormal(c *storage.VolumeCondition) bool { return c != nil && c.Abnormal }

// Condition returns what the plugin has said of a volume last, nil for nothing.
func (m *Monitor) Condition(k storage.UsageKey) *storage.VolumeCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions[k]
}

func (m *Monitor) now() int64 { return m.cfg.Now().UnixNano() }
