package csimanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"berth/client/mounts"
	"berth/structs"
)

// maxStacked is how often a plugin is asked to undo one thing. One that is not idempotent may have
// mounted several times on the same place.
const maxStacked = 8

// Down takes a volume from an allocation: unpublished, and unstaged when no other allocation on this node
// uses it, by the book alone. Each step is tried once: whoever calls tries again. When it returns without
// an error nothing is left on the node, and the record says so until Forget.
func (v *Volumes) Down(ctx context.Context, k VolumeKey, allocID string) error {
	if err := v.down(ctx, k, allocID); err != nil {
		return fmt.Errorf("volume %s: %w", k, err)
	}
	return nil
}

func (v *Volumes) down(ctx context.Context, k VolumeKey, allocID string) error {
	conn, err := v.connFor(ctx, k, allocID)
	if err != nil {
		return err
	}
	release, err := acquire(ctx, &v.seq, k.String(), "taking it from the allocation")
	if err != nil {
		return err
	}
	defer release()
	w, err := v.load(ctx, conn, k, allocID)
	if err != nil {
		return err
	}
	if plugin := w.needsPlugin(); plugin != "" && conn == nil {
		return structs.Errorf(structs.KindUnavailable, "plugin %q: its use has changed meanwhile", plugin)
	}
	if w.publish != nil && w.publish.touched() {
		if err := w.unpublishVolume(); err != nil {
			return err
		}
	}
	if len(w.users) == 0 && w.stage != nil {
		if err := w.unstageVolume(); err != nil {
			return err
		}
	}
	if w.publish == nil || !w.publish.holds() {
		return nil
	}
	w.publish.State = released
	return w.book.putPublish(w.publish)
}

// connFor waits for the plugin that Down will need, before the volume is locked; nil if it needs none.
func (v *Volumes) connFor(ctx context.Context, k VolumeKey, allocID string) (*Conn, error) {
	w, err := v.load(ctx, nil, k, allocID)
	if err != nil {
		return nil, err
	}
	plugin := w.needsPlugin()
	if plugin == "" {
		return nil, nil
	}
	return v.m.Client(ctx, structs.CSIKindNode, plugin)
}

// needsPlugin names the plugin that has to be called to let go of the volume, "" for none.
func (w *work) needsPlugin() string {
	switch {
	case w.publish != nil && w.publish.touched():
		return w.publish.PluginID
	case len(w.users) == 0 && w.stage != nil:
		return w.stage.PluginID
	}
	return ""
}

func (w *work) unpublishVolume() error {
	p := w.publish
	rel := targetPath(p.Dir, p.AllocID)
	p.TurnedReadOnly = p.TurnedReadOnly || p.Writable && w.table.ReadOnly(w.host(rel))
	p.State = unpublishing
	if err := w.book.putPublish(p); err != nil {
		return err
	}
	path, err := w.inPlugin(rel)
	if err != nil {
		return err
	}
	provable := p.Mounted || p.BootID != w.boot || !exists(w.host(rel))
	plugin, volume := p.PluginID, p.ExternalID
	name := undoCall{w.key, "NodeUnpublishVolume", w.host(rel)}
	call := w.unlessParked(name, func(ctx context.Context, conn *Conn) error {
		return conn.NodeUnpublishVolume(ctx, volume, path)
	})
	err = w.undo(name.rpc, plugin, name.path, provable, func() error {
		return w.call(name.rpc, plugin, volume, path, call)
	})
	if err != nil {
		return fmt.Errorf("unpublishing: %w", err)
	}
	w.remove(w.host(rel), w.host(targetParent(p.Dir, p.AllocID)))
	if w.stage == nil && len(w.users) == 0 {
		w.remove(w.host(p.Dir))
	}
	// From here on there is nothing to unpublish any more, only perhaps to unstage.
	p.State, p.Mounted = claimed, false
	return w.book.putPublish(p)
}

func (w *work) unstageVolume() error {
	s := w.stage
	s.State = unstaging
	if err := w.book.putStage(s); err != nil {
		return err
	}
	rel := stagePath(s.Dir)
	path, err := w.inPlugin(rel)
	if err != nil {
		return err
	}
	provable := s.Mounted || s.BootID != w.boot
	plugin, volume := s.PluginID, s.ExternalID
	name := undoCall{w.key, "NodeUnstageVolume", w.host(rel)}
	call := w.unlessParked(name, func(ctx context.Context, conn *Conn) error {
		return conn.NodeUnstageVolume(ctx, volume, path)
	})
	err = w.undo(name.rpc, plugin, name.path, provable, func() error {
		return w.call(name.rpc, plugin, volume, path, call)
	})
	if err != nil {
		return fmt.Errorf("unstaging: %w", err)
	}
	w.remove(w.host(rel), w.host(s.Dir))
	if err := w.book.deleteStage(w.key); err != nil {
		return err
	}
	w.stage = nil
	return nil
}

// undo asks until nothing is mounted at the path any more: a plugin's word alone is not enough. Not-found
// says that the plugin does not know the volume, not that it has undone anything. It is taken for that only
// where the mount table can prove it: something was seen mounted and is gone, or the step never succeeded
// under this boot of the kernel.
func (w *work) undo(rpc, pluginID, path string, provable bool, ask func() error) error {
	for range maxStacked {
		err := ask()
		if err != nil && (!structs.IsKind(err, structs.KindNotFound) || !provable) {
			return err
		}
		if err := w.reread(); err != nil {
			return err
		}
		if !w.table.Mounted(path) {
			return nil
		}
	}
	return structs.Errorf(structs.KindUnavailable, "plugin %q: %s: it answers that this is done, but %s is still mounted", pluginID, rpc, path)
}

// exists reports whether there is something at a path, without looking into it.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// remove removes what is left of directories that berth made, and of targets that a plugin forgot, as
// far as they are empty. What is not empty is not ours to remove.
func (w *work) remove(paths ...string) {
	for _, path := range paths {
		if err := mounts.Remove(path); err != nil {
			w.logger.Debug("a directory is left behind", "volume", w.key.String(), "path", path, "error", err)
			return
		}
	}
}
