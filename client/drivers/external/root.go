package external

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/drivers/taskdirs"
	"berth/structs"
)

// mounts returns what the plugin mounts into the task. A driver that makes a root of the task's directory
// expects to find programs there, so it gets the host's, read-only, and the directory of the allocation.
func (d *Driver) mounts(cfg *driver.TaskConfig, can *protocol.DriverCapabilities) ([]*protocol.Mount, error) {
	var all []*protocol.Mount
	if can.GetFsIsolation() == protocol.DriverCapabilities_CHROOT {
		for _, from := range slices.Sorted(maps.Keys(d.cfg.Chroot)) {
			if _, err := os.Stat(from); err == nil {
				all = append(all, mountOf(driver.Mount{
					HostPath: from,
					TaskPath: d.cfg.Chroot[from],
					ReadOnly: true,
				}))
			}
		}

		if d.cfg.Covers != nil {
			covers, err := d.cfg.Covers()
			if err != nil {
				return nil, err
			}
			for _, m := range covers {
				all = append(all, mountOf(m))
			}
		}

		all = append(all, mountOf(driver.Mount{
			HostPath: cfg.Dirs.AllocShared,
			TaskPath: driver.Inside.AllocShared,
		}))
	}

	for _, m := range cfg.Mounts {
		if m.Device {
			continue
		}

		if can.GetMountConfigs() == protocol.DriverCapabilities_NO_MOUNTS {
			return nil, structs.Invalidf("the driver %q cannot mount %s into the task", d.name, m.TaskPath)
		}

		all = append(all, mountOf(m))
	}

	return all, nil
}

// seesHost reports whether a task sees the paths of the host, perhaps only a part of them.
func seesHost(can *protocol.DriverCapabilities) bool {
	isolation := can.GetFsIsolation()
	return isolation == protocol.DriverCapabilities_NONE || isolation == protocol.DriverCapabilities_UNVEIL
}

// openDirs makes the task's own directories usable for its user. Only the driver knows the user of a task
// that names none, or one of its image. So a task with a root of its own has directories that are open to
// all users: the closed directory of the allocation, above them, keeps the other users of the host out.
func openDirs(cfg *driver.TaskConfig, of taskUser, can *protocol.DriverCapabilities) error {
	if !seesHost(can) {
		return errors.Join(
			taskdirs.SetMode(cfg.Dirs.Task, 0o755),
			taskdirs.SetMode(cfg.Dirs.Local, 0o777),
			taskdirs.SetMode(cfg.Dirs.Secrets, 0o777),
			taskdirs.OpenSecretFiles(cfg.Dirs.Secrets))
	}
	user, err := of.find()
	if err != nil {
		return err
	}
	return errors.Join(
		taskdirs.Give(cfg.Dirs, user, taskdirs.OwnTmp),
		taskdirs.OpenTo(filepath.Dir(cfg.Dirs.Task), user),
		taskdirs.OpenTo(cfg.Dirs.Task, user))
}
