package hostconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/structs"
)

// Bind is a mount of a path of the host. Without a propagation the daemon chooses: private, or rslave for a
// path above its own directory, for which it rejects any private one.
func Bind(source, target string, propagation mount.Propagation) mount.Mount {
	m := mount.Mount{
		Type:   mount.TypeBind,
		Source: source,
		Target: target,
	}
	if propagation != "" {
		m.BindOptions = &mount.BindOptions{Propagation: propagation}
	}
	return m
}

// AddMounts adds the task's directories, its volumes and devices, and the mounts of its config. The error
// says what of the task does not fit, or what it lacks on this machine.
func AddMounts(h *container.HostConfig, cfg *driver.TaskConfig, want *taskconfig.Task) error {
	h.Mounts = append(h.Mounts,
		Bind(cfg.Dirs.AllocShared, driver.Inside.AllocShared, ""),
		Bind(cfg.Dirs.Local, driver.Inside.Local, ""),
		Bind(cfg.Dirs.Secrets, driver.Inside.Secrets, ""))
	for _, m := range cfg.Mounts {
		err := addOne(h, m)
		if err != nil {
			return err
		}
	}

	for _, dev := range want.Devices {
		h.Devices = append(h.Devices, container.DeviceMapping{
			PathOnHost:        dev.HostPath,
			PathInContainer:   cmp.Or(dev.ContainerPath, dev.HostPath),
			CgroupPermissions: cmp.Or(dev.Permissions, "rwm"),
		})
	}

	for _, v := range want.Volumes {
		m, err := volumeMount(cfg, v)
		if err != nil {
			return err
		}

		h.Mounts = append(h.Mounts, m)
	}

	for _, w := range want.Mounts {
		m, err := configMount(cfg, w)
		if err != nil {
			return err
		}

		h.Mounts = append(h.Mounts, m)
	}

	return CheckTargets(h)
}

// CheckTargets rejects two mounts on one path: the daemon would take one of them.
func CheckTargets(h *container.HostConfig) error {
	seen := map[string]bool{}
	for i := range h.Mounts {
		target := filepath.Clean(h.Mounts[i].Target)
		if _, isTmpfs := h.Tmpfs[target]; isTmpfs || seen[target] {
			return structs.Invalidf("docker: two mounts of the task have the path %s", target)
		}
		seen[target] = true
	}
	return nil
}

// Private is left out: see Bind.
var propagationOf = map[string]mount.Propagation{
	"":              "",
	"private":       "",
	"host-to-task":  mount.PropagationRSlave,
	"bidirectional": mount.PropagationRShared,
}

// addOne adds a volume or a device of the task.
func addOne(h *container.HostConfig, m driver.Mount) error {
	if !filepath.IsAbs(m.TaskPath) || filepath.Clean(m.TaskPath) == "/" {
		return structs.Invalidf("mount %q: expected an absolute path inside the task", m.TaskPath)
	}

	info, err := os.Stat(m.HostPath) // the daemon's answer to a missing path would be final
	if err != nil {
		return structs.Preconditionf("mount %s: %w", m.TaskPath, err)
	}

	if m.Device {
		if info.Mode()&os.ModeDevice == 0 {
			return structs.Preconditionf("mount %s: %s is not a device", m.TaskPath, m.HostPath)
		}
		return addDevice(h, m)
	}

	propagation, ok := propagationOf[m.Propagation]
	if !ok {
		return structs.Invalidf("mount %s: propagation %q: expected private, host-to-task or bidirectional",
			m.TaskPath, m.Propagation)
	}

	b := Bind(m.HostPath, filepath.Clean(m.TaskPath), propagation)
	b.ReadOnly = m.ReadOnly
	h.Mounts = append(h.Mounts, b)
	return nil
}

func addDevice(h *container.HostConfig, m driver.Mount) error {
	permissions := cmp.Or(m.Permissions, "rwm")
	if m.ReadOnly {
		permissions = "r"
	}

	if strings.Trim(permissions, "rwm") != "" {
		return structs.Invalidf("mount %s: the permissions %q are not any of rwm", m.TaskPath, permissions)
	}

	h.Devices = append(h.Devices, container.DeviceMapping{
		PathOnHost:        m.HostPath,
		PathInContainer:   filepath.Clean(m.TaskPath),
		CgroupPermissions: permissions,
	})

	return nil
}

