package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"berth/plugins/hostpath/disk"
)

// reconcile repairs the effects of a crash. It logs a repair that fails: the record stays, and a later call
// retries. Only an unreadable data directory is an error.
func (d *driver) reconcile() error {
	foreign := 0
	for _, v := range d.store.Volumes.List() {
		err := d.reconcileVolume(v)
		d.logFault("failed to repair a volume", "volume_id", v.ID, err)
		// They stay. Either the node has got another ID, or the directory belongs to another node.
		if d.otherNodeError(v.ID) != nil {
			foreign++
		}
	}

	if foreign > 0 {
		d.logger.Warn("found volumes of another node id",
			"volumes", foreign, "node_id", d.cfg.NodeID)
	}

	d.groupService().Reconcile(func(id string, err error) {
		d.logger.Info("removing a half-made group snapshot", "group_snapshot_id", id)
		d.logFault("failed to remove a half-made group snapshot", "group_snapshot_id", id, err)
	})
	for _, n := range d.store.Snapshots.List() {
		if n.State != disk.Ready {
			d.logger.Info("removing a half-made snapshot",
				"snapshot_id", n.ID, "state", n.State)
			err := d.eraseSnapshot(n)
			d.logFault("failed to remove a half-made snapshot", "snapshot_id", n.ID, err)
		}
	}

	removeBare(d, d.store.Volumes)
	removeBare(d, d.store.Snapshots)
	removeBare(d, d.store.Groups)
	return d.sweepTemps()
}

func (d *driver) logFault(message, key, value string, err error) {
	if err != nil {
		d.logger.Error(message, key, value, "error", err)
	}
}

func (d *driver) reconcileVolume(v *disk.Volume) error {
	if v.State != disk.Ready {
		d.logger.Info("removing a half-made volume",
			"volume_id", v.ID, "state", v.State)
		return d.eraseVolume(v)
	}

	_, err := os.Stat(d.dataOf(v))
	if err != nil {
		return err
	}

	// The mounts of an earlier boot are gone, and so are its devices.
	if v.BootID != "" && v.BootID != disk.BootID() {
		v = v.EditCopy()
		err = d.saveVolume(v)
		if err != nil {
			return err
		}
	}

	if v.Type == disk.Directory {
		return nil
	}

	// By the record nothing uses the image, so a device that shows it is left over.
	if v.Stage == nil && len(v.Targets) == 0 {
		return disk.DetachLoop(d.dataOf(v))
	}

	return d.thawStaged(v)
}

// thawStaged thaws a file system that was frozen for a copy when the driver was killed.
func (d *driver) thawStaged(v *disk.Volume) error {
	if v.Stage == nil || v.Stage.Use.Block {
		return nil
	}
	shown, err := d.shownAt(v, v.Stage.Path)
	if err != nil || !shown {
		return err
	}
	return disk.Thaw(v.Stage.Path)
}

// removeBare removes directories that were made for a row that was never recorded. They are empty. It keeps a
// directory with content or with an unreadable record for an operator.
func removeBare[R disk.Row](d *driver, rows *disk.Table[R]) {
	for _, name := range rows.Bare {
		path := rows.Path(name)
		err := os.Remove(rows.Path(name, disk.RecordFile+".tmp"))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(path)
		}
		d.logFault("failed to remove a leftover", "path", path, err)
	}
	for _, name := range rows.Bad {
		d.logger.Error("failed to read a record, keeping its data",
			"path", rows.Path(name))
	}
}

// sweepTemps removes the files with which disk.CanReflink tests the file system.
func (d *driver) sweepTemps() error {
	entries, err := os.ReadDir(d.store.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), disk.ReflinkPrefix) {
			err := os.Remove(filepath.Join(d.store.Dir, e.Name()))
			d.logFault("failed to remove a leftover", "path", e.Name(), err)
		}
	}
	return nil
}
