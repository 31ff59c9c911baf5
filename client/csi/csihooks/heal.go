package csihooks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/client/csi/mounts"
	"berth/client/csi/upkeep"
	"berth/client/hooks"
	"berth/csi"
	"berth/structs"
	"berth/structs/storage"
)

func (h *volumesHook) healKey(w *requiredVolume) upkeep.MountKey {
	return upkeep.MountKey{Volume: w.Usage(), AllocID: h.alloc.ID}
}

// heals reports whether the policy of a volume wants a state of its mount repaired. Without a policy that
// holds for mounts of which the tasks cannot use anything any more. A file system that has turned read-only
// still serves its readers, and one that hangs may answer again: they need the written word.
func heals(r *structs.VolumeRequest, state string) bool {
	switch state {
	case storage.MountDead, storage.MountGone:
		return r.OnDeadMount != storage.DeadMountIgnore
	case storage.MountReadOnly:
		return r.OnDeadMount == storage.DeadMountRestart
	case storage.MountHung:
		return cuts(r)
	}
	return false
}

// cuts reports whether the node may end the connection of a mount that hangs: only if no other node can use
// the volume, because requests that the server has got may still be carried out.
func cuts(r *structs.VolumeRequest) bool {
	return r.OnDeadMount == storage.DeadMountRestart && r.AccessMode.SingleNode()
}

// healer returns the repair of a volume before a start of a task, nil if nothing repairs it.
func (h *volumesHook) healer(w *requiredVolume) hooks.Healer {
	if h.Healer == nil || w.request.OnDeadMount == storage.DeadMountIgnore {
		return nil
	}
	return &repairer{h, w}
}

// repairer repairs one volume of an allocation. It implements hooks.Healer.
type repairer struct {
	of     *volumesHook
	volume *requiredVolume
}

// Heal implements hooks.Healer.
func (r *repairer) Heal(ctx context.Context, env *hooks.TaskEnv) error {
	ill, err := r.of.isIll(ctx, r.volume, !env.FirstStart)
	if err != nil || !ill {
		return err
	}
	return r.of.repair(ctx, r.volume, env.Emit)
}

// isIll reports whether a volume has to be repaired. A volume that is not published was being repaired.
// With look it looks at the mount now: it may be the reason for which the task has ended. A mount that
// hangs is not repaired before the hook of the task has ended its connection.
func (h *volumesHook) isIll(ctx context.Context, w *requiredVolume, look bool) (bool, error) {
	_, published, err := h.Volumes.Published(w.VolumeKey, h.alloc.ID)
	if err != nil || !published {
		return !published, err
	}
	state := h.Healer.Health.State
	if look {
		state = func(k storage.UsageKey, id string) storage.MountHealth {
			return h.Healer.Health.Check(ctx, k, id)
		}
	}
	found := state(w.Usage(), h.alloc.ID).State
	return found != storage.MountHung && heals(w.request, found), nil
}

// repair unmounts a volume and mounts it again, until that succeeds. It waits for the tasks of the allocation
// that have the mount. It returns an error if the plugin rejects the volume, or at the end of ctx.
func (h *volumesHook) repair(ctx context.Context, w *requiredVolume, emit func(*structs.TaskEvent)) error {
	k := h.healKey(w)
	said := ""
	for {
		err := h.Healer.AwaitUnused(ctx, k, func() bool {
			ill, err := h.isIll(ctx, w, false)
			return err == nil && !ill
		})
		if err != nil {
			return err
		}

		done, err := h.repairOnce(ctx, w, emit)
		if done || ctx.Err() != nil {
			return err
		}

		text := fmt.Sprintf("it is not mounted again yet, the node tries again: %v", err)
		h.Healer.Health.SetHealing(k.Volume, k.AllocID, text)
		h.setProgress("volume %s: %s", w.VolumeKey, text)
		if said != text {
			said = text
			h.emit(emit, w, "%s", text)
		}
	}
}

// repairTime bounds one try, so that a plugin that is away holds nothing up.
const repairTime = 2 * time.Minute

