package volumes

import (
	"context"
	"fmt"
	"time"

	"berth/client/csi/content"
	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/csi"
	"berth/structs"
)

// maxStacked bounds the repeats of one undo call. A plugin that is not idempotent may have mounted several
// times on the same path.
const maxStacked = 8

// Down releases a volume of an allocation, by the records alone: it unpublishes the volume, and unstages it
// if no other allocation on this node uses it. It tries each step once. The caller repeats it. Without an
// error nothing is left on the node, and the record says so until Forget.
func (v *Volumes) Down(ctx context.Context, k VolumeKey, allocID string) error {
	return v.down(ctx, k, allocID, 0)
}

// down is Down with a timeout of the calls, 0 for the use's.
func (v *Volumes) down(ctx context.Context, k VolumeKey, allocID string, timeout time.Duration) error {
	err := v.tryDown(ctx, k, allocID, timeout)
	if err != nil {
		return fmt.Errorf("volume %s: %w", k, err)
	}
	return nil
}

// tryDown is one Down. It waits for the plugin before it takes the lock of the volume, so that a plugin that
// is away holds nothing else up.
func (v *Volumes) tryDown(ctx context.Context, k VolumeKey, allocID string, timeout time.Duration) error {
	conn, err := v.connFor(ctx, k, allocID)
	if err != nil {
		return err
	}

	release, err := v.seq.Acquire(ctx, k.String(), "taking it from the allocation")
	if err != nil {
		return err
	}
	defer release()

	w, err := v.loadWork(ctx, conn, k, allocID)
	if err != nil {
		return err
	}

	w.setTimeout(timeout)
	// connFor has read the records before the lock was taken: they may have changed since.
	if plugin := w.needsPlugin(); plugin != "" && conn == nil {
		return structs.Unavailablef("plugin %q: its use has changed meanwhile", plugin)
	}

	if w.publish != nil && w.publish.mayBePublished() {
		if err := w.unpublishVolume(); err != nil {
			return err
		}
	}

	// An earlier try may have unpublished the volume and not unstaged it.
	if len(w.users) == 0 && w.stage != nil {
		if err := w.unstageVolume(); err != nil {
			return err
		}
	}

	if w.publish == nil || !w.publish.holds() {
		return nil
	}

	// The record stays until the servers know: see Forget.
	w.publish.State = released
	return w.store.putPublish(w.publish)
}

// setTimeout gives the calls of the work the timeout that came with its request. 0 leaves the use's.
func (w *volumeWork) setTimeout(timeout time.Duration) {
	if timeout != 0 && w.publish != nil {
		w.publish.Timeout = timeout
	}
	if timeout != 0 && w.stage != nil {
		w.stage.Timeout = timeout
	}
}

// connFor waits for the plugin that Down needs, before it locks the volume. It returns nil if Down needs
// none.
func (v *Volumes) connFor(ctx context.Context, k VolumeKey, allocID string) (*Conn, error) {
	w, err := v.loadRecords(ctx, nil, k, allocID)
	if err != nil {
		return nil, err
	}
	plugin := w.needsPlugin()
	if plugin == "" {
		return nil, nil
	}
	return v.m.Client(ctx, structs.CSIKindNode, plugin)
}

// needsPlugin names the plugin that has to be called to release the volume, "" for none.
func (w *volumeWork) needsPlugin() string {
	switch {
	case w.publish != nil && w.publish.mayBePublished():
		return w.publish.PluginID
	case len(w.users) == 0 && w.stage != nil:
		return w.stage.PluginID
	}
	return ""
}

