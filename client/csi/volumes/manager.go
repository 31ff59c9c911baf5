package volumes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/registry"
	"berth/client/store"
	"berth/csi"
	"berth/internal/keylock"
	"berth/internal/wallclock"
	"berth/structs"
)

// Config configures a Manager. Fields from FingerprintInterval on may be zero.
type Config struct {
	Registry *registry.Registry
	DB       *store.DB
	Logger   hclog.Logger
	NodeID   string
	// Root is the directory on the host under which volumes are staged and published. It is shared with
	// the plugins' tasks: see mounts.MakeShared.
	Root string

	FingerprintInterval time.Duration // between two fingerprints of a healthy plugin, and of a resync; 30 s
	RefreshMin          time.Duration // between two fingerprints, also if the node is full; 5 s
	ProbeTimeout        time.Duration // bounds one fingerprint; 10 s
	CallTimeout         time.Duration // bounds the wait for one call for a volume; csi.DefaultTimeout
	LateWait            time.Duration // how long a call continues without an answer; twice CallTimeout
	StopWait            time.Duration // how long a call in flight continues when the agent stops; 5 s
	ClientWait          time.Duration // how long Client waits for a healthy instance; 30 s
	RetryMin, RetryMax  time.Duration // between two tries of a step; 250 ms, growing to 30 s
	// AcceptUnmounted believes a plugin that a volume is published although the host sees no mount there.
	// Only for plugins that mount nothing: without it a task would write into the directory below.
	AcceptUnmounted bool
	// BootID is the machine's. "" is the kernel's.
	BootID string
	// Metrics is called after each call of a plugin.
	Metrics func(plugin, method, code string, took time.Duration)
}

func (c Config) withDefaults() Config {
	c.FingerprintInterval = cmp.Or(c.FingerprintInterval, 30*time.Second)
	c.RefreshMin = cmp.Or(c.RefreshMin, 5*time.Second)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 10*time.Second)
	c.CallTimeout = cmp.Or(c.CallTimeout, csi.DefaultTimeout)
	c.LateWait = cmp.Or(c.LateWait, 2*c.CallTimeout)
	c.StopWait = cmp.Or(c.StopWait, 5*time.Second)
	c.ClientWait = cmp.Or(c.ClientWait, 30*time.Second)
	c.RetryMin = cmp.Or(c.RetryMin, 250*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, 30*time.Second)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Metrics == nil {
		c.Metrics = func(string, string, string, time.Duration) {}
	}
	return c
}

// Manager keeps the connections to the node's plugins. Volumes is its other half.
type Manager struct {
	cfg     Config
	logger  hclog.Logger
	volumes *Volumes
	calls   keylock.Map // one call in flight per volume of a plugin, over both halves

	newReports chan registry.Key // halves of plugins with a new report
	changes    chan struct{}
	wg         sync.WaitGroup     // instance managers
	inFlight   *registry.InFlight // calls for volumes
	suspects   *registry.Suspects // calls that may have ended a plugin
	seen       wallclock.Seen     // the records of calls ahead of the clock
	life       context.Context    // of the calls
	endLife    context.CancelFunc

	mu      sync.Mutex
	slots   map[registry.Key]*pluginSlot
	changed chan struct{}             // closed after each change of the results of Client or Instances
	pending map[registry.Key]struct{} // restored, and not fingerprinted yet
	first   chan struct{}             // closed when pending is empty
}

// pluginSlot is one half of one plugin: the instance in use, and a newer one that replaces it after its first
// fingerprint.
type pluginSlot struct {
	current, next *instance
	lastNotified  *structs.CSIInfo // the report of current at the last notification of Changes
}

// New makes a manager. It does nothing before Run.
func New(cfg Config) *Manager {
	cfg = cfg.withDefaults()
	m := &Manager{
		cfg:        cfg,
		logger:     cfg.Logger.Named("csi_manager"),
		newReports: make(chan registry.Key),
		changes:    make(chan struct{}, 1),
		inFlight:   registry.NewInFlight(),
		suspects:   registry.NewSuspects(),
		slots:      map[registry.Key]*pluginSlot{},
		changed:    make(chan struct{}),
		pending:    map[registry.Key]struct{}{},
		first:      make(chan struct{}),
	}

	m.life, m.endLife = context.WithCancel(context.Background())
	m.volumes = newVolumes(m)
	for _, i := range cfg.Registry.Serving() {
		m.pending[i.Key()] = struct{}{}
	}

	if len(m.pending) == 0 {
		close(m.first)
	}

	return m
}

