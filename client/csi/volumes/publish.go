package volumes

import (
	"context"
	"fmt"
	"os"

	"berth/client/csi/mounts"
	"berth/client/store"
	"berth/csi"
	"berth/structs"
)

// callPublish marks the volume published in the transaction that drops the record of the call, if nothing is
// left to do.
func (w *volumeWork) callPublish(u *Use) error {
	p := w.publish
	target, err := w.pluginPath(p.target())
	if err != nil {
		return err
	}

	req := &csi.PublishRequest{
		Use:        u.forPlugin(),
		TargetPath: target,
		ReadOnly:   u.ReadOnly || u.AccessMode.ReaderOnly(),
	}

	if u.BeforePublish != nil {
		err := u.BeforePublish(w.ctx, w.conn.Registration, &req.Use)
		if err != nil {
			return unconfirmed{err}
		}
	}

	if w.stage != nil {
		req.StagingPath, err = w.pluginPath(w.stage.path())
		if err != nil {
			return err
		}
	}

	call := func(ctx context.Context, conn *Conn) error {
		err := w.makeDir(mounts.TargetParent(p.Dir, p.AllocID)) // the record of the call precedes it
		if err != nil {
			return fmt.Errorf("making the directory of its target: %w", err)
		}
		return conn.NodePublishVolume(ctx, req)
	}

	c := u.call("NodePublishVolume", target)
	c.After = func() []store.Change {
		// An expansion precedes the mark, and so does the error of a volume that the host does not see.
		if u.ExpandBytes > 0 || w.seePublished(u) != nil {
			return nil
		}
		return []store.Change{w.markPublished()}
	}

	return w.callPlugin(c, call)
}

// checkVisible returns an error if a task would find a directory of the host at the target instead of the
// volume.
func (w *volumeWork) checkVisible(u *Use, target string) error {
	if w.publish.Mounted || w.m.cfg.AcceptUnmounted {
		return nil
	}

	// A plugin may publish a device as a device node, without a mount.
	// The mode of a character device has both bits. It is no volume.
	if u.AttachmentMode == structs.CSIBlockDevice {
		fi, err := os.Lstat(target)
		if err == nil && fi.Mode()&os.ModeDevice != 0 &&
			fi.Mode()&os.ModeCharDevice == 0 {
			return nil
		}
	}
	return structs.Preconditionf(
		"plugin %q: NodePublishVolume: it answered that the volume is published, but the host sees nothing "+
			"mounted at %s: the plugin's mounts do not reach the host",
		u.PluginID, target)
}

// seePublished notes what the host sees of a published volume. It returns an error if that is not the volume.
func (w *volumeWork) seePublished(u *Use) error {
	if err := w.rereadMounts(); err != nil {
		return err
	}

	p := w.publish
	target := w.hostPath(p.target())
	p.Mounted = w.table.Mounted(target)
	p.Writable = p.Mounted && !w.table.ReadOnly(target) &&
		u.AttachmentMode == structs.CSIFileSystem
	return w.checkVisible(u, target)
}

func (w *volumeWork) markPublished() store.Change {
	w.publish.State = published
	w.publish.BootID = w.boot
	return publishChange(w.publish)
}

// publishVolume calls NodePublishVolume. It marks the volume as published when the host sees it and it has
// its size.
func (w *volumeWork) publishVolume(u *Use) error {
	if w.isPublished() {
		return nil
	}

	p := w.publish
	p.State = publishing
	w.writeLater(publishChange(p))
	err := w.callPublish(u)
	if csi.Code(err) == "FailedPrecondition" && w.stage != nil {
		// The plugin may have lost the staged volume (CSI spec, NodePublishVolume errors): stage again, once.
		// With this state isStaged is false, and stageVolume makes the call.
		w.stage.State = staging
		if err := w.stageVolume(u); err != nil {
			return err
		}

		err = w.callPublish(u)
	}
	if err != nil {
		return fmt.Errorf("publishing: %w", err)
	}

	// The success of the call has marked the volume.
	if p.State == published {
		return nil
	}

	if err := w.seePublished(u); err != nil {
		return err
	}

	if err := w.expandPublished(u); err != nil {
		return err
	}

	w.writeLater(w.markPublished())
	return w.flush()
}

// Republish calls NodePublishVolume again for a volume that is published for an allocation. A failure leaves
// the volume as it is. The error is a precondition if the volume is not published under the grant of the use.
func (v *Volumes) Republish(ctx context.Context, u *Use) error {
	conn, release, err := v.begin(ctx, u, "publishing it again")
	if err != nil {
		return err
	}
	defer release()

	w, err := v.loadWork(ctx, conn, u.VolumeKey, u.AllocID)
	if err != nil {
		return err
	}
	if w.publish == nil || !w.isPublished() || w.publish.Grant != u.Grant {
		return structs.Preconditionf("it is not published for the allocation any more")
	}
	return w.callPublish(u)
}
