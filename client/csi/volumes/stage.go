package volumes

import (
	"context"
	"fmt"

	"berth/client/store"
	"berth/csi"
)

// stageVolume calls NodeStageVolume unless the plugin has no such step or the volume is staged already. An
// inline volume has no such step.
func (w *volumeWork) stageVolume(u *Use) error {
	if u.Inline || !w.conn.Info.NodeInfo.RequiresNodeStageVolume ||
		w.isStaged() {
		return nil
	}

	s := w.recordStaging(u)
	path, err := w.pluginPath(s.path())
	if err != nil {
		return err
	}

	call := func(ctx context.Context, conn *Conn) error {
		err := w.makeDir(s.path()) // the record of the call precedes it
		if err != nil {
			return fmt.Errorf("making its staging directory: %w", err)
		}
		return conn.NodeStageVolume(ctx, &csi.StageRequest{
			Use:         u.forPlugin(),
			StagingPath: path,
		})
	}

	// The record tells of the success as soon as the call's record is gone: a later Down has to know that the
	// step has succeeded.
	var unread error
	c := u.call("NodeStageVolume", path)
	c.After = func() []store.Change {
		unread = w.seeStaged(s)
		return []store.Change{stageChange(s)}
	}

	err = w.callPlugin(c, call)
	if err != nil {
		return fmt.Errorf("staging: %w", err)
	}
	return unread
}

// recordStaging records that the volume is about to be staged. A record of an earlier try stays, with the use
// and the driver of this one.
func (w *volumeWork) recordStaging(u *Use) *stageRecord {
	if w.stage == nil {
		w.stage = &stageRecord{
			Namespace:  u.Namespace,
			VolumeID:   u.ID,
			PluginID:   u.PluginID,
			ExternalID: u.ExternalID,
			Dir:        w.publish.Dir,
		}
	}

	s := w.stage
	s.State = staging
	s.Use = useDigest(u)
	s.Provider = w.conn.Info.Provider
	s.Timeout = u.Timeout
	w.writeLater(stageChange(s))
	return s
}

// seeStaged sets the record of a volume that the plugin has staged. With an error of the mount table the
// state stays staging, and the next try repeats the call.
func (w *volumeWork) seeStaged(s *stageRecord) error {
	s.BootID = w.boot
	err := w.rereadMounts()
	if err != nil {
		return err
	}

	target := w.hostPath(s.path())
	s.State = staged
	s.Mounted = w.table.Mounted(target)
	s.Writable = s.Mounted && !w.table.ReadOnly(target)
	return nil
}
