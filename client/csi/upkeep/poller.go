package upkeep

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/helper"
	"berth/internal/telemetry"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// MaxPollCalls bounds the calls of a node in flight.
	MaxPollCalls = 4
	// PollTimeout bounds one call.
	PollTimeout = 10 * time.Second
	// MaxPollPause is the longest pause of a volume that does not answer, in intervals.
	MaxPollPause = 8
)

// looks is how often the list of the volumes is read in an interval.
const looks = 6

// PolledVolume is a volume that is mounted, or that the node has tried to mount.
type PolledVolume struct {
	Key      storage.UsageKey
	PluginID string
	// Path is where it is mounted on the host.
	Path string
	// Ask asks the plugin. Nil: the plugin does not report the use.
	Ask func(context.Context) (*storage.VolumeUsage, error)
	// Device says that it has no file system to ask.
	Device bool
	// Attempted says that it is not mounted: only its health can be asked for.
	Attempted bool
	// Health asks the plugin for the health. Nil: the plugin does not report it by itself.
	Health func(context.Context) (*storage.VolumeCondition, error)
}

// hasUse reports whether the use can be measured.
func (v *PolledVolume) hasUse() bool { return !v.Attempted && (v.Ask != nil || !v.Device) }

// PollerConfig has what a Poller needs.
type PollerConfig struct {
	// List returns the mounted volumes. It calls no plugin and reads none of the file systems.
	List func() ([]PolledVolume, error)
	// Storages lists the plugins that report on their storage. Nil: none does.
	Storages func() []Storage
	// Helpers ask file systems.
	Helpers *helper.Pool
	NodeID  string
	// Health returns the states of the mounts of a volume on this node. Nil: they are not known.
	Health func(storage.UsageKey) []*storage.MountHealth
	// Trim tells how the node trims a volume, nil if it does not. Nil: it trims none.
	Trim func(storage.UsageKey) *storage.VolumeTrim
	// Condition, if not nil, takes what the plugin says of a volume with each measurement, nil for nothing.
	Condition func(storage.UsageKey, *storage.VolumeCondition)
	// Interval is the time between two measurements of a volume, about.
	Interval time.Duration
	Logger   hclog.Logger
	// Timeout bounds a call. 0 is the constant.
	Timeout time.Duration
}

// Poller measures how full the mounted volumes of a node are. It asks the plugins that report it
// (NodeGetVolumeStats), and for the others the file systems, in processes of their own. It asks the plugins
// that report it for the health of volumes (NodeGetVolumeHealth), also of volumes that the node has only
// tried to mount, and of their storage (NodeGetStorageHealth).
//
// Its rules:
//
//   - Nothing waits for it. A plugin that does not answer, and a file system whose server has failed, cost
//     one of MaxPollCalls calls until PollTimeout, and then a pause that doubles.
//   - File systems are asked together, by one process. One that does not answer costs this process: those
//     after it get another one. From then on it is asked alone, until it answers.
//   - A volume has at most one call in flight.
type Poller struct {
	cfg PollerConfig

	mu       sync.Mutex
	volumes  map[storage.UsageKey]*pollState
	storages map[string]*turn // by plugin
}

// pollState is what is known of one volume.
type pollState struct {
	usage storage.VolumeUsage
	held  <-chan error // closed at the end of the process that its file system holds; nil: it holds none
	turn
	health turn
}

