// Package exec is the task driver that isolates: a program in a root of its own, made of the host's own
// directories (read-only) and the task's, with its own process tree, ipc and host name, in a cgroup, and
// unless it is privileged without the capabilities that reach beyond that. Network and users are the
// host's, and so is the host name it starts with (programs look their own name up).
//
// Inside are /local, /secrets and /alloc, /tmp (the task's, on disk), /run, and the agent's executable as
// /run/berth/bin/berth, which is last in PATH. The root itself is read-only; it is where the program
// starts if there is no work_dir. What a driver starts, a supervisor keeps: see package executor.
package exec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"berth/client/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/structs"
)

// Name is what a job calls the driver.
const Name = "exec"

// Config is the operator's say.
type Config struct {
	// HostDirs are shown read-only in every task, those that exist.
	HostDirs []string `hcl:"host_dirs"`
	// CgroupParent is the cgroup below which each task has its own.
	CgroupParent string `hcl:"cgroup_parent"`
	// MaxFiles is how many files a task may have open, as far as the machine's hard limit allows.
	MaxFiles int `hcl:"max_open_files"`
}

// DefaultConfig shows the directories that programs and their libraries are in.
func DefaultConfig() Config {
	return Config{
		HostDirs:     []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"},
		CgroupParent: executor.DefaultCgroupParent,
		MaxFiles:     65536,
	}
}

// own are the directories that the sandbox makes itself.
var own = []string{"/", "/proc", "/sys", "/dev", "/run", "/tmp", "/local", "/secrets", "/alloc"}

// Validate names every fault.
func (c Config) Validate() error {
	var faults []string
	for i, d := range c.HostDirs {
		if !filepath.IsAbs(d) || filepath.Clean(d) != d || slices.Contains(own, d) {
			faults = append(faults, fmt.Sprintf("exec.host_dirs[%d]: %q: expected the absolute path of a directory that tasks do not have their own of", i, d))
		}
	}
	if p := c.CgroupParent; p == "" || p != filepath.Clean(p) || strings.HasPrefix(p, "/") || strings.HasPrefix(p, "..") {
		faults = append(faults, fmt.Sprintf("exec.cgroup_parent: %q: expected a name such as %q", p, executor.DefaultCgroupParent))
	}
	if c.MaxFiles < 64 {
		faults = append(faults, fmt.Sprintf("exec.max_open_files: %d: expected at least 64", c.MaxFiles))
	}
	if len(faults) > 0 {
		return structs.Errorf(structs.KindInvalid, "%s", strings.Join(faults, "\n"))
	}
	return nil
}

// Driver implements driver.Driver.
type Driver struct {
	*executor.Tasks
	cfg        Config
	executable string
	limits     executor.Limiter
}

// New makes the driver. The executor's Command[0] is the agent's executable.
func New(cfg Config, ex executor.Config) *Driver {
	return &Driver{
		Tasks: executor.NewTasks(ex), cfg: cfg, executable: ex.Command[0],
		limits: executor.Limiter{Parent: cfg.CgroupParent},
	}
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return Name }

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(context.Context) *structs.DriverInfo {
	info := &structs.DriverInfo{UpdateTime: time.Now()}
	if err := sandbox.Supported(); err != nil {
		info.HealthDescription = "tasks cannot be isolated on this machine: " + err.Error()
		return info
	}
	used, lacking := d.limits.Describe()
	info.Detected, info.Healthy, info.HealthDescription = true, true, "Healthy"
	if lacking != "" {
		info.HealthDescription = "Healthy, but " + lacking
	}
	info.Attributes = map[string]string{"driver.exec": "1", "driver.exec.cgroups": used}
	return info
}

// Validate implements driver.Driver.
func (d *Driver) Validate(config map[string]any) error {
	c, err := executor.DecodeCommand(config)
	if err == nil && c.WorkDir != "" && !filepath.IsAbs(c.WorkDir) {
		err = structs.Errorf(structs.KindInvalid, "config.work_dir: %q: expected an absolute path inside the task", c.WorkDir)
	}
	return err
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	if err := d.Validate(cfg.Config); err != nil {
		return nil, err
	}
	box, err := d.sandbox(cfg)
	if err != nil {
		return nil, err
	}
	return d.Launch(ctx, &executor.Spec{
		TaskID: cfg.ID, Driver: Name, Cgroup: d.limits.Cgroup(cfg.Resources), Sandbox: box, Logs: executor.LogsOf(cfg),
	})
}

func (d *Driver) sandbox(cfg *driver.TaskConfig) (*sandbox.Config, error) {
	user, err := executor.LookupUser(cfg.User)
	if err != nil {
		return nil, err
	}
	if user == nil {
		user = &sandbox.User{}
	}
	binds, err := d.binds(cfg, user)
	if err != nil {
		return nil, err
	}
	command, err := executor.DecodeCommand(cfg.Config)
	if err != nil {
		return nil, err
	}
	return &sandbox.Config{
		Root:     filepath.Join(d.DirOf(cfg.ID), executor.RootDir),
		HostDirs: d.cfg.HostDirs, Binds: binds, Privileged: cfg.Privileged,
		Program: sandbox.Program{
			Driver: Name, Where: "the task's root", Command: command.Command, Args: command.Args,
			Env: environ(cfg.Env), Dir: firstOf(command.WorkDir, "/"), User: user,
			Restrict: !cfg.Privileged, NoFile: uint64(d.cfg.MaxFiles),
		},
	}, nil
}

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	binDir      = "/run/berth/bin"
)

