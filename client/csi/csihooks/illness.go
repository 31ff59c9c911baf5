package csihooks

import (
	"context"
	"fmt"
	"time"

	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/structs"
	"berth/structs/storage"
)

// NewIllness makes the hook of a task that tells of the ill mounts of the task, and has it restarted for
// their repair. It is nil for a task without a volume.
func NewIllness(cfg VolumesConfig, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if cfg.Healer == nil || len(task.VolumeMounts) == 0 {
		return nil
	}

	h := NewVolumes(cfg, env).(*volumesHook)
	all, err := h.requiredVolumes()
	hook := &illness{of: h, told: map[volumes.VolumeKey]*told{}}
	for _, w := range all {
		if usesAny(task, w.aliases) {
			hook.volumes = append(hook.volumes, w)
			hook.told[w.VolumeKey] = &told{state: storage.MountHealthy}
		}
	}
	if err != nil || len(hook.volumes) == 0 {
		return nil // the hook of the volumes tells the error
	}
	return hook
}

// illness is the hook of one task.
type illness struct {
	of      *volumesHook
	volumes []*requiredVolume
	told    map[volumes.VolumeKey]*told // only the goroutine of Started uses it
	leave   []func()

	hooks.Background
}

// told is what the events of a task have told of a volume.
type told struct {
	state    string
	since    int64     // of the state, by the wall clock of the monitor
	seen     time.Time // when this process saw that state first: the wall clock may be set meanwhile
	abnormal bool
	cutting  bool
	ordered  bool // the restart of this process
}

// Name implements hooks.Task.
func (*illness) Name() string { return "volume_health" }

// Up implements hooks.Task. The mounts of the task are repaired before.
func (*illness) Up(context.Context, *hooks.TaskEnv) error { return nil }

// Down implements hooks.Task.
func (*illness) Down(context.Context) error { return nil }

// Started implements hooks.Started.
func (i *illness) Started(ctx context.Context, task hooks.Control) {
	for _, w := range i.volumes {
		i.told[w.VolumeKey].ordered = false
		i.leave = append(i.leave, i.of.Healer.Enter(i.of.healKey(w)))
	}
	i.Begin(ctx, func(ctx context.Context) { i.watch(ctx, task) })
}

// Stopped implements hooks.Started.
func (i *illness) Stopped() {
	i.Background.Stopped()
	for _, leave := range i.leave {
		leave()
	}
	i.leave = nil
}

// watch follows the mounts of the task until ctx ends.
func (i *illness) watch(ctx context.Context, task hooks.Control) {
	for ctx.Err() == nil {
		changed := i.of.Healer.Health.Changed()
		next := maxLook
		for _, w := range i.volumes {
			i.tellCondition(task, w)
			next = min(next, i.look(ctx, task, w))
		}

		timer := time.NewTimer(next)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// look tells of a change of a mount, and acts on it. It returns the time until the next look at the latest.
func (i *illness) look(ctx context.Context, task hooks.Control, w *requiredVolume) time.Duration {
	h := i.of
	state := h.Healer.Health.State(w.Usage(), h.alloc.ID)
	t := i.told[w.VolumeKey]
	if state.State != t.state {
		i.tell(task, w, &state)
		t.state = state.State
		t.cutting = false
	}
	if state.Since != t.since {
		t.since = state.Since
		t.seen = time.Now()
	}

	switch {
	case t.ordered || !heals(w.request, state.State):
		return maxLook
	case state.State != storage.MountHung:
		t.ordered = true
		task.RestartNow(i.reason(task, w, &state))
		return maxLook
	case t.cutting:
		return maxLook
	}

	left := time.Until(t.seen.Add(h.Healer.CutAfter)) // a monotonic clock
	if left > 0 {
		return left
	}
	t.cutting = true
	i.cut(ctx, task, w)
	return maxLook
}

// tell makes the event of a new state.
func (i *illness) tell(task hooks.Control, w *requiredVolume, state *storage.MountHealth) {
	if !state.Ill() {
		i.of.emit(task.Emit, w, "the mount is healthy again")
		return
	}
	since := time.Unix(0, state.Since).UTC().Format(time.RFC3339)
	i.of.emit(task.Emit, w, "%s: %s, since %s", sentence[state.State], state.Reason, since)
}

var sentence = map[string]string{
	storage.MountDead:     "the mount does not answer",
	storage.MountHung:     "the mount hangs",
	storage.MountReadOnly: "the mount cannot be written any more",
	storage.MountGone:     "the mount is gone",
}

// reason tells why the task restarts. A process keeps the mount that it was started with, in the mount
// namespace that it has, so also republish needs its restart.
func (i *illness) reason(task hooks.Control, w *requiredVolume, state *storage.MountHealth) string {
	if w.request.OnDeadMount == storage.DeadMountRepublish {
		i.of.emit(task.Emit, w, `on_dead_mount = "republish" restarts the task: it does not see new mounts `+
			`of the host`)
	}
	return fmt.Sprintf("volume %s: the node mounts it again, because the mount is %s: %s", w.aliases[0],
		state.State, state.Reason)
}

// cut ends the connection of a mount that hangs. The mount is dead then.
func (i *illness) cut(ctx context.Context, task hooks.Control, w *requiredVolume) {
	h := i.of
	h.emit(task.Emit, w, "the mount has hung for %s: the node ends its connection", h.Healer.CutAfter)
	target, _ := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
	err := h.Healer.Cut(ctx, target)
	if err != nil && ctx.Err() == nil {
		h.emit(task.Emit, w, "the mount that hangs stays: %v", err)
	}
}

// tellCondition tells when the plugin begins or ends to report a volume as abnormal.
func (i *illness) tellCondition(task hooks.Control, w *requiredVolume) {
	c := i.of.Healer.Health.Condition(w.Usage())
	t := i.told[w.VolumeKey]
	abnormal := c != nil && c.Abnormal
	if abnormal == t.abnormal {
		return
	}
	t.abnormal = abnormal
	if abnormal {
		i.of.emit(task.Emit, w, "the plugin reports it as abnormal: %s", c.Message)
		return
	}
	i.of.emit(task.Emit, w, "the plugin does not report it as abnormal any more")
}