// NewPoller makes a poller, which measures once Run runs.
func NewPoller(cfg PollerConfig) *Poller {
	if cfg.Interval == 0 {
		cfg.Interval = storage.DefaultUsageInterval
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = PollTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Poller{
		cfg:      cfg,
		volumes:  map[storage.UsageKey]*pollState{},
		storages: map[string]*turn{},
	}
}

// Run measures until ctx ends. It returns when no call is in flight, but for the file systems that never
// answer.
func (p *Poller) Run(ctx context.Context) {
	remove := telemetry.Gauges(p.Gauges)
	defer remove()

	work := make(chan func())
	var workers sync.WaitGroup
	for range MaxPollCalls {
		workers.Go(func() {
			for do := range work {
				do()
			}
		})
	}

	every(ctx, p.cfg.Interval/looks, func() { p.hand(ctx, work) })
	close(work)
	workers.Wait()
}

// hand gives the volumes and the storages that are due to the workers.
func (p *Poller) hand(ctx context.Context, work chan<- func()) {
	for _, do := range p.dueWork(ctx, time.Now()) {
		select {
		case work <- do:
		case <-ctx.Done():
			return // also volumes that are marked as busy are not asked any more
		}
	}
}

// dueWork returns the work for the volumes and the storages that are due. File systems are asked together,
// except any that did not answer the last time.
func (p *Poller) dueWork(ctx context.Context, now time.Time) (list []func()) {
	for _, s := range p.dueStorages(now) {
		list = append(list, func() { p.askStorage(ctx, s) })
	}

	var files []PolledVolume
	for _, v := range p.due(now) {
		if v.Ask == nil && v.Health == nil && !p.isSlow(v.Key) {
			files = append(files, v)
			continue
		}
		list = append(list, func() { p.measure(ctx, v) })
	}
	for together := range slices.Chunk(files, maxAsked) {
		list = append(list, func() { p.measureFileSystems(ctx, together) })
	}
	return list
}

// isSlow reports whether a volume did not answer the last time.
func (p *Poller) isSlow(k storage.UsageKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.volumes[k].slow > 0
}

// due reads the list of the volumes, forgets gone ones, and returns due ones.
func (p *Poller) due(now time.Time) (list []PolledVolume) {
	all, err := p.cfg.List()
	if err != nil {
		p.cfg.Logger.Warn("failed to list the volumes whose use is measured", "error", err)
		return nil
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	there := map[storage.UsageKey]bool{}
	for _, v := range all {
		if there[v.Key] { // it is mounted for several allocations
			continue
		}
		there[v.Key] = true

		s := p.volumes[v.Key]
		if s == nil {
			// Volumes that are mounted together are not measured together for ever.
			s = &pollState{turn: turn{due: now.Add(rand.N(p.cfg.Interval / looks))}}
			p.volumes[v.Key] = s
		}
		s.usage.Namespace = v.Key.Namespace
		s.usage.VolumeID = v.Key.VolumeID
		s.usage.PluginID = v.PluginID
		s.usage.NodeID = p.cfg.NodeID

		hasUse := v.Ask != nil || v.hasUse() && !s.isHeld()
		if (hasUse || v.Health != nil) && s.begin(now) {
			list = append(list, v)
		}
	}

	maps.DeleteFunc(p.volumes, func(k storage.UsageKey, s *pollState) bool { return !there[k] && !s.busy })
	return list
}

// measure measures one volume. The health comes first, in a part of the time: it has to be known above all if
// the use is not.
func (p *Poller) measure(ctx context.Context, v PolledVolume) {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if v.Health != nil {
		p.askHealth(limited, v)
	}
	failed := v.hasUse() && p.askUse(limited, v)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes[v.Key].end(p.cfg.Interval, failed)
}

// measureFileSystems measures the use of volumes by their file systems. One that does not answer costs its
// process, and the volumes after it get another one.
func (p *Poller) measureFileSystems(ctx context.Context, list []PolledVolume) {
	for len(list) > 0 && ctx.Err() == nil {
		var paths []string
		for _, v := range list {
			paths = append(paths, v.Path)
		}
		tell := func(i int, u *storage.VolumeUsage, err error) {
			p.take(list[i], u, err)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.volumes[list[i].Key].end(p.cfg.Interval, structs.IsKind(err, structs.KindTimeout))
		}
		told, held := askFileSystems(ctx, asking{p.cfg.Helpers, p.cfg.Timeout, tell}, paths)
		p.hold(list[told-1].Key, held)
		list = list[told:]
	}
}

// askUse asks for the use of a volume. It reports whether there was no answer in time, or no such volume.
func (p *Poller) askUse(ctx context.Context, v PolledVolume) (failed bool) {
	var got *storage.VolumeUsage
	var err error
	switch {
	case v.Ask != nil:
		got, err = v.Ask(ctx)
	case p.isHeld(v.Key):
		return true
	default:
		tell := func(_ int, u *storage.VolumeUsage, fault error) {
			got = u
			err = fault
		}
		_, held := askFileSystems(ctx, asking{p.cfg.Helpers, p.cfg.Timeout, tell}, []string{v.Path})
		p.hold(v.Key, held)
	}
	p.take(v, got, err)
	return err != nil && (ctx.Err() != nil || structs.CodeOf(err) == codeNotFound)
}

// take keeps a measurement, and the condition that comes with it.
func (p *Poller) take(v PolledVolume, got *storage.VolumeUsage, err error) {
	p.keep(v.Key, got, err)
	if err == nil && v.Health == nil {
		p.setCondition(v, got.Condition)
	}
}

// codeNotFound is the code of an answer that there is no such volume at its path. The volume is asked for
// ever more seldom, and each time only if the records of the node still have it, and the mount table its
// path.
const codeNotFound = "NotFound"

// keep keeps a measurement, or the reason why there is none.
func (p *Poller) keep(k storage.UsageKey, got *storage.VolumeUsage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.volumes[k]
	if err != nil {
		s.usage.Error = structs.Cut(err.Error(), structs.MaxText)
		return
	}
	s.usage.Error = ""
	s.usage.Time = time.Now().UnixNano()
	s.usage.Source = got.Source
	s.usage.Bytes = got.Bytes
	s.usage.Inodes = got.Inodes
	report(&s.usage)
}

// askHealth asks for the health of a volume if it is due. After an error the last answer stays: an error is
// no recovery (CSI spec, NodeGetVolumeHealth).
func (p *Poller) askHealth(ctx context.Context, v PolledVolume) {
	p.mu.Lock()
	due := p.volumes[v.Key].health.begin(time.Now())
	p.mu.Unlock()
	if !due {
		return
	}

	limited, cancel := context.WithTimeout(ctx, p.cfg.Timeout/2)
	defer cancel()
	got, err := v.Health(limited)
	if err == nil {
		p.setCondition(v, got)
	} else {
		p.cfg.Logger.Debug("plugin does not tell the health of a volume", "plugin_id", v.PluginID,
			"volume_id", v.Key.VolumeID, "namespace", v.Key.Namespace, "error", err)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	failed := err != nil && (limited.Err() != nil || structs.CodeOf(err) == codeNotFound)
	health := &p.volumes[v.Key].health
	health.end(p.cfg.Interval, failed)
	if !failed {
		// It is due with the next measurement, which has a random time of its own. With a second random time
		// it would miss every other measurement.
		health.due = time.Time{}
	}
}

// setCondition keeps what the plugin says of a volume, nil for nothing.
func (p *Poller) setCondition(v PolledVolume, c *storage.VolumeCondition) {
	p.mu.Lock()
	p.volumes[v.Key].usage.Condition = c
	p.mu.Unlock()
	if p.cfg.Condition != nil && !v.Attempted {
		p.cfg.Condition(v.Key, c)
	}
}

// Of returns the last measurements of volumes, as copies, in the order of the volumes. A volume that is not
// mounted here is left out, unless the states of its mounts are known. With keys nil it returns all, by
// namespace and volume.
func (p *Poller) Of(keys []storage.UsageKey) []*storage.VolumeUsage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if keys == nil {
		for k := range p.volumes {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, storage.CompareUsageKeys)
	}

	list := []*storage.VolumeUsage{}
	for _, k := range keys {
		var mounts []*storage.MountHealth
		if p.cfg.Health != nil {
			mounts = p.cfg.Health(k)
		}

		// The parts are never changed, only replaced.
		u := storage.VolumeUsage{Namespace: k.Namespace, VolumeID: k.VolumeID, NodeID: p.cfg.NodeID}
		s := p.volumes[k]
		if s != nil {
			u = s.usage
		}
		if s != nil || len(mounts) > 0 {
			u.Mounts = mounts
			if p.cfg.Trim != nil {
				u.Trim = p.cfg.Trim(k)
			}
			list = append(list, &u)
		}
	}
	return list
}
