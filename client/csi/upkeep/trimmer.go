package upkeep

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/client/csi/helper"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// TrimInterval is the time between two looks for volumes that are due.
	TrimInterval = time.Minute
	// TrimLimit bounds the trim of a volume.
	TrimLimit = 30 * time.Minute
	// grace is how long a trim that was ended waits for the end of its process. While that has the mount open,
	// the mount is busy.
	grace = 2 * time.Second
)

// TrimmedVolume is a mounted volume that is trimmed.
type TrimmedVolume struct {
	Key      storage.UsageKey
	PluginID string
	Path     string        // of a mount on the host
	Every    time.Duration // between two trims
	// Users are the allocations with a writable mount. While one of them stays, the volume stays staged.
	Users []string
}

// TrimmerConfig has what a Trimmer needs.
type TrimmerConfig struct {
	// List returns the volumes to trim. It touches none of their file systems.
	List func() ([]TrimmedVolume, error)
	// IsWhole reports whether a whole file system is mounted at exactly a path.
	IsWhole func(path string) (bool, error)
	// Aside does work on a volume that yields to its steps: see volumes.Volumes.
	Aside func(ctx context.Context, k storage.UsageKey, do func(context.Context)) bool
	// Helper is the supervisor's program with its arguments. The processes are a pool of their own: processes
	// for volumes whose storage has failed may not end.
	Helper []string
	Logger hclog.Logger
	// Interval and Limit are the constants if they are 0.
	Interval, Limit time.Duration
}

// Trimmer makes the file systems of mounted volumes tell their storage which blocks hold no data, at the
// time that the volume asks for (`trim`). Thin storage then has the space of deleted files for others.
//
// Its rules:
//
//   - Nothing waits for it. The work runs in a process of its own, one at a time on a node, each for at most
//     TrimLimit. A step of the volume ends it, such as a publish or an unpublish.
//   - Only a writable mount of a whole file system is trimmed: a mounted directory would trim what belongs to
//     others.
//   - The times of a volume follow from its name and the clock: volumes of the same rule are spread over its
//     time, and a restart of the agent changes no time.
type Trimmer struct {
	cfg  TrimmerConfig
	pool *helper.Pool

	mu      sync.Mutex
	volumes map[storage.UsageKey]*trimState
}

// trimState is what is known of one volume.
type trimState struct {
	volume      TrimmedVolume
	slot        int64 // the one in which it was tried last, or was mounted
	unsupported bool
	trim        storage.VolumeTrim
}

// NewTrimmer makes a trimmer, which works once Run runs.
func NewTrimmer(cfg TrimmerConfig) *Trimmer {
	cfg.Interval = cmp.Or(cfg.Interval, TrimInterval)
	cfg.Limit = cmp.Or(cfg.Limit, TrimLimit)
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	pool := helper.New(cfg.Helper)
	pool.Grace = grace
	return &Trimmer{
		cfg:     cfg,
		pool:    pool,
		volumes: map[storage.UsageKey]*trimState{},
	}
}

// Run trims until ctx ends.
func (t *Trimmer) Run(ctx context.Context) {
	every(ctx, t.cfg.Interval, func() { t.round(ctx) })
}

// round trims the volumes that are due, one after the other.
func (t *Trimmer) round(ctx context.Context) {
	all, err := t.cfg.List()
	if err != nil {
		t.cfg.Logger.Warn("failed to list the volumes to trim, retrying", "error", err)
		return
	}

	for _, v := range t.due(all, time.Now()) {
		t.cfg.Aside(ctx, v.Key, func(ctx context.Context) { t.trim(ctx, v) })
		if ctx.Err() != nil {
			return
		}
	}
}

// offset spreads the volumes over the time between two trims.
func offset(k storage.UsageKey, every time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.Namespace + "\x00" + k.VolumeID)) // it never fails
	return time.Duration(h.Sum64() % uint64(every))
}

// slotAt numbers the times between two trims of a volume, and begin is the first moment of one.
func slotAt(v TrimmedVolume, now time.Time) int64 {
	return (now.UnixNano() - int64(offset(v.Key, v.Every))) / int64(v.Every)
}

