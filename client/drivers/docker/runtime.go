package docker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"berth/client/drivers/docker/engine"
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

// runtimes decides with which runtime of the daemon a container runs.
type runtimes struct {
	engine  *engine.Engine
	allowed []string // that jobs may name; nil selects the daemon's default one, and NVIDIA's
	emit    func(taskID, format string, args ...any)

	// It guards usual: a look at the daemon and the starts of tasks write it.
	mu    sync.Mutex
	usual string // the daemon's default one when it answered last. "" asks it
}

// choose checks the runtime that the job names, and returns the configuration of the task for it, and
// the runtime. A container without one runs with the daemon's default runtime. If that gives GPUs, the task
// gets only the GPUs among its devices, whatever the job or the image asks for. A task that runs a CSI plugin
// may have any.
func (r *runtimes) choose(
	ctx context.Context, cfg *driver.TaskConfig, name string,
) (bounded *driver.TaskConfig, runtime string, err error) {
	if cfg.Privileged {
		return cfg, name, nil
	}
	if name != "" {
		return cfg, name, r.check(ctx, cfg, name)
	}
	runtime, err = r.usualOne(ctx)
	if err != nil {
		return nil, "", err
	}
	if strings.HasPrefix(runtime, gpuRuntime) {
		cfg = r.withoutOtherGPUs(cfg)
	}
	return cfg, runtime, nil
}

// usualOne returns the daemon's default runtime, as it was when the driver looked last. The container
// names it, so that it has the runtime that was checked although the daemon has another one by now.
func (r *runtimes) usualOne(ctx context.Context) (string, error) {
	r.mu.Lock()
	known := r.usual
	r.mu.Unlock()
	if known != "" {
		return known, nil
	}
	info, err := r.engine.Info(ctx)
	if err != nil {
		return "", err
	}
	r.note(info.DefaultRuntime)
	return info.DefaultRuntime, nil
}

// note notes the daemon's default runtime. After "" the next start asks for it.
func (r *runtimes) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.usual = name
}

// withoutOtherGPUs returns the configuration of a task that has the GPUs of its devices alone.
func (r *runtimes) withoutOtherGPUs(cfg *driver.TaskConfig) *driver.TaskConfig {
	given := cmp.Or(cfg.DeviceEnv[gpuVariable], noGPUs)
	asked := cfg.Env[gpuVariable]
	if asked != "" && asked != given {
		r.emit(cfg.ID, "%s is %s: only a device in the task's resources gives it a GPU", gpuVariable, given)
	}
	bounded := *cfg
	bounded.Env = maps.Clone(cfg.Env)
	if bounded.Env == nil {
		bounded.Env = map[string]string{}
	}
	bounded.Env[gpuVariable] = given
	return &bounded
}

// check rejects a runtime that the node does not allow the task. The daemon's default runtime may
// isolate tasks better than others, so the others need a setting.
func (r *runtimes) check(ctx context.Context, cfg *driver.TaskConfig, name string) error {
	allowed := r.allowed
	if allowed == nil {
		info, err := r.engine.Info(ctx)
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