// Volumes returns the half that works on volumes.
func (m *Manager) Volumes() *Volumes { return m.volumes }

// Run follows the registry until ctx ends, and returns when every instance manager has ended.
func (m *Manager) Run(ctx context.Context) {
	sub := m.cfg.Registry.Subscribe()
	defer sub.Close()
	// The deferred functions run from the last one to the first: calls end, then the connections, then the
	// goroutines of the instances.
	defer m.wg.Wait()

	// The connections outlive ctx, because endCalls leaves the calls in flight some time.
	connections, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	defer m.endCalls()
	resync := time.NewTicker(m.cfg.FingerprintInterval)
	defer resync.Stop()
	for {
		select {
		case <-sub.More():
			for _, k := range sub.Take() {
				m.syncSlot(connections, k)
			}
		case k := <-m.newReports:
			m.syncSlot(connections, k)
		case <-resync.C:
			for _, k := range m.pluginKeys() {
				m.syncSlot(connections, k)
			}
		case <-ctx.Done():
			return
		}
	}
}

// pluginKeys returns all halves of plugins that are registered or still have an instance.
func (m *Manager) pluginKeys() []registry.Key {
	seen := map[registry.Key]struct{}{}
	for _, i := range m.cfg.Registry.Serving() {
		seen[i.Key()] = struct{}{}
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.slots {
		seen[k] = struct{}{}
	}
	return slices.Collect(maps.Keys(seen))
}

// syncSlot updates one slot from the registry. Only Run calls it. It never blocks.
func (m *Manager) syncSlot(ctx context.Context, k registry.Key) {
	want := m.cfg.Registry.Get(k)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[k]
	if want == nil {
		m.removeSlot(k, s)
		return
	}

	if s == nil {
		s = &pluginSlot{}
		m.slots[k] = s
	}

	m.followRegistration(ctx, s, want)
	if s.next != nil && m.mayTakeOver(k, s) {
		m.logger.Info("plugin instance replaced",
			"plugin_id", k.ID, "kind", k.Kind,
			"alloc_id", s.next.registration.AllocID,
			"before", s.current.registration.AllocID)
		// Calls in flight continue at the older instance.
		s.current.retire()
		s.current, s.next = s.next, nil
	}

	r := s.current.report.Load()
	if r != nil {
		m.markFingerprinted(k)
	}

	// setReport replaces a report only by another one.
	if r != s.lastNotified {
		s.lastNotified = r
		m.notifyChanges()
	}

	m.notifyWaiters()
}

// followRegistration starts the instance of a registration, unless it is the current or the next one. The
// caller holds m.mu.
func (m *Manager) followRegistration(ctx context.Context, s *pluginSlot, want *registry.Instance) {
	switch {
	case s.current == nil:
		s.current = m.startInstance(ctx, want)
	case s.current.registration == want: // the registry hands out one value per registration
		// The newer registration has gone before its instance took over.
		s.next.stop()
		s.next = nil
	case s.next == nil || s.next.registration != want:
		s.next.stop()
		s.next = m.startInstance(ctx, want)
	}
}

// mayTakeOver reports whether the newer instance replaces the older one: at once if it is healthy, otherwise
// when the older one is no longer registered.
func (m *Manager) mayTakeOver(k registry.Key, s *pluginSlot) bool {
	r := s.next.report.Load()
	if r == nil {
		return false
	}
	older := s.current.registration.AllocID
	return r.Healthy || !m.cfg.Registry.Registered(k, older)
}

// removeSlot ends a half that is no longer registered. The caller holds m.mu.
func (m *Manager) removeSlot(k registry.Key, s *pluginSlot) {
	// WaitFirst must not wait for a plugin that has left.
	m.markFingerprinted(k)
	if s == nil {
		return
	}

	// Its calls end with its process.
	s.current.retire()
	s.next.stop()
	delete(m.slots, k)
	m.notifyChanges()
	m.notifyWaiters()
}

// markFingerprinted records that WaitFirst need not wait for a restored plugin any more.
func (m *Manager) markFingerprinted(k registry.Key) {
	if len(m.pending) == 0 {
		return
	}

	delete(m.pending, k)
	if len(m.pending) == 0 {
		close(m.first)
	}
}

// notifyWaiters makes the waiters for an instance check it again. The caller holds m.mu.
func (m *Manager) notifyWaiters() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// notifyChanges notifies the reader of Changes.
func (m *Manager) notifyChanges() {
	select {
	case m.changes <- struct{}{}:
	default: // a signal is pending already
	}
}

// Changes receives a value after Instances may have changed. It has one reader.
func (m *Manager) Changes() <-chan struct{} { return m.changes }

// WaitFirst returns when each plugin that was registered at New has been fingerprinted once, healthy or not.
// If ctx ends first, the error names the others.
func (m *Manager) WaitFirst(ctx context.Context) error {
	select {
	case <-m.first:
		return nil
	case <-ctx.Done():
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for k := range m.pending {
		names = append(names, fmt.Sprintf("%s (%s)", k.ID, k.Kind))
	}

	// The last one was fingerprinted when ctx ended.
	if len(names) == 0 {
		return nil
	}

	slices.Sort(names)
	return structs.Timeoutf("not fingerprinted yet: %s: %w",
		strings.Join(names, ", "), ctx.Err())
}

// Instances returns the last report of each plugin instance, in the order of plugin and kind. UpdateTime
// moves only when another field has changed.
func (m *Manager) Instances() []*structs.CSIPluginInstance {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []*structs.CSIPluginInstance{}
	for k, s := range m.slots {
		if r := s.current.report.Load(); r != nil {
			row := &structs.CSIPluginInstance{
				Kind:    k.Kind,
				NodeID:  m.cfg.NodeID,
				CSIInfo: *r,
			}

			out = append(out, row.Copy())
		}
	}

	slices.SortFunc(out, func(a, b *structs.CSIPluginInstance) int {
		return a.Key().Compare(b.Key())
	})
	return out
}

// AllowCalls lets the node make the calls for a volume again that have ended their plugin twice, because an
// operator requests it. volumes are the names of the volume in csi.Options.Guard.
func (m *Manager) AllowCalls(pluginID string, volumes []string) {
	m.suspects.Allow(pluginID, volumes)
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range m.slots {
		if k.ID == pluginID {
			s.current.rounds.Ask() // the report has the stopped calls
		}
	}
}

// Conn is a healthy instance: its client, its registration and its last report. It stays usable when another
// instance takes over, until calls fail with a timeout or unavailable error.
type Conn struct {
	*csi.Client
	Registration *registry.Instance
	Info         structs.CSIInfo
}

// CheckDriver returns ErrOtherDriver, as a precondition error, unless the instance is a process of the driver
// with the given Provider. doing names the step that is not taken.
func (c *Conn) CheckDriver(provider, doing string) error {
	if c.Info.IsDriver(provider) {
		return nil
	}
	return structs.Preconditionf(
		"plugin %q: not %s: %w: the volume is driver %q's, the instance on this node is driver %q",
		c.Info.PluginID, doing, ErrOtherDriver,
		provider, c.Info.Provider)
}

// ErrOtherDriver means that a plugin's instance is not a process of the driver that made the volume.
var ErrOtherDriver = registry.ErrOtherDriver

// Healthy returns the serving instance, or an unavailable error with the reason if there is none.
func (m *Manager) Healthy(kind structs.CSIKind, id string) (*Conn, error) {
	conn, _, err := m.findHealthy(registry.Key{Kind: kind, ID: id})
	return conn, err
}

// Client waits for a healthy instance: until ctx ends, and no longer than the configured time. The error is
// unavailable and gives the reason.
func (m *Manager) Client(ctx context.Context, kind structs.CSIKind, id string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.ClientWait)
	defer cancel()
	k := registry.Key{Kind: kind, ID: id}
	for {
		conn, changed, err := m.findHealthy(k)
		if err == nil {
			return conn, nil
		}

		// findHealthy returns both under one lock, so no change after the error is missed.
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// findHealthy returns the instance to use. Until a newer one has taken over, that is the older one while its
// allocation is registered.
func (m *Manager) findHealthy(k registry.Key) (*Conn, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[k]
	if s == nil ||
		!m.cfg.Registry.Registered(k, s.current.registration.AllocID) {
		return nil, m.changed, structs.Unavailablef(
			"plugin %q: no allocation on this node serves its %s", k.ID, k.Kind)
	}

	r := s.current.report.Load()
	if r == nil || !r.Healthy {
		why := "it has not answered yet"
		if r != nil {
			why = r.HealthDescription
		}
		return nil, m.changed, structs.Unavailablef(
			"plugin %q: its %s on this node is not healthy: %s", k.ID, k.Kind, why)
	}

	return &Conn{
		Client:       s.current.client,
		Registration: s.current.registration,
		Info:         *r,
	}, m.changed, nil
}
