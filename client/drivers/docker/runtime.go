package docker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"berth/client/drivers/driver"
	"berth/structs"
)

const (
	// gpuRuntime is the name, or its beginning, of the runtimes that give a container GPUs of NVIDIA.
	gpuRuntime = "nvidia"
	// gpuVariable names the GPUs that they give. Without it a container may get all: images have it, too.
	gpuVariable = "NVIDIA_VISIBLE_DEVICES"
	// noGPUs is its value with which they give none and do nothing else that other runtimes do not.
	noGPUs = "void"
)

// withRuntime checks the runtime that the job names, and returns the configuration of the task for it, and
// the runtime. A container without one runs with the daemon's default runtime. If that gives GPUs, the task
// gets only the GPUs among its devices, whatever the job or the image asks for. A task that runs a CSI plugin
// may have any.
func (d *Driver) withRuntime(
	ctx context.Context, cfg *driver.TaskConfig, name string,
) (bounded *driver.TaskConfig, runtime string, err error) {
	if cfg.Privileged {
		return cfg, name, nil
	}
	if name != "" {
		return cfg, name, d.checkRuntime(ctx, cfg, name)
	}
	runtime, err = d.usualRuntime(ctx)
	if err != nil {
		return nil, "", err
	}
	if strings.HasPrefix(runtime, gpuRuntime) {
		cfg = d.withoutOtherGPUs(cfg)
	}
	return cfg, runtime, nil
}

// usualRuntime returns the daemon's default runtime, as it was when the driver looked last. The container
// names it, so that it has the runtime that was checked although the daemon has another one by now.
func (d *Driver) usualRuntime(ctx context.Context) (string, error) {
	d.mu.Lock()
	known := d.defaultRuntime
	d.mu.Unlock()
	if known != "" {
		return known, nil
	}
	info, err := d.engine.Info(ctx)
	if err != nil {
		return "", err
	}
	d.noteRuntime(info.DefaultRuntime)
	return info.DefaultRuntime, nil
}

// noteRuntime notes the daemon's default runtime. After "" the next start asks for it.
func (d *Driver) noteRuntime(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.defaultRuntime = name
}

// withoutOtherGPUs returns the configuration of a task that has the GPUs of its devices alone.
func (d *Driver) withoutOtherGPUs(cfg *driver.TaskConfig) *driver.TaskConfig {
	given := cmp.Or(cfg.DeviceEnv[gpuVariable], noGPUs)
	asked := cfg.Env[gpuVariable]
	if asked != "" && asked != given {
		d.emit(cfg.ID, "%s is %s: only a device in the task's resources gives it a GPU", gpuVariable, given)
	}
	bounded := *cfg
	bounded.Env = maps.Clone(cfg.Env)
	if bounded.Env == nil {
		bounded.Env = map[string]string{}
	}
	bounded.Env[gpuVariable] = given
	return &bounded
}

// checkRuntime rejects a runtime that the node does not allow the task. The daemon's default runtime may
// isolate tasks better than others, so the others need a setting.
func (d *Driver) checkRuntime(ctx context.Context, cfg *driver.TaskConfig, name string) error {
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