// unpublishVolume makes the plugin take the volume from the target path. The state before the call is on
// disk, so that after a crash the next Down repeats it.
func (w *volumeWork) unpublishVolume() error {
	p := w.publish
	rel := p.target()
	err := content.ReleaseFolders(mounts.FoldersOf(w.hostPath(rel)))
	if err != nil {
		return err
	}
	// The mount goes with the call, so this is the last look at it.
	p.TurnedReadOnly = p.TurnedReadOnly ||
		p.Writable && w.table.ReadOnly(w.hostPath(rel))
	p.State = unpublishing
	if err := w.store.putPublish(p); err != nil {
		return err
	}

	err = w.undoUntilUnmounted(&undo{
		Call: Call{
			PluginID: p.PluginID,
			Volume:   p.ExternalID,
			RPC:      "NodeUnpublishVolume",
			Timeout:  p.Timeout,
		},
		send: (*csi.Client).NodeUnpublishVolume,
		rel:  rel,
		provable: p.Mounted || p.BootID != w.boot ||
			!mounts.Exists(w.hostPath(rel)),
	})
	if err != nil {
		return fmt.Errorf("unpublishing: %w", err)
	}

	w.removeDirs(w.hostPath(rel),
		w.hostPath(mounts.TargetParent(p.Dir, p.AllocID)))

	// unstageVolume removes the directory of a staged volume.
	if w.stage == nil && len(w.users) == 0 {
		w.removeDirs(w.hostPath(p.Dir))
	}

	// From here on nothing is published; the volume may still be staged.
	p.State = claimed
	p.Mounted = false
	return w.store.putPublish(p)
}

// unstageVolume is called when no allocation has the volume published here any more (CSI spec,
// NodeUnstageVolume).
func (w *volumeWork) unstageVolume() error {
	s := w.stage
	s.State = unstaging
	if err := w.store.putStage(s); err != nil {
		return err
	}

	rel := s.path()
	err := w.undoUntilUnmounted(&undo{
		Call: Call{
			PluginID: s.PluginID,
			Volume:   s.ExternalID,
			RPC:      "NodeUnstageVolume",
			Timeout:  s.Timeout,
		},
		send:     (*csi.Client).NodeUnstageVolume,
		rel:      rel,
		provable: s.Mounted || s.BootID != w.boot,
	})
	if err != nil {
		return fmt.Errorf("unstaging: %w", err)
	}

	w.removeDirs(w.hostPath(rel), w.hostPath(s.Dir))
	// The record goes last: after a crash before this, the next Down repeats the call.
	err = w.store.deleteStage(w.key)
	if err != nil {
		return err
	}

	w.stage = nil
	return nil
}

// undo is a call that takes a volume back from one path.
type undo struct {
	Call // without Where, which undoUntilUnmounted sets
	send func(c *csi.Client, ctx context.Context, volumeID, path string) error
	rel  string // the path, relative to the root
	// provable: the mount table can prove that nothing is left. A mount was seen, or the step never succeeded
	// under this boot of the kernel.
	provable bool
}

// undoUntilUnmounted repeats a call until the mount table shows no mount at the path. The plugin's answer
// alone does not suffice. Not-found means that the plugin does not know the volume, not that it has undone
// anything. It counts as success only if the mount table proves it.
func (w *volumeWork) undoUntilUnmounted(u *undo) error {
	path, err := w.pluginPath(u.rel)
	if err != nil {
		return err
	}

	u.Where = path
	onHost := w.hostPath(u.rel)
	parkable := registry.ParkedCall{Volume: w.key.String(), RPC: u.RPC, Path: onHost}
	call := w.unlessParked(parkable, func(ctx context.Context, conn *Conn) error {
		return u.send(conn.Client, ctx, u.Volume, path)
	})
	for range maxStacked {
		err := w.callPlugin(u.Call, call)
		gone := u.provable && structs.IsKind(err, structs.KindNotFound)
		if err != nil && !gone {
			return err
		}

		if err := w.rereadMounts(); err != nil {
			return err
		}

		if !w.table.Mounted(onHost) {
			return nil
		}
	}

	return structs.Unavailablef(
		"plugin %q: %s reported success, but %s is still mounted", u.PluginID, u.RPC, onHost)
}

// removeDirs removes directories that berth made, and targets that a plugin left, if they are empty.
func (w *volumeWork) removeDirs(paths ...string) {
	err := mounts.Remove(paths...)
	if err != nil {
		w.logger.Debug("failed to remove a directory",
			"volume_id", w.key.ID, "namespace", w.key.Namespace, "error", err)
	}
}
