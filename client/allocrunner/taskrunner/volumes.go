package taskrunner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"berth/client/csi/mounts"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
)

// volumeMounts is the task hook that turns a task's volume_mount blocks into mounts for its driver. Hooks of
// the allocation have prepared the volumes.
type volumeMounts struct {
	builder *builder
}

// Name implements hooks.Task.
func (*volumeMounts) Name() string { return "volume_mounts" }

// errReadOnly is part of the error of a volume whose file system has turned read-only.
var errReadOnly = errors.New("its file system has turned read-only")

// Up adds one mount for each block: read-only if the volume or the block demands it. A file system that has
// turned read-only, because its disk failed or is full, stays so until it is mounted again. So the allocation
// fails for good, and the next one mounts it.
func (h *volumeMounts) Up(ctx context.Context, env *hooks.TaskEnv) error {
	if len(env.Task.VolumeMounts) == 0 {
		return nil
	}

	_, vars := h.builder.variables()
	err := heal(ctx, env, vars)
	if err != nil {
		return err
	}
	table, err := mounts.Read()
	if err != nil {
		return err
	}

	for _, m := range env.Task.VolumeMounts {
		alias := vars.expand(m.Volume)
		v, ok := env.Volume(alias)
		if !ok {
			return structs.Invalidf("volume_mount: the group has no volume %q that is ready", alias)
		}

		destination := vars.expand(m.Destination)
		if slices.Contains(strings.Split(destination, "/"), "..") || path.Clean("/"+destination) == "/" {
			return structs.Invalidf(
				"volume_mount %s: destination %q must be a path inside the task without \"..\", other than /",
				alias, structs.Cut(destination, structs.MaxQuoted))
		}

		if v.Writable && table.ReadOnly(v.HostPath) {
			return structs.Preconditionf(
				"volume %s: %w after an error of its disk; the next allocation mounts it again",
				alias, errReadOnly)
		}

		source, err := hostPath(env, v, vars.expand(m.SubPath))
		if err != nil {
			return fmt.Errorf("volume %s: %w", alias, err)
		}
		noteOnce(env, alias, v)

		env.Config.Mounts = append(env.Config.Mounts, driver.Mount{
			HostPath:    source,
			TaskPath:    path.Join("/", destination),
			ReadOnly:    v.ReadOnly || m.ReadOnly,
			Propagation: vars.expand(m.PropagationMode),
			Device:      v.Device,
			Volume:      alias,
		})
	}

	return nil
}

// heal has the dead volumes of a task repaired. A process that runs already keeps the mounts that it has.
func heal(ctx context.Context, env *hooks.TaskEnv, vars variables) error {
	if env.Running {
		return nil
	}
	for _, m := range env.Task.VolumeMounts {
		alias := vars.expand(m.Volume)
		v, ok := env.Volume(alias)
		if !ok || v.Healer == nil {
			continue
		}
		if err := v.Healer.Heal(ctx, env); err != nil {
			return fmt.Errorf("volume %s: %w", alias, err)
		}
	}
	return nil
}

// hostPath returns the path of a volume, or of one of its folders, which it mounts. A process that runs
// already keeps the mounts that it has.
func hostPath(env *hooks.TaskEnv, v hooks.VolumeMount, folder string) (string, error) {
	switch {
	case folder == "":
		return v.HostPath, nil
	case v.Folders == nil:
		return "", structs.Invalidf("sub_path %q: the volume is a device, which has no folders",
			structs.Cut(folder, structs.MaxQuoted))
	case env.Running:
		return v.Folders.Path(env.Task.Name, folder), nil
	}
	return v.Folders.Mount(env.Task.Name, folder)
}

// noteOnce makes an event of what the preparation of a volume left undone, at the first start of the task.
func noteOnce(env *hooks.TaskEnv, alias string, v hooks.VolumeMount) {
	if v.Note == "" || !env.FirstStart || env.Emit == nil {
		return
	}
	env.Emit(newEvent(structs.TaskEventHookMessage, "Volume %s: %s", alias, v.Note))
}

// Down does nothing: the driver makes the mounts, in a namespace that ends with the task.
func (*volumeMounts) Down(context.Context) error { return nil }
