package devices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
)

// HookConfig has the parts of the agent that the hook needs.
type HookConfig struct {
	// Reserve prepares devices for an allocation (see devices.Manager).
	Reserve Reserve
	// Holder returns another allocation of this node that has not ended and keeps one of the devices of the
	// allocation, "" if there is none.
	Holder func(a *structs.Allocation) (allocID string)
	// Progress receives the reason for which an allocation waits, "" once it no longer waits.
	Progress func(allocID, reason string)
}

// Reserve is the type of devices.Manager.Reserve.
type Reserve func(
	ctx context.Context, alloc string, held []*structs.AllocatedDeviceResource,
) (*Reservation, error)

type deviceHook struct {
	cfg  HookConfig
	task string
}

// NewHook gives a task its devices before it starts: the device files, mounts and variables that the device
// plugins name. A task waits while an earlier allocation of this node, which is about to end, has one of the
// devices: the servers give a device on when they stop an allocation, not when it has ended.
//
// The hook is nil for a task without devices.
func NewHook(cfg HookConfig, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if len(env.Alloc.Devices[task.Name]) == 0 {
		return nil
	}
	return &deviceHook{cfg, task.Name}
}

func (d *deviceHook) Name() string { return "devices" }

// Up adds the devices to the configuration of the task. A variable of the devices replaces one of the job,
// because a device works only with its own. A process that runs since before the agent restarted has its
// devices, and keeps them also if they are gone: it must not make the other hooks of its task wait.
func (d *deviceHook) Up(ctx context.Context, env *hooks.TaskEnv) error {
	if env.Running {
		return nil
	}

	await := hooks.Await{
		Holder:   d.cfg.Holder,
		Progress: d.cfg.Progress,
		Part:     "one of its devices",
	}

	err := await.End(ctx, env.Alloc)
	if err != nil {
		return err
	}

	r, err := d.cfg.Reserve(ctx, env.Alloc.ID, env.Alloc.Devices[d.task])
	if err != nil {
		return err
	}

	env.Config.DeviceEnv = r.Env
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		old, isSet := env.Task.Env[name]
		if isSet && old != r.Env[name] {
			warnOfVariable(env, name)
		}

		env.Config.Env[name] = r.Env[name]
	}

	addMounts(env.Config, r)
	return nil
}

// addMounts adds the files of a reservation to the mounts of a task. A device file is a mount, too.
func addMounts(c *driver.TaskConfig, r *Reservation) {
	for _, m := range r.Mounts {
		c.Mounts = append(c.Mounts, driver.Mount{
			HostPath: m.HostPath,
			TaskPath: m.TaskPath,
			ReadOnly: m.ReadOnly,
		})
	}

	for _, f := range r.Devices {
		c.Mounts = append(c.Mounts, driver.Mount{
			HostPath:    f.HostPath,
			TaskPath:    f.TaskPath,
			Device:      true,
			Permissions: f.Permissions,
		})
	}
}

// warnOfVariable records that a variable of the job has no effect. The event names no values, because a job
// may keep a secret in one.
func warnOfVariable(env *hooks.TaskEnv, name string) {
	env.Emit(&structs.TaskEvent{
		Type: structs.TaskEventHookMessage,
		Time: time.Now().UnixNano(),
		Message: fmt.Sprintf("Warning: the variable %s has the value of the task's devices, "+
			"not the value in the env of the task; remove it from the job", name),
	})
}

// Down has nothing to undo: a reservation ends with the task.
func (d *deviceHook) Down(context.Context) error { return nil }
