// Package rawexec is the task driver without isolation: a program runs as the agent does, sees the whole
// host, and has no bound except its cgroup. It is off unless the operator enables it. The task has a
// supervisor, logs and an exact exit result. After its end the supervisor kills all processes that it
// left. It is small because a driver is a package of its own, and package executor does its work.
package rawexec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"berth/client/drivers/driver"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/structs"
)

// Name is the driver's name in jobs.
const Name = "raw_exec"

// Config has the operator's settings.
type Config struct {
	Enabled bool `hcl:"enabled"`
	executor.CgroupConfig
}

// DefaultConfig returns the Config of a disabled driver.
func DefaultConfig() Config {
	return Config{CgroupConfig: executor.DefaultCgroupConfig()}
}

// Validate names every fault.
func (c Config) Validate() error {
	return structs.InvalidAll(c.Faults(Name))
}

// Driver implements driver.Driver.
type Driver struct {
	*executor.Tasks
	cfg Config
}

// New makes the driver.
func New(cfg Config, ex executor.Config) *Driver {
	return &Driver{executor.NewTasks(Name, ex, cfg.CgroupConfig), cfg}
}

const howToEnable = "disabled: tasks would not be isolated; " +
	"enable it with raw_exec { enabled = true } in the client's drivers"

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(context.Context) *structs.DriverInfo {
	if !d.cfg.Enabled {
		return &structs.DriverInfo{
			UpdateTime:        time.Now(),
			HealthDescription: howToEnable,
		}
	}
	return d.Healthy()
}

// HostPaths reports that tasks see the paths of the host.
func (d *Driver) HostPaths() bool { return true }

// Validate implements driver.Driver.
func (d *Driver) Validate(config map[string]any) error {
	_, err := executor.DecodeCommand(config)
	return err
}

// Start implements driver.Driver. It rejects mounts, because the task has no root of its own. The devices of
// the host are at their paths already.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	if !d.cfg.Enabled {
		return nil, structs.Preconditionf("raw_exec is %s", howToEnable)
	}

	command, err := executor.DecodeCommand(cfg.Config)
	if err != nil {
		return nil, err
	}

	err = checkMounts(cfg.Mounts)
	if err != nil {
		return nil, err
	}

	user, err := executor.LookupUser(cfg.User)
	if err != nil {
		return nil, err
	}

	if err := giveDirs(cfg.Dirs, user); err != nil {
		return nil, err
	}

	// The agent's executable is last in the PATH of tasks, as with exec.
	bin := filepath.Dir(d.Executable())
	spec := d.NewSpec(cfg)
	spec.Program = &sandbox.Program{
		Driver:  Name,
		Where:   "on this machine",
		Command: command.Command,
		Args:    command.Args,
		Env:     executor.Environ(cfg.Env, cfg.Dirs, os.Getenv("PATH"), bin),
		Dir:     workDir(cfg, command),
		User:    user,
	}

	return d.Launch(ctx, spec)
}

// checkMounts accepts only devices that the task finds at their paths without a mount.
func checkMounts(mounts []driver.Mount) error {
	for _, m := range mounts {
		if !m.Device || !sameFile(m.HostPath, m.TaskPath) {
			return structs.Invalidf(
				"raw_exec cannot mount %s into the task: it has no root of its own; use the exec driver",
				m.TaskPath)
		}
	}
	return nil
}

// sameFile reports whether two paths of the host lead to one file.
func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// giveDirs makes the user the owner of the task's own directories, and opens the directories above them.
func giveDirs(dirs driver.Dirs, user *sandbox.User) error {
	alloc := filepath.Dir(dirs.Task)
	return errors.Join(
		sandbox.GiveTaskDirs(dirs, user, sandbox.OwnTmp),
		sandbox.OpenTaskDir(alloc, user),
		sandbox.OpenTaskDir(dirs.Task, user))
}

// workDir returns the working directory. A relative one is below the task's directory.
func workDir(cfg *driver.TaskConfig, c *executor.Command) string {
	if filepath.IsAbs(c.WorkDir) {
		return c.WorkDir
	}
	return filepath.Join(cfg.Dirs.Task, c.WorkDir)
}
