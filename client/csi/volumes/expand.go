package volumes

import (
	"context"
	"fmt"

	"berth/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// A node expands a volume after the controller has expanded it (CSI spec, NodeExpandVolume): when it mounts
// the volume for an allocation, and, on the servers' request, while an allocation has it. The servers repeat
// the request until it has succeeded. A repeated call succeeds without a change.

// expandStaged expands a staged file system, before anything uses it.
func (w *volumeWork) expandStaged(u *Use) error {
	if w.stage == nil ||
		u.AttachmentMode != structs.CSIFileSystem || w.isPublished() {
		return nil
	}
	return w.expandFor(u)
}

// expandPublished expands a volume that can expand only where it is published.
func (w *volumeWork) expandPublished(u *Use) error {
	if w.stage != nil && u.AttachmentMode == structs.CSIFileSystem {
		return nil
	}
	return w.expandFor(u)
}

// growth is the result of an expansion.
type growth struct {
	capacity int64
	err      error
}

// expandFor fails only if the context ends. If the plugin does not expand the volume, its user gets the old
// size.
func (w *volumeWork) expandFor(u *Use) error {
	if u.ExpandBytes == 0 {
		return nil
	}
	capacity, err := w.expand(u)
	if err != nil && w.ctx.Err() != nil {
		return err
	}
	// Up passes the result on to the servers, which request the expansion again after a failure.
	w.grown = &growth{capacity, err}
	return nil
}

// expand returns the size that the plugin answers, 0 if it reports none or has nothing to grow on nodes.
func (w *volumeWork) expand(u *Use) (capacity int64, err error) {
	// The plugin has no EXPAND_VOLUME (CSI spec, NodeGetCapabilities): its controller does all.
	if !w.conn.Info.NodeInfo.SupportsExpand {
		return 0, nil
	}

	req := &csi.NodeExpandRequest{
		Use:      u.forPlugin(),
		Capacity: nodecalls.CSICapacityRange{RequiredBytes: u.ExpandBytes},
	}

	if w.stage != nil {
		req.StagingPath, err = w.pluginPath(w.stage.path())
		if err != nil {
			return 0, err
		}
	}

	// A read-only publication may not be expandable: a staged file system is expanded at its staging path.
	req.VolumePath = req.StagingPath
	if w.stage == nil || u.AttachmentMode != structs.CSIFileSystem {
		req.VolumePath, err = w.pluginPath(w.publish.target())
		if err != nil {
			return 0, err
		}
	}

	var grown int64 // of a call that was answered
	call := func(ctx context.Context, conn *Conn) (err error) {
		grown, err = conn.NodeExpandVolume(ctx, req)
		return err
	}
	err = w.callPlugin(u.call("NodeExpandVolume", req.VolumePath), call)
	if err != nil {
		return 0, fmt.Errorf("growing its content: %w", err)
	}

	return grown, nil
}

// Expand expands a volume that an allocation has on this node, to u.ExpandBytes. It is unavailable while the
// volume is not published for the allocation.
func (v *Volumes) Expand(ctx context.Context, u *Use) (capacity int64, err error) {
	conn, err := v.m.Client(ctx, structs.CSIKindNode, u.PluginID)
	if err != nil {
		return 0, err
	}

	release, err := v.seq.Acquire(ctx, u.VolumeKey.String(), "growing its content")
	if err != nil {
		return 0, err
	}
	defer release()

	w, err := v.loadWork(ctx, conn, u.VolumeKey, u.AllocID)
	if err != nil {
		return 0, err
	}

	if w.publish == nil || !w.isPublished() {
		return 0, structs.Unavailablef("volume %s is not mounted yet for allocation %s",
			u.VolumeKey, u.AllocID)
	}

	capacity, err = w.expand(u)
	if err != nil {
		return 0, fmt.Errorf("volume %s: %w", u.VolumeKey, err)
	}

	return capacity, nil
}
