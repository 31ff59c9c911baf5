package external

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
	"berth/client/drivers/sandbox"
	"berth/structs"
)

// mounts returns what the plugin mounts into the task. A driver that makes a root of the task's directory
// expects to find programs there, so it gets the host's, read-only, and the directory of the allocation.
func (d *Driver) mounts(cfg *driver.TaskConfig, can *protocol.DriverCapabilities) ([]*protocol.Mount, error) {
	var all []*protocol.Mount
	if can.GetFsIsolation() == protocol.DriverCapabilities_CHROOT {
		shown, err := d.cfg.rootMounts(cfg)
		if err != nil {
			return nil, err
		}

		all = shown
	}

	// Devices go to the driver as devices: see devicesOf.
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

// rootMounts returns the mounts of a root that the driver makes of the task's directory. The covers follow
// what they cover, so that a driver that mounts in this order hides it.
func (c Config) rootMounts(cfg *driver.TaskConfig) ([]*protocol.Mount, error) {
	var all []*protocol.Mount
	for _, from := range slices.Sorted(maps.Keys(c.Chroot)) {
		if _, err := os.Stat(from); err == nil {
			all = append(all, mountOf(driver.Mount{
				HostPath: from,
				TaskPath: c.Chroot[from],
				ReadOnly: true,
			}))
		}
	}

	if c.Covers != nil {
		covers, err := c.Covers()
		if err != nil {
			return nil, err
		}
		for _, m := range covers {
			all = append(all, mountOf(m))
		}
	}

	return append(all, mountOf(driver.Mount{
		HostPath: cfg.Dirs.AllocShared,
		TaskPath: driver.Inside.AllocShared,
	})), nil
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
			sandbox.SetTaskDirMode(cfg.Dirs.Task, 0o755),
			sandbox.SetTaskDirMode(cfg.Dirs.Local, 0o777),
			sandbox.SetTaskDirMode(cfg.Dirs.Secrets, 0o777),
			sandbox.OpenSecretFiles(cfg.Dirs))
	}

	user, err := of.find()
	if err != nil {
		return err
	}

	// A task in the root of the host passes the directories above its own to reach them.
	return errors.Join(
		sandbox.GiveTaskDirs(cfg.Dirs, user, sandbox.OwnTmp),
		sandbox.OpenTaskDir(filepath.Dir(cfg.Dirs.Task), user),
		sandbox.OpenTaskDir(cfg.Dirs.Task, user))
}
