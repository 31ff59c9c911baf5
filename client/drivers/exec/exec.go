// Package exec is the task driver with isolation. A program runs in a private root, made of the host's own
// directories (read-only) and the task's, with its own process tree, ipc and host name, in a cgroup. Unless
// it is privileged, it has no capabilities and system calls that reach beyond these. It shares users with the
// host, and the network unless its allocation has one. It starts with the host's name (programs look up their
// own name) unless the job gives one.
//
// The root has /local, /secrets and /alloc, /tmp (the task's, on disk), /run, and the agent's executable as
// /run/berth/bin/berth, which is last in PATH. The root itself is read-only. The program starts there without
// a work_dir. A supervisor keeps the processes that a driver starts: see package executor.
package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/client/drivers/seccomp"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Name is the driver's name in jobs.
const Name = "exec"

// Config has the operator's settings.
type Config struct {
	// ChrootEnv maps paths of the host to the paths at which every task sees them, read-only. A path that
	// does not exist is ignored. nil selects the usual places of programs, their libraries and their
	// settings.
	ChrootEnv map[string]string `hcl:"chroot_env"`
	// Hidden are files and directories of the host that tasks without privileges see empty. A path that does
	// not exist is ignored. nil selects the private files of a machine in /etc.
	Hidden []string `hcl:"hidden"`
	// OwnFiles are files and directories of the agent, such as its configuration and its keys. They are
	// hidden besides Hidden, each file with its directory. The agent fills them in.
	OwnFiles []string
	executor.CgroupConfig
	// MaxFiles is the number of files that a task may have open, up to the machine's hard limit.
	MaxFiles int `hcl:"max_open_files"`
	// Seccomp is SeccompDefault or SeccompUnconfined.
	Seccomp string `hcl:"seccomp"`
}

// The values of Config.Seccomp.
const (
	SeccompDefault    = "default"    // tasks without privileges make the calls that container engines allow
	SeccompUnconfined = "unconfined" // a task makes any call, and root in a task can leave its limits
)

// DefaultConfig returns a Config without missing settings.
func DefaultConfig() Config {
	c := Config{
		ChrootEnv:    map[string]string{},
		CgroupConfig: executor.DefaultCgroupConfig(),
		MaxFiles:     65536,
		Seccomp:      SeccompDefault,
		Hidden:       slices.Clone(defaultHidden),
	}
	for _, dir := range []string{
		"/bin", "/etc", "/lib", "/lib32",
		"/lib64", "/libx32", "/sbin", "/usr",
	} {
		c.ChrootEnv[dir] = dir
	}
	return c
}

// withDefaults fills in missing settings, except for the cgroup, which executor fills in.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	// nil is a missing setting. An empty one shows or hides nothing.
	if c.ChrootEnv == nil {
		c.ChrootEnv = d.ChrootEnv
	}
	if c.Hidden == nil {
		c.Hidden = d.Hidden
	}
	c.MaxFiles = cmp.Or(c.MaxFiles, d.MaxFiles)
	c.Seccomp = cmp.Or(c.Seccomp, d.Seccomp)
	return c
}

// ownPaths lists the directories that the sandbox makes. A path of chroot_env in the place of one would hide
// it, or be hidden by it.
var ownPaths = []string{
	"/", "/proc", "/sys", "/dev", "/run",
	"/tmp", "/local", "/secrets", "/alloc",
}

// Validate names every fault. Missing settings have defaults.
func (c Config) Validate() error {
	faults := c.Faults(Name)
	for _, from := range slices.Sorted(maps.Keys(c.ChrootEnv)) {
		to := c.ChrootEnv[from]
		if !isCleanPath(from) {
			faults = append(faults,
				fmt.Errorf("exec.chroot_env: %q: expected an absolute path of this machine", from))
		}

		if !isCleanPath(to) || slices.Contains(ownPaths, to) {
			faults = append(faults,
				fmt.Errorf("exec.chroot_env[%q]: %q: expected an absolute path that tasks do not have their own of", from, to))
		}
	}

	faults = append(faults, c.hiddenFaults()...)
	if c.MaxFiles != 0 && c.MaxFiles < 64 {
		faults = append(faults,
			fmt.Errorf("exec.max_open_files: %d: expected at least 64", c.MaxFiles))
	}

	switch c.Seccomp {
	case "", SeccompDefault, SeccompUnconfined:
	default:
		faults = append(faults,
			fmt.Errorf("exec.seccomp: %q: expected %q or %q",
				c.Seccomp, SeccompDefault, SeccompUnconfined))
	}

	return structs.InvalidAll(faults)
}

func isCleanPath(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path
}

// Driver implements driver.Driver.
type Driver struct {
	*executor.Tasks
	// cfg has no missing settings: see withDefaults.
	cfg   Config
	trial trial
}

// New makes the driver.
func New(cfg Config, ex executor.Config) *Driver { return NewNamed(Name, cfg, ex) }

