package taskrunner

import (
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/taskdirs"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/consul/mesh"
	"berth/internal/placeholder"
	"berth/structs"
)

// HostPaths reports whether the task sees the host's own paths, because its driver gives it no root. Such a
// driver has a method HostPaths.
func HostPaths(drivers Drivers, t *structs.Task) bool {
	d, err := drivers.Driver(t.Driver)
	if err != nil {
		return false
	}
	rootless, ok := d.(interface{ HostPaths() bool })
	return ok && rootless.HostPaths()
}

// builder builds the inputs of a task's driver and hooks from the job as the servers last sent it. It has no
// state: each call reads the job, the node and the network anew.
type builder struct {
	shared *Shared
	name   string
	id     string // the driver's: "<alloc id>/<task>"
	logger hclog.Logger
}

// spec returns the task as the servers last sent it.
func (b *builder) spec() *structs.Task {
	if s := b.shared.Group().Task(b.name); s != nil {
		return s
	}
	return b.shared.Env.Group.Task(b.name)
}

// seenDirs returns the task's directories as the task sees them.
func (b *builder) seenDirs(spec *structs.Task) driver.Dirs {
	if HostPaths(b.shared.Drivers, spec) {
		return taskdirs.OfTask(b.shared.Dir, b.name)
	}
	return driver.Inside
}

// env makes the environment for the task's next start, which is the first one or not.
func (b *builder) env(first bool, emit func(*structs.TaskEvent)) *hooks.TaskEnv {
	spec := b.spec()
	vars, cfg := b.config(spec)
	return &hooks.TaskEnv{
		AllocEnv:   b.shared.Env,
		Task:       spec,
		Config:     cfg,
		FirstStart: first,
		Seen:       b.seenDirs(spec),
		Variables:  vars,
		Expand:     vars.expand,
		Node:       b.shared.Node,
		Emit:       emit,
	}
}

// config returns the input of the driver for the next start, and all that its strings may refer to.
func (b *builder) config(spec *structs.Task) (variables, *driver.TaskConfig) {
	env, vars := b.variables()
	cfg := &driver.TaskConfig{
		ID:     b.id,
		Task:   b.name,
		Of:     b.origin(),
		User:   vars.expand(spec.User),
		Config: placeholder.InValues(spec.Config, vars.expand),
		Env:    env,
		Ports:  b.shared.Alloc().Ports,
		Dirs:   taskdirs.OfTask(b.shared.Dir, b.name),
	}

	if spec.Resources != nil {
		cfg.Resources = *spec.Resources
	}

	if b.shared.Alloc().NoMemoryMax {
		cfg.Resources.MemoryMaxMB = 0
	}

	// A hook of the allocation has made it. nil is the network of the node.
	if n := b.shared.Env.Network(); n != nil {
		cfg.Network = &n.Network
	}

	if spec.LogConfig != nil {
		cfg.LogConfig = *spec.LogConfig
	}

	return vars, cfg
}

func (b *builder) origin() driver.Origin {
	alloc := b.shared.Alloc()
	return driver.Origin{
		Namespace: structs.NamespaceOr(alloc.Namespace),
		JobID:     alloc.JobID,
		JobName:   alloc.Job.Name,
		ParentID:  alloc.Job.ParentID,
		Group:     b.shared.Group().Name,
		Alloc:     alloc.Name,
	}
}

// variables returns the environment of the task's next start, and all that its strings may refer to.
func (b *builder) variables() (env map[string]string, vars variables) {
	spec := b.spec()
	return b.shared.facts(spec, b.seenDirs(spec)).variables()
}

// proxy returns the work of a task that is a proxy of the service mesh, nil for any other.
func (b *builder) proxy(spec *structs.Task, vars variables) (*mesh.Proxy, error) {
	r := mesh.Resolver{Ports: b.shared.Alloc().Ports, Expand: vars.expand}
	return r.Proxy(b.shared.Group(), spec)
}

// killSignal returns the signal that asks the process to end, "" for the default of the driver. That also
// replaces a placeholder whose value is no signal.
func (b *builder) killSignal(spec *structs.Task) string {
	written := spec.KillSignal
	if strings.Contains(written, "${") {
		_, vars := b.variables()
		written = vars.expand(written)
	}
	if written == "" {
		return ""
	}
	name, err := structs.ParseSignal(written)
	if err != nil {
		b.logger.Warn("the kill_signal of the task is no signal, using the default",
			"kill_signal", structs.Cut(written, structs.MaxQuoted))
		return ""
	}
	return name
}

// killTimeout returns the time that a task has to end by itself: its own, up to the node's.
func (b *builder) killTimeout(spec *structs.Task) time.Duration {
	timeout := spec.KillTimeout
	if timeout <= 0 {
		timeout = structs.DefaultKillTimeout
	}
	if b.shared.MaxKillTimeout > 0 {
		timeout = min(timeout, b.shared.MaxKillTimeout)
	}
	return timeout
}
