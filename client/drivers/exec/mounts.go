package exec

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/drivers/sandbox"
	"berth/structs"
)

// binds returns the task's own directories, then the job's mounts, outer paths first.
func (d *Driver) binds(cfg *driver.TaskConfig, user *sandbox.User) ([]sandbox.Bind, error) {
	dirs := cfg.Dirs
	err := sandbox.GiveTaskDirs(dirs, user, sandbox.OpenTmp)
	if err != nil {
		return nil, err
	}

	binds := []sandbox.Bind{
		{Source: filepath.Join(dirs.Task, "tmp"), Target: "/tmp"},
		{Source: dirs.AllocShared, Target: driver.Inside.AllocShared},
		{Source: dirs.Local, Target: driver.Inside.Local},
		{Source: dirs.Secrets, Target: driver.Inside.Secrets},
		{Source: d.Executable(), Target: binDir + "/berth", ReadOnly: true},
	}

	// The mounts of the job come last: one on a directory of the task hides it.
	mounts, err := jobMounts(cfg.Mounts)
	return slices.Concat(binds, networkBinds(cfg.Network), mounts), err
}

// ownEntries are the directories of a task's root that show none of the files of the task's directory: binds
// and file systems of their own.
var ownEntries = []string{
	"local", "secrets", "tmp", "alloc", "proc", "sys", "dev", "run",
}

// filesOf returns the files and directories of a task's directory beside the task's own: templates and
// artifacts made them. A link would lead to a file of the host.
func filesOf(dir string) (paths []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		shown := e.IsDir() || e.Type().IsRegular()
		if shown && !slices.Contains(ownEntries, e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// networkBinds returns the files of the network of the task's allocation. A mount of the job on one of their
// places hides it.
func networkBinds(n *driver.Network) []sandbox.Bind {
	var binds []sandbox.Bind
	add := func(source, target string) {
		if source != "" {
			binds = append(binds, sandbox.Bind{
				Source:   source,
				Target:   realPath(target),
				ReadOnly: true,
			})
		}
	}
	if n != nil {
		add(n.Hosts, "/etc/hosts")
		add(n.Resolver, resolverFile)
	}
	return binds
}

// realPath follows the links of the host, which the task sees, too. A path that is not there stays.
func realPath(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return path
	}
	return real
}

// hostnameOf returns "" for the name of the host.
func hostnameOf(cfg *driver.TaskConfig) string {
	if cfg.Network == nil {
		return ""
	}
	return cfg.Network.Hostname
}

const resolverFile = "/etc/resolv.conf"

// resolverDir returns the target of /etc/resolv.conf if it is a symlink out of the visible paths.
func resolverDir(shown map[string]string) string {
	real, err := filepath.EvalSymlinks(resolverFile)
	if err != nil {
		return "" // the host has no file of name servers either
	}
	for from, to := range shown {
		// The link leads to the path on the host, so only a directory at its own path has the target.
		if from == to && strings.HasPrefix(real, from+"/") {
			return ""
		}
	}
	return filepath.Dir(real)
}

// propagations are the words of jobs. A missing one is private.
var propagations = map[string]string{
	"":              sandbox.Private,
	"private":       sandbox.Private,
	"host-to-task":  sandbox.HostToTask,
	"bidirectional": sandbox.Bidirectional,
}

// jobMounts converts the mounts of the job and checks what only the node knows: the sources.
func jobMounts(mounts []driver.Mount) ([]sandbox.Bind, error) {
	var binds []sandbox.Bind
	for _, m := range mounts {
		p, ok := propagations[m.Propagation]
		if !ok {
			return nil, structs.Invalidf(
				"mount %s: propagation %q: expected private, host-to-task or bidirectional",
				m.TaskPath, m.Propagation)
		}

		if !filepath.IsAbs(m.TaskPath) ||
			filepath.Clean(m.TaskPath) == "/" {
			return nil, structs.Invalidf("mount %q: expected an absolute path inside the task", m.TaskPath)
		}

		if err := checkSource(m); err != nil {
			return nil, err
		}

		binds = append(binds, sandbox.Bind{
			Source:      m.HostPath,
			Target:      filepath.Clean(m.TaskPath),
			ReadOnly:    m.ReadOnly,
			Propagation: p,
			Device:      m.Device,
		})
	}

	// An outer mount that comes later would hide an inner one.
	slices.SortStableFunc(binds, func(a, b sandbox.Bind) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return binds, nil
}

// deviceRules are the device files that a task may open: the standard ones and its own. A device that is
// mounted read-only cannot be written: the read-only mount of a device file alone would not prevent that.
func deviceRules(mounts []driver.Mount) ([]cgroups.DeviceRule, error) {
	rules := cgroups.StandardDevices()
	for _, m := range mounts {
		if !m.Device {
			continue
		}

		permissions := cmp.Or(m.Permissions, "rwm")
		if m.ReadOnly {
			permissions = "r"
		}
		rule, err := cgroups.RuleOf(m.HostPath, permissions)
		if err != nil {
			return nil, structs.Preconditionf("mount %s: %w", m.TaskPath, err)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// checkSource rejects a mount that would have another effect than the job asks for.
func checkSource(m driver.Mount) error {
	info, err := os.Stat(m.HostPath)
	if err != nil {
		return structs.Preconditionf("mount %s: %w", m.TaskPath, err)
	}

	if m.Device && info.Mode()&os.ModeDevice == 0 {
		return structs.Preconditionf("mount %s: %s is not a device", m.TaskPath, m.HostPath)
	}

	if m.Propagation != "bidirectional" {
		return nil
	}

	shared, err := onShared(m.HostPath)
	if err == nil && !shared {
		err = structs.Preconditionf(
			"mount %s: %s is not on a shared mount, so mounts made by the task could not be seen by the host",
			m.TaskPath, m.HostPath)
	}

	return err
}

// onShared reports whether mounts below the path propagate.
func onShared(path string) (bool, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}

	mounts, err := mountinfo.GetMounts(mountinfo.ParentsFilter(real))
	if err != nil {
		return false, err
	}

	var deepest *mountinfo.Info
	for _, m := range mounts { // the last mount on a path hides the others
		if deepest == nil ||
			len(m.Mountpoint) >= len(deepest.Mountpoint) {
			deepest = m
		}
	}
	return deepest != nil && strings.Contains(deepest.Optional, "shared:"), nil
}
