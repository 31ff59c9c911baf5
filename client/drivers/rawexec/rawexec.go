// Package rawexec is the task driver that does not isolate: a program runs as the agent does, sees all the
// host has, and is bound only by its cgroup. It is off unless the operator enables it. The task still has
// a supervisor, kept logs, an exact exit result, and an end: every process it leaves is killed.
package rawexec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"berth/client/driver"
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

// DefaultConfig is off.
func DefaultConfig() Config {
	return Config{CgroupConfig: executor.DefaultCgroupConfig()}
}

// Validate names every fault.
func (c Config) Validate() error { return structs.InvalidAll(c.Faults(Name)) }

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
		return &structs.DriverInfo{UpdateTime: time.Now(), HealthDescription: howToEnable}
	}
	return d.Healthy()
}

// Validate implements driver.Driver.
func (d *Driver) Validate(config map[string]any) error {
	_, err := executor.DecodeCommand(config)
	return err
}

// Start implements driver.Driver. Mounts cannot be made without a root to make them in, and are refused.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	if !d.cfg.Enabled {
		return nil, structs.Preconditionf("raw_exec is %s", howToEnable)
	}
	command, err := executor.DecodeCommand(cfg.Config)
	if err != nil {
		return nil, err
	}
	if len(cfg.Mounts) > 0 {
		return nil, structs.Invalidf(
			"raw_exec cannot mount %s into the task: it has no root of its own; use the exec driver",
			cfg.Mounts[0].TaskPath)
	}
	user, err := executor.LookupUser(cfg.User)
	if err != nil {
		return nil, err
	}
	if err := giveDirs(cfg.Dirs, user); err != nil {
		return nil, err
	}
	spec := d.NewSpec(cfg)
	spec.Program = &sandbox.Program{
		Driver:  Name,
		Where:   "on this machine",
		Command: command.Command,
		Args:    command.Args,
		Env:     executor.Environ(cfg.Env, cfg.Dirs, os.Getenv("PATH"), filepath.Dir(d.Executable())),
		Dir:     workDir(cfg, command),
		User:    user,
	}
	return d.Launch(ctx, spec)
}

// giveDirs makes the user the owner of the task's own directories and opens those on the way there to it.
func giveDirs(dirs driver.Dirs, user *sandbox.User) error {
	return errors.Join(executor.GiveDirs(dirs, user, executor.OwnTmp),
		executor.OpenTo(filepath.Dir(dirs.Task), user), executor.OpenTo(dirs.Task, user))
}

// workDir is the task's directory, or relative to it.
func workDir(cfg *driver.TaskConfig, c *executor.Command) string {
	if filepath.IsAbs(c.WorkDir) {
		return c.WorkDir
	}
	return filepath.Join(cfg.Dirs.Task, c.WorkDir)
}