// environ adds what only the driver knows: where in the task its directories are.
func environ(env map[string]string) []string {
	all := map[string]string{"HOME": "/local", "TMPDIR": "/tmp"}
	for k, v := range env {
		all[k] = v
	}
	all["BERTH_ALLOC_DIR"], all["BERTH_TASK_DIR"], all["BERTH_SECRETS_DIR"] = "/alloc", "/local", "/secrets"
	return executor.Environ(all, defaultPath, binDir)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// binds are the task's own directories, then what the job mounts, outer paths first.
func (d *Driver) binds(cfg *driver.TaskConfig, user *sandbox.User) ([]sandbox.Bind, error) {
	tmp := filepath.Join(cfg.Dirs.Task, "tmp")
	if err := os.MkdirAll(tmp, 0o777); err != nil {
		return nil, err
	}
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		return nil, err
	}
	binds := []sandbox.Bind{
		{Source: tmp, Target: "/tmp"},
		{Source: cfg.Dirs.AllocShared, Target: "/alloc"},
		{Source: cfg.Dirs.Local, Target: "/local"},
		{Source: cfg.Dirs.Secrets, Target: "/secrets"},
		{Source: d.executable, Target: binDir + "/berth", ReadOnly: true},
	}
	if dir := resolverDir(d.cfg.HostDirs); dir != "" {
		binds = append(binds, sandbox.Bind{Source: dir, Target: dir, ReadOnly: true})
	}
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets} {
		if err := giveTo(dir, user); err != nil {
			return nil, err
		}
	}
	mounts, err := jobMounts(cfg.Mounts)
	return append(binds, mounts...), err
}

// giveTo gives a task's directory to its user.
func giveTo(dir string, user *sandbox.User) error {
	if user.UID == 0 && user.GID == 0 {
		return nil
	}
	return os.Chown(dir, int(user.UID), int(user.GID))
}

// resolverDir is where /etc/resolv.conf leads when it is a symlink out of what tasks see.
func resolverDir(hostDirs []string) string {
	real, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return "" // the host resolves no names either
	}
	for _, d := range hostDirs {
		if strings.HasPrefix(real, d+"/") {
			return ""
		}
	}
	return filepath.Dir(real)
}

var propagations = map[string]string{
	"": sandbox.Private, "private": sandbox.Private,
	"host-to-task": sandbox.HostToTask, "bidirectional": sandbox.Bidirectional,
}

func jobMounts(mounts []driver.Mount) ([]sandbox.Bind, error) {
	var binds []sandbox.Bind
	for _, m := range mounts {
		p, ok := propagations[m.Propagation]
		if !ok {
			return nil, structs.Errorf(structs.KindInvalid, "mount %s: propagation %q: expected private, host-to-task or bidirectional", m.TaskPath, m.Propagation)
		}
		if !filepath.IsAbs(m.TaskPath) || filepath.Clean(m.TaskPath) == "/" {
			return nil, structs.Errorf(structs.KindInvalid, "mount %q: expected an absolute path inside the task", m.TaskPath)
		}
		if err := checkSource(m); err != nil {
			return nil, err
		}
		binds = append(binds, sandbox.Bind{
			Source: m.HostPath, Target: filepath.Clean(m.TaskPath), ReadOnly: m.ReadOnly, Propagation: p, Device: m.Device,
		})
	}
	slices.SortStableFunc(binds, func(a, b sandbox.Bind) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	return binds, nil
}

// checkSource refuses what would seem to work and then not do what was asked.
func checkSource(m driver.Mount) error {
	info, err := os.Stat(m.HostPath)
	if err != nil {
		return structs.Errorf(structs.KindPrecondition, "mount %s: %w", m.TaskPath, err)
	}
	if m.Device && info.Mode()&os.ModeDevice == 0 {
		return structs.Errorf(structs.KindPrecondition, "mount %s: %s is not a device", m.TaskPath, m.HostPath)
	}
	if m.Propagation != "bidirectional" {
		return nil
	}
	shared, err := onShared(m.HostPath)
	if err == nil && !shared {
		err = structs.Errorf(structs.KindPrecondition, "mount %s: %s is not on a shared mount, so mounts made by the task could not be seen by the host", m.TaskPath, m.HostPath)
	}
	return err
}

// onShared reports whether what is mounted below the path propagates.
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
	for _, m := range mounts { // of mounts on one place the last one counts
		if deepest == nil || len(m.Mountpoint) >= len(deepest.Mountpoint) {
			deepest = m
		}
	}
	return deepest != nil && strings.Contains(deepest.Optional, "shared:"), nil
}
