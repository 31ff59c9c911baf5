package allocrunner

import (
	"context"
	"path"

	"berth/client/driver"
	"berth/client/hook"
	"berth/structs"
)

// volumeMounts is the task hook that turns a task's volume_mount blocks into mounts for its driver. The
// volumes themselves were made ready by hooks of the allocation.
type volumeMounts struct {
	task *task
}

// Name implements hook.Task.
func (*volumeMounts) Name() string { return "volume_mounts" }

// Up adds one mount for each block: read-only when the volume or the block says so.
func (h *volumeMounts) Up(_ context.Context, env *hook.TaskEnv) error {
	vars := h.task.expander()
	for _, m := range env.Task.VolumeMounts {
		alias := vars.expand(m.Volume)
		v, ok := env.Volume(alias)
		if !ok {
			return structs.Errorf(structs.KindInvalid, "volume_mount: the group has no volume %q that is ready", alias)
		}
		env.Config.Mounts = append(env.Config.Mounts, driver.Mount{
			HostPath:    v.HostPath,
			TaskPath:    path.Join("/", vars.expand(m.Destination)),
			ReadOnly:    v.ReadOnly || m.ReadOnly,
			Propagation: vars.expand(m.PropagationMode),
			Device:      v.Device,
		})
	}
	return nil
}

// Down does nothing: the mounts are the driver's, in a namespace that ends with the task.
func (*volumeMounts) Down(context.Context) error { return nil }