func begin(v TrimmedVolume, slot int64) int64 {
	return slot*int64(v.Every) + int64(offset(v.Key, v.Every))
}

// due forgets the volumes that are gone, and returns those whose next slot has begun.
func (t *Trimmer) due(all []TrimmedVolume, now time.Time) (list []TrimmedVolume) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[storage.UsageKey]bool{}
	for _, v := range all {
		there[v.Key] = true
		slot := slotAt(v, now)
		s := t.volumes[v.Key]
		if s == nil || !s.stays(v) {
			s = &trimState{slot: slot}
			t.volumes[v.Key] = s
		}
		s.volume = v
		s.trim.Every = v.Every
		if s.unsupported {
			continue
		}
		s.trim.Next = begin(v, slot+1)
		if slot != s.slot {
			s.trim.Next = now.UnixNano()
			list = append(list, v)
		}
	}
	maps.DeleteFunc(t.volumes, func(k storage.UsageKey, _ *trimState) bool { return !there[k] })
	return list
}

// stays reports whether a volume has stayed staged since it was seen last, with the same rule.
func (s *trimState) stays(v TrimmedVolume) bool {
	stayed := func(id string) bool { return slices.Contains(s.volume.Users, id) }
	return s.volume.Every == v.Every && slices.ContainsFunc(v.Users, stayed)
}

// trim trims one volume. If ctx ends, the volume stays due.
func (t *Trimmer) trim(ctx context.Context, v TrimmedVolume) {
	whole, err := t.cfg.IsWhole(v.Path)
	answer := helper.FitrimAnswer{
		Unsupported: "a directory of a file system is mounted, and no file system of its own",
	}
	if err == nil && whole && ctx.Err() == nil {
		answer, err = t.run(ctx, v.Path)
	}
	if ctx.Err() != nil {
		return
	}
	t.keep(v, answer, err)
}

// run trims the file system at a path, in a process of its own.
func (t *Trimmer) run(ctx context.Context, path string) (a helper.FitrimAnswer, err error) {
	limited, cancel := context.WithTimeout(ctx, t.cfg.Limit)
	defer cancel()
	out, err := t.pool.Output(limited, helper.FitrimArg, path)
	if err != nil {
		return a, err
	}
	err = json.Unmarshal(out, &a)
	if err != nil {
		return a, structs.Internalf("the output of fitrim: %w", err)
	}
	return a, nil
}

// keep keeps the result of a trim until the next one.
func (t *Trimmer) keep(v TrimmedVolume, a helper.FitrimAnswer, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.volumes[v.Key]
	now := time.Now()
	s.slot = slotAt(v, now)
	s.trim.Next = begin(v, s.slot+1)
	s.trim.Fault = ""
	logger := t.cfg.Logger.With("namespace", v.Key.Namespace, "volume_id", v.Key.VolumeID)
	labels := []metrics.Label{
		{Name: "namespace", Value: v.Key.Namespace},
		{Name: "volume", Value: v.Key.VolumeID},
		{Name: "plugin", Value: v.PluginID},
	}
	switch {
	case err != nil:
		s.trim.Fault = structs.Cut(err.Error(), structs.MaxText)
		metrics.IncrCounterWithLabels([]string{"csi", "volume_trim_faults"}, 1, labels)
		logger.Warn("failed to trim a volume", "error", err)
	case a.Unsupported != "":
		s.unsupported = true
		s.trim.Next = 0
		s.trim.Fault = structs.Cut(a.Unsupported, structs.MaxText)
		logger.Warn("volume cannot be trimmed", "reason", a.Unsupported)
	default:
		s.trim.Time = now.UnixNano()
		s.trim.Bytes = int64(min(a.Bytes, structs.MaxVolumeBytes))
		metrics.IncrCounterWithLabels([]string{"csi", "volume_trimmed_bytes"}, float32(s.trim.Bytes), labels)
		logger.Debug("volume is trimmed", "bytes", s.trim.Bytes)
	}
}

// Of tells how a volume is trimmed, nil if it is not.
func (t *Trimmer) Of(k storage.UsageKey) *storage.VolumeTrim {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.volumes[k]
	if s == nil {
		return nil
	}
	return new(s.trim)
}