// checkMounts names the mounts that the node does not allow. Paths in the task's directory are allowed on
// every node.
func checkMounts(c taskconfig.VolumeConfig, want *taskconfig.Task) []error {
	if c.Enabled || want.Privileged {
		return nil
	}

	const remedy = "this node lets jobs mount only what is in the task's directory " +
		"(volumes { enabled } in the client's drivers { docker { } })"
	var faults []error
	for _, v := range want.Volumes {
		if filepath.IsAbs(v.Source) {
			faults = append(faults, fmt.Errorf("config.volumes: %q: %s", v.Source, remedy))
		}
	}

	for _, m := range want.Mounts {
		if m.Type == taskconfig.MountBind && filepath.IsAbs(m.Source) {
			faults = append(faults, fmt.Errorf("config.mount %q: %s", m.Source, remedy))
		}

		if m.Driver != "" || len(m.DriverOpts) > 0 {
			faults = append(faults, fmt.Errorf("config.mount %q: driver_config: %s", m.Target, remedy))
		}

		// It may belong to anybody, and outlives the task.
		if m.Type == taskconfig.MountVolume && m.Source != "" {
			faults = append(faults,
				fmt.Errorf("config.mount %q: the volume %q: %s", m.Target, m.Source, remedy))
		}
	}

	return faults
}

// volumeMount is the mount of an element of `volumes`. A missing directory of the task is made.
func volumeMount(cfg *driver.TaskConfig, v taskconfig.Volume) (mount.Mount, error) {
	readOnly := false
	propagation := mount.Propagation("")
	for mode := range strings.SplitSeq(v.Mode, ",") {
		p := mount.Propagation(mode)
		switch {
		// The daemon's other modes are accepted, and have no effect on a bind mount.
		case mode == "ro":
			readOnly = true
		case slices.Contains(mount.Propagations, p):
			propagation = p
		}
	}

	source, err := hostPath(cfg, v.Source, true)
	if err == nil && !readOnly {
		err = checkWritable(cfg, source)
	}
	if err != nil {
		return mount.Mount{}, fmt.Errorf("config.volumes: %q: %w", v.Source, err)
	}

	m := Bind(source, filepath.Clean(v.Target), propagation)
	m.ReadOnly = readOnly
	return m, nil
}

// configMount is the mount of a `mount` block.
func configMount(cfg *driver.TaskConfig, w taskconfig.Mount) (mount.Mount, error) {
	m := mount.Mount{
		Type:     mount.Type(w.Type),
		Source:   w.Source,
		Target:   filepath.Clean(w.Target),
		ReadOnly: w.ReadOnly,
	}

	switch w.Type {
	case taskconfig.MountBind:
		source, err := hostPath(cfg, w.Source, false)
		if err == nil && !w.ReadOnly {
			err = checkWritable(cfg, source)
		}
		if err != nil {
			return m, fmt.Errorf("config.mount: %q: %w", w.Source, err)
		}

		m = Bind(source, m.Target, mount.Propagation(w.Propagation))
		m.ReadOnly = w.ReadOnly

	case taskconfig.MountTmpfs:
		m.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: w.TmpfsSize, Mode: os.FileMode(w.TmpfsMode)}
	default:
		m.VolumeOptions = &mount.VolumeOptions{NoCopy: w.NoCopy, Labels: w.Labels}
		if w.Driver != "" || len(w.DriverOpts) > 0 {
			m.VolumeOptions.DriverConfig = &mount.Driver{Name: w.Driver, Options: w.DriverOpts}
		}
	}

	return m, nil
}

// hostPath returns the path that the daemon mounts. A relative one is in the task's directory, and must not
// lead out of it. missing says that a missing directory is made.
func hostPath(cfg *driver.TaskConfig, path string, missing bool) (string, error) {
	if filepath.IsAbs(path) {
		_, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && missing {
			err = os.MkdirAll(path, 0o755)
		}
		if err != nil {
			return "", structs.Preconditionf("%w", err) // the daemon's answer would be final
		}

		return filepath.Clean(path), nil
	}

	// The task may have put links there. This root follows none that leads out.
	root, err := os.OpenRoot(cfg.Dirs.Task)
	if err != nil {
		return "", err
	}
	defer root.Close()

	_, err = root.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && missing {
		err = root.MkdirAll(path, 0o755)
	}

	if errors.Is(err, fs.ErrNotExist) {
		return "", structs.Preconditionf("it is not in the task's directory")
	}
	if err != nil {
		return "", structs.Deniedf("it leads out of the task's directory: %w", err)
	}

	// The daemon follows links by itself, so it gets a path without any. A link that was changed since is
	// seen here.
	real, err := filepath.EvalSymlinks(filepath.Join(cfg.Dirs.Task, path))
	if err != nil {
		return "", structs.Preconditionf("%w", err)
	}

	return real, within(cfg.Dirs.Task, real)
}

// checkWritable rejects a mount for writing of the directory in which the agent makes the task's directories.
// The task could put links in their place, and the next start would follow them.
func checkWritable(cfg *driver.TaskConfig, source string) error {
	own, err := filepath.EvalSymlinks(cfg.Dirs.Task)
	if err == nil && source == own {
		err = structs.Deniedf("it is the task's directory itself, which a task may mount read-only; " +
			"mount a directory in it, such as local")
	}
	return err
}

// within reports a path that is not in a directory, after all symbolic links.
func within(dir, path string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(real, path)
	if err != nil || !filepath.IsLocal(rel) {
		return structs.Deniedf("it leads out of the task's directory")
	}
	return nil
}
