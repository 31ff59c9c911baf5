package injection

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/structs"
	"berth/structs/defaults"
)

// driverConnect is the driver of the proxies that berth runs itself.
const driverConnect = "connect"

// driverDocker is the driver of a proxy with an image.
const driverDocker = "docker"

// envoyUser is the user and the group of Envoy's image. If the container starts as root, the image changes to
// that user, to whom the task's secrets then do not belong.
const envoyUser = "101:101"

// attrProxy is the attribute of a node with the program that runs its proxies: proxyEnvoy, or
// Consul's own.
const (
	attrProxy  = "driver.connect.proxy"
	proxyEnvoy = "envoy"
)

// The other defaults of the tasks of proxies, as in the dialect.
const (
	proxyShutdownDelay = 5 * time.Second
	proxyLogFiles      = 2
	proxyLogFileSizeMB = 2
)

// injectTask adds the task of a proxy, if the group does not have it yet, and changes it as the user wants. A
// job that is registered again has the task from before, with the driver of then.
func injectTask(g *structs.TaskGroup, s *structs.Service, kind structs.TaskKind) {
	at := slices.IndexFunc(g.Tasks, func(t *structs.Task) bool { return t.Kind == kind })
	var t *structs.Task
	if at >= 0 {
		t = g.Tasks[at]
	} else {
		t = newProxyTask(kind)
		t.Driver = driverOf(s.Connect.SidecarTask)
		if t.Driver == driverDocker {
			t.Config = envoyContainer(g)
		}

		g.Tasks = append(g.Tasks, t)
	}

	// The changes of the user are made again to a task from before: they may be newer than it.
	if s.Connect.SidecarTask != nil {
		mergeTask(s.Connect.SidecarTask, t)
	}

	// The user may have chosen docker only in the block that was merged.
	if t.Driver == driverDocker {
		t.User = cmp.Or(t.User, envoyUser)
	}

	// The node decides which proxy it runs, so the choice is a constraint on nodes.
	if t.Driver == driverConnect && needsEnvoy(s.Connect) {
		addConstraint(t, &structs.Constraint{
			LTarget: "${attr." + attrProxy + "}",
			RTarget: proxyEnvoy,
			Operand: "=",
		})
	}

	defaults.CanonicalizeTask(t, g)
}

// needsEnvoy reports whether Consul's own proxy cannot do the work.
func needsEnvoy(c *structs.Connect) bool {
	return c.Gateway != nil || c.SidecarService.Proxy.EnvoyOnly() != ""
}

// newProxyTask has the defaults of the dialect.
func newProxyTask(kind structs.TaskKind) *structs.Task {
	t := &structs.Task{
		Name:          kind.PortLabel(),
		Kind:          kind,
		ShutdownDelay: proxyShutdownDelay,
		LogConfig: &structs.LogConfig{
			MaxFiles:      proxyLogFiles,
			MaxFileSizeMB: proxyLogFileSizeMB,
		},
		Resources: &structs.Resources{
			CPU:      structs.DefaultProxyCPU,
			MemoryMB: structs.DefaultProxyMemoryMB,
		},
	}

	// A sidecar starts before the main tasks. A gateway is itself the main task.
	if !kind.IsGateway() {
		t.Lifecycle = &structs.TaskLifecycle{
			Hook:    structs.LifecyclePrestart,
			Sidecar: true,
		}
	}
	return t
}

// driverOf returns the driver of a proxy: one with an image runs in a container, as in the dialect.
func driverOf(t *structs.SidecarTask) string {
	switch {
	case t == nil:
		return driverConnect
	case t.Driver != "":
		return t.Driver
	case t.Config["image"] != nil:
		return driverDocker
	}
	return driverConnect
}

// SidecarTask returns a task with the driver and the config that the proxy of a service gets, nil if the user
// sets neither. The job may have faults: the rights of its user are asked before it is checked.
func SidecarTask(g *structs.TaskGroup, s *structs.Service) *structs.Task {
	if s == nil || s.Connect == nil || s.Connect.SidecarTask == nil {
		return nil
	}

	t := &structs.Task{Driver: driverOf(s.Connect.SidecarTask)}
	if t.Driver == driverDocker {
		t.Config = envoyContainer(g)
	}
	t.Config = merged(t.Config, s.Connect.SidecarTask.Config)
	return t
}

// envoyContainer returns the config of a container with Envoy, except its image. The user's block has the
// image.
func envoyContainer(g *structs.TaskGroup) map[string]any {
	config := map[string]any{"args": []any{
		"-c", "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json",
		"-l", "info",
		"--concurrency", "1",
		"--disable-hot-restart",
	}}
	// Without a network namespace of the group the proxy has to listen at the addresses of the node.
	if !g.Network().Isolated() {
		config["network_mode"] = structs.NetworkModeHost
	}
	return config
}

// mergeTask changes the task of a proxy. Empty fields of the user's block leave the default. It has no way to
// set a field to zero.
func mergeTask(t *structs.SidecarTask, task *structs.Task) {
	override := func(field *string, value string) {
		if value != "" {
			*field = value
		}
	}

	override(&task.Name, t.Name)
	override(&task.User, t.User)
	override(&task.KillSignal, t.KillSignal)
	if t.Driver != "" && t.Driver != task.Driver {
		task.Driver = t.Driver
		task.Config = nil // of the other driver
	}

	// The user's entries win over the defaults, entry by entry.
	task.Config = merged(task.Config, t.Config)
	task.Env = merged(task.Env, t.Env)
	task.Meta = merged(task.Meta, t.Meta)
	if r := t.Resources; r != nil {
		mergeResources(r, task.Resources)
	}

	if t.KillTimeout != nil {
		task.KillTimeout = *t.KillTimeout
	}

	if t.ShutdownDelay != nil {
		task.ShutdownDelay = *t.ShutdownDelay
	}

	if l := t.LogConfig; l != nil {
		overrideNumber(&task.LogConfig.MaxFiles, l.MaxFiles)
		overrideNumber(&task.LogConfig.MaxFileSizeMB, l.MaxFileSizeMB)
		task.LogConfig.Disabled = task.LogConfig.Disabled || l.Disabled
	}

	if len(t.VolumeMounts) > 0 {
		task.VolumeMounts = slices.Clone(t.VolumeMounts)
	}
}

// mergeResources takes each amount alone, so that a user may raise the memory and keep the default of the
// CPU.
func mergeResources(r *structs.Resources, into *structs.Resources) {
	overrideNumber(&into.CPU, r.CPU)
	overrideNumber(&into.Cores, r.Cores)
	overrideNumber(&into.MemoryMB, r.MemoryMB)
	overrideNumber(&into.MemoryMaxMB, r.MemoryMaxMB)
	if len(r.Devices) > 0 {
		into.Devices = slices.Clone(r.Devices)
	}
}

// overrideNumber leaves the default if the user gives nothing.
func overrideNumber(field *int, value int) {
	if value != 0 {
		*field = value
	}
}

// merged returns a map with the entries of two. Those of the second one win.
func merged[V any](under, over map[string]V) map[string]V {
	if len(over) == 0 {
		return under
	}
	// The map is copied, because the default below may be shared.
	all := maps.Clone(under)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, over)
	return all
}

// addConstraint adds no second one to a job that is registered again.
func addConstraint(t *structs.Task, c *structs.Constraint) {
	if !slices.ContainsFunc(t.Constraints, func(o *structs.Constraint) bool { return o != nil && *o == *c }) {
		t.Constraints = append(t.Constraints, c)
	}
}
