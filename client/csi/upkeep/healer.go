package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	"berth/client/csi/mounts"
	"berth/internal/backoff"
	"berth/internal/keylock"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// CutAfter is the time for which a mount hangs before the node ends its connection.
	CutAfter = 30 * time.Second
	// Pauses between two repairs of a mount.
	MinHealPause = time.Second
	MaxHealPause = time.Minute
	// settled is the time without a repair after which the next one follows at once.
	settled = 10 * time.Minute
)

// MountKey names a mount.
type MountKey struct {
	Volume  storage.UsageKey
	AllocID string
}

func (k MountKey) String() string {
	return k.Volume.Namespace + "\x00" + k.Volume.VolumeID + "\x00" + k.AllocID
}

// Healer orders the repairs of dead mounts on a node. The tasks that have a mount stop before it is
// unmounted, one repair of a mount is in work at a time, and repeats are paced. The hooks of tasks make the
// repairs: see package csihooks.
type Healer struct {
	Health  *Monitor
	Helpers *helper.Pool
	// MinPause and MaxPause are the constants if they are 0.
	MinPause, MaxPause time.Duration
	// CutAfter is the constant if it is 0.
	CutAfter time.Duration

	locks keylock.Map

	mu      sync.Mutex
	users   map[MountKey]int // running tasks
	left    chan struct{}
	repairs map[MountKey]*repairs
}

// repairs are the repairs of one mount.
type repairs struct {
	pause backoff.Backoff
	last  time.Time
}

// NewHealer makes a healer of the mounts of a monitor.
func NewHealer(m *Monitor, pool *helper.Pool) *Healer {
	return &Healer{
		Health:   m,
		Helpers:  pool,
		MinPause: MinHealPause,
		MaxPause: MaxHealPause,
		CutAfter: CutAfter,
		users:    map[MountKey]int{},
		left:     make(chan struct{}),
		repairs:  map[MountKey]*repairs{},
	}
}

// Enter notes that a task with a mount runs. The caller calls leave at the end of its process.
func (h *Healer) Enter(k MountKey) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users[k]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.users[k]--
		if h.users[k] == 0 {
			delete(h.users, k)
			close(h.left)
			h.left = make(chan struct{})
		}
	}
}

// AwaitUnused waits until no task with a mount runs, or until done holds, which it tries again at each change
// of a mount.
func (h *Healer) AwaitUnused(ctx context.Context, k MountKey, done func() bool) error {
	for {
		changed := h.Health.Changed()
		h.mu.Lock()
		left := h.left
		used := h.users[k] > 0
		h.mu.Unlock()
		if !used || done() {
			return nil
		}
		select {
		case <-left:
		case <-changed:
		case <-ctx.Done():
			return structs.Timeoutf("waiting for the tasks that have the mount: %w", ctx.Err())
		}
	}
}

// Lock lets one repair of a mount be in work.
func (h *Healer) Lock(ctx context.Context, k MountKey) (release func(), err error) {
	return h.locks.Lock(ctx, "repairing the mount", k.String())
}

// Pace waits before a repair: not for the first one, and ever longer while others follow. It reports false if
// ctx ended first.
func (h *Healer) Pace(ctx context.Context, k MountKey) bool {
	return backoff.Sleep(ctx, h.next(k))
}

func (h *Healer) next(k MountKey) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	r := h.repairs[k]
	if r == nil || now.Sub(r.last) > settled {
		h.repairs[k] = &repairs{pause: backoff.Backoff{Min: h.MinPause, Max: h.MaxPause}, last: now}
		return 0
	}
	wait := r.pause.Next()
	r.last = now.Add(wait)
	return wait
}

// Forget forgets the mounts of an allocation.
func (h *Healer) Forget(allocID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.repairs {
		if k.AllocID == allocID {
			delete(h.repairs, k)
		}
	}
}

// cutTime bounds the process that ends a connection.
const cutTime = 10 * time.Second

// Cut ends the connection of a FUSE mount that hangs. For another file system the error is a precondition:
// its requests cannot be ended.
func (h *Healer) Cut(ctx context.Context, path string) error {
	kind, err := mounts.FileSystem(path)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(kind, "fuse") {
		return structs.Preconditionf("a file system of the type %q cannot be cut from its server", kind)
	}
	ctx, cancel := context.WithTimeout(ctx, cutTime)
	defer cancel()
	_, err = h.Helpers.Output(ctx, helper.CutArg, path)
	return err
}

// Detach unmounts a path, and all below the other ones first, also if processes use them. Only a mount whose
// server is proven gone may be detached: nothing can be written through it any more.
func Detach(path string, below ...string) error {
	table, err := mounts.Read()
	if err != nil {
		return err
	}

	var all []string
	for _, dir := range below {
		for _, p := range slices.Backward(table.Below(dir)) {
			all = append(all, p)
		}
	}
	if table.Mounted(path) {
		all = append(all, path)
	}
	for _, p := range all {
		err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil {
			return fmt.Errorf("detaching %s: %w", p, err)
		}
	}
	return nil
}