// NewNamed makes a driver with another name, for a driver that is built on this one.
func NewNamed(name string, cfg Config, ex executor.Config) *Driver {
	return &Driver{Tasks: executor.NewSandboxes(name, ex, cfg.CgroupConfig), cfg: cfg.withDefaults()}
}

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(ctx context.Context) *structs.DriverInfo {
	err := sandbox.Supported()
	if err == nil && d.cfg.Seccomp == SeccompDefault {
		err = seccomp.Supported()
	}
	if err != nil {
		return notIsolated(err)
	}

	// Files and links may change while the agent runs, so each fingerprint looks again, as each start does.
	_, err = d.cfg.hiddenPaths(d.cfg.shownPaths())
	if err != nil {
		return &structs.DriverInfo{UpdateTime: time.Now(), HealthDescription: err.Error()}
	}

	err = d.trial.result(ctx, d.trySandbox)
	if err != nil {
		return notIsolated(err)
	}
	return d.Healthy()
}

// notIsolated is the fingerprint of a machine on which each task would fail.
func notIsolated(err error) *structs.DriverInfo {
	return &structs.DriverInfo{
		UpdateTime:        time.Now(),
		HealthDescription: "tasks cannot be isolated on this machine: " + err.Error(),
	}
}

// Validate implements driver.Driver.
func (d *Driver) Validate(config map[string]any) error {
	c, err := executor.DecodeCommand(config)
	// A reference has its value only on the node: Start checks that.
	if err != nil || nodecalls.HasReference(c.WorkDir) {
		return err
	}
	return checkWorkDir(c)
}

func decodeCommand(config map[string]any) (*executor.Command, error) {
	c, err := executor.DecodeCommand(config)
	if err != nil {
		return nil, err
	}
	return c, checkWorkDir(c)
}

func checkWorkDir(c *executor.Command) error {
	if c.WorkDir == "" || filepath.IsAbs(c.WorkDir) {
		return nil
	}
	return structs.Invalidf(
		"config.work_dir: %q: expected an absolute path inside the task", c.WorkDir)
}

// Start implements driver.Driver.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	command, err := decodeCommand(cfg.Config)
	if err != nil {
		return nil, err
	}

	box, err := d.sandboxOf(cfg, command)
	if err != nil {
		return nil, err
	}

	spec := d.NewSpec(cfg)
	err = d.limitDevices(spec, cfg)
	if err != nil {
		return nil, err
	}

	box.Program.Filter, err = d.filter()
	if err != nil {
		return nil, err
	}

	box.HostPaths, box.Hidden, err = d.visible(cfg)
	if err != nil {
		return nil, err
	}

	spec.Sandbox = box
	return d.Launch(ctx, spec)
}

// sandboxOf returns the sandbox of a task, without the system call filter and the paths of the host. It gives
// the directories of the task to its user.
func (d *Driver) sandboxOf(cfg *driver.TaskConfig, command *executor.Command) (*sandbox.Config, error) {
	user, err := executor.LookupUser(cmp.Or(cfg.User, defaultUser))
	if err != nil {
		return nil, err
	}

	binds, err := d.binds(cfg, user)
	if err != nil {
		return nil, err
	}

	files, err := filesOf(cfg.Dirs.Task)
	if err != nil {
		return nil, err
	}

	// A job may set another directory.
	env := map[string]string{"TMPDIR": "/tmp"}
	maps.Copy(env, cfg.Env)
	return &sandbox.Config{
		Root:       d.DirOf(cfg.ID),
		Files:      files,
		Binds:      binds,
		Hostname:   hostnameOf(cfg),
		Privileged: cfg.Privileged,
		Program: sandbox.Program{
			Driver:   d.Name(),
			Where:    "in the task's root",
			Command:  command.Command,
			Args:     command.Args,
			Env:      executor.Environ(env, driver.Inside, defaultPath, binDir),
			Dir:      cmp.Or(command.WorkDir, "/"),
			User:     user,
			Restrict: !cfg.Privileged,
			Seccomp:  d.cfg.Seccomp == SeccompDefault,
			NoFile:   uint64(d.cfg.MaxFiles),
		},
	}, nil
}

// limitDevices restricts a task without privileges to its devices, where the machine can do so.
func (d *Driver) limitDevices(spec *executor.Spec, cfg *driver.TaskConfig) error {
	rules, err := deviceRules(cfg.Mounts)
	if err != nil {
		return err
	}

	// Without the means the task has all devices of its /dev: Healthy tells operators.
	if spec.Cgroup != nil && !cfg.Privileged && d.RestrictsDevices() {
		spec.Cgroup.Limits.Devices = rules
	}
	return nil
}

// filter returns the bound on the system calls of tasks without privileges, nil for none.
func (d *Driver) filter() (sandbox.Filter, error) {
	if d.cfg.Seccomp != SeccompDefault {
		return nil, nil
	}

	// The filter of a privileged task is not installed: see Program.Restrict.
	return seccomp.Restricted()
}

const (
	defaultUser = "0:0" // root: see ADR 74
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	binDir      = "/run/berth/bin"
)

// ProgramPath returns a place in the roots of tasks for a mount of a program, which is in their PATH.
func ProgramPath(name string) string { return binDir + "/" + name }