// repairOnce is one try. It reports whether no other one is to follow: the volume is well, or the plugin
// rejects it.
func (h *volumesHook) repairOnce(
	ctx context.Context, w *requiredVolume, emit func(*structs.TaskEvent),
) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	k := h.healKey(w)
	release, err := h.Healer.Lock(ctx, k)
	if err != nil {
		return false, err
	}
	defer release()

	ill, err := h.isIll(ctx, w, true)
	if err != nil || !ill {
		return err == nil, err
	}
	if !h.Healer.Pace(ctx, k) {
		return false, ctx.Err()
	}

	err = h.takeDown(ctx, w)
	if err != nil {
		return false, err
	}
	err = h.awaitStage(ctx, w)
	if err != nil {
		return false, err
	}

	m, err := h.mountOne(ctx, w, func() {})
	h.Progress(h.alloc.ID, "")
	if err != nil {
		return csi.Final(err), fmt.Errorf("mounting it again: %w", err)
	}
	h.Healer.Health.Renew(k.Volume, k.AllocID)
	err = h.giveAll(ctx, []*requiredVolume{w}, volumeMounts{w.VolumeKey: m})
	if err != nil {
		return true, err
	}
	h.emit(emit, w, "it is mounted again")
	return true, nil
}

// takeDown unmounts a volume for the allocation. The plugin does it. If it cannot, and the server of a mount
// is proven gone, the node detaches that, and the plugin is called again for its own records. The claim of
// the allocation stays.
func (h *volumesHook) takeDown(ctx context.Context, w *requiredVolume) error {
	err := h.Volumes.Down(ctx, w.VolumeKey, h.alloc.ID)
	if err == nil || ctx.Err() != nil {
		return err
	}

	target, stage := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
	detached := false
	if h.Healer.Health.Disconnected(ctx, target) {
		detached = true
		if failed := upkeep.Detach(target, mounts.FoldersOf(target)); failed != nil {
			return fmt.Errorf("%w, %w", err, failed)
		}
	}
	alone, failed := h.isAlone(w)
	if failed == nil && alone && h.Healer.Health.Disconnected(ctx, stage) {
		detached = true
		failed = upkeep.Detach(stage)
	}
	if failed != nil {
		return fmt.Errorf("%w, %w", err, failed)
	}
	if !detached {
		return err
	}
	return h.Volumes.Down(ctx, w.VolumeKey, h.alloc.ID)
}

// clearDead takes down volumes that an earlier agent was repairing, if their mounts are dead still: a
// plugin need not mount over a dead mount.
func (h *volumesHook) clearDead(ctx context.Context, required []*requiredVolume) error {
	if h.Healer == nil {
		return nil
	}
	for _, w := range required {
		users, err := h.Volumes.Users(w.VolumeKey)
		if err != nil || !slices.Contains(users, h.alloc.ID) {
			if err != nil {
				return err
			}
			continue
		}
		target, stage := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
		dead := h.Healer.Health.Disconnected(ctx, target) ||
			len(users) == 1 && h.Healer.Health.Disconnected(ctx, stage)
		if !dead {
			continue
		}
		if err := h.takeDown(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// isAlone reports whether no other allocation of the node has a record of a volume.
func (h *volumesHook) isAlone(w *requiredVolume) (bool, error) {
	users, err := h.Volumes.Users(w.VolumeKey)
	for _, id := range users {
		if id != h.alloc.ID {
			return false, err
		}
	}
	return true, err
}

// awaitStage returns an error while others keep the staged volume, and it is dead: nothing that is published
// from it would live. The last of them unstages it.
func (h *volumesHook) awaitStage(ctx context.Context, w *requiredVolume) error {
	_, stage := h.Volumes.MountPoints(w.VolumeKey, h.alloc.ID)
	table, err := mounts.Read()
	if err != nil || !table.Mounted(stage) {
		return err
	}
	state := h.Healer.Health.Check(ctx, w.Usage(), "")
	if state.State != storage.MountDead && state.State != storage.MountHung {
		return nil
	}
	return structs.Unavailablef("its staged mount is %s, and other allocations of the node still use it: "+
		"stop those that do not heal (on_dead_mount)", state.State)
}

// emit makes an event about a volume.
func (h *volumesHook) emit(emit func(*structs.TaskEvent), w *requiredVolume, format string, args ...any) {
	if emit == nil {
		return
	}
	text := structs.Cut(fmt.Sprintf(format, args...), structs.MaxText)
	emit(&structs.TaskEvent{
		Type:    structs.TaskEventVolume,
		Message: fmt.Sprintf("volume %s: %s", w.aliases[0], text),
	})
}
