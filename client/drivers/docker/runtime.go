package docker

import (
	"context"
	"slices"
	"strings"

	"berth/client/driver"
	"berth/structs"
)

const (
	// gpuRuntime is the name, or its beginning, of the runtimes that give a container GPUs of NVIDIA.
	gpuRuntime = "nvidia"
	// gpuVariable names the GPUs that they give. Without it a container may get all: images have it, too.
	gpuVariable = "NVIDIA_VISIBLE_DEVICES"
)

// checkRuntime rejects a runtime that the node does not allow the task. A task that runs a CSI plugin may
// have any. The daemon's default runtime may isolate tasks better than others, so the others need a setting.
func (d *Driver) checkRuntime(ctx context.Context, cfg *driver.TaskConfig, name string) error {
	if name == "" || cfg.Privileged {
		return nil
	}
	allowed := d.cfg.AllowRuntimes
	if allowed == nil {
		info, err := d.engine.Info(ctx)
		if err != nil {
			return err
		}
		allowed = []string{info.DefaultRuntime, gpuRuntime}
	}
	if !slices.Contains(allowed, name) {
		return structs.Deniedf("config.runtime: %q: this node allows %s "+
			"(allow_runtimes in the client's drivers { docker { } })",
			structs.Cut(name, structs.MaxQuoted), strings.Join(allowed, ", "))
	}
	if !strings.HasPrefix(name, gpuRuntime) {
		return nil
	}
	given := cfg.DeviceEnv[gpuVariable]
	if given == "" || cfg.Env[gpuVariable] != given {
		return structs.Deniedf("config.runtime: %q gives a task the GPUs in %s, which a device of the task "+
			"has to set; ask for a GPU in the task's resources { device }, and do not set the variable",
			structs.Cut(name, structs.MaxQuoted), gpuVariable)
	}
	return nil
}
