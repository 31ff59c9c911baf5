package structs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// DriverConnect is the driver of the proxies that berth runs itself.
const DriverConnect = "connect"

// driverDocker is the driver of a proxy with an image.
const driverDocker = "docker"

// envoyUser is the user and the group of Envoy's image. If the container starts as root, the image changes to
// that user, to whom the task's secrets then do not belong.
const envoyUser = "101:101"

// AttrConnectProxy is the attribute of a node with the program that runs its proxies: ConnectProxyEnvoy, or
// Consul's own.
const (
	AttrConnectProxy  = "driver.connect.proxy"
	ConnectProxyEnvoy = "envoy"
)

// The other defaults of the tasks of proxies, as in the dialect.
const (
	proxyShutdownDelay = 5 * time.Second
	proxyLogFiles      = 2
	proxyLogFileSizeMB = 2
)

// Complete checks a canonical job, and adds to a job without faults what its service mesh needs. The faults
// of the job that the user wrote come first, because they have places in the file.
func (j *Job) Complete() *Faults {
	faults := j.Faults()
	if faults.Err() != nil || !slices.ContainsFunc(j.TaskGroups, (*TaskGroup).UsesConnect) {
		return faults
	}
	j.InjectConnect()
	return j.Faults()
}

// InjectConnect adds the tasks and ports of the service mesh to a canonical job without faults. It is
// idempotent: the job that it returned may be registered again.
func (j *Job) InjectConnect() {
	for _, g := range j.TaskGroups {
		for _, s := range g.Services {
			if s.Connect != nil {
				g.inject(s)
			}
		}
	}
}

func (g *TaskGroup) inject(s *Service) {
	kind := s.TaskKind()
	c := s.Connect
	switch kind.Kind() {
	case KindConnectNative:
		if s.TaskName == "" {
			s.TaskName = g.Tasks[0].Name
		}

		if t := g.Task(s.TaskName); t != nil {
			t.Kind = kind
		}
		return

	case KindConnectProxy:
		g.exposeChecks(s)
		setDefault(&c.SidecarService.Port, kind.PortLabel())
		g.injectPort(c.SidecarService.Port)
	case KindConnectTerminating:
		if s.PortLabel == "" {
			s.PortLabel = kind.PortLabel()
			g.injectPort(s.PortLabel)
		}

	case KindConnectMesh:
		g.injectPort(MeshLANPort(s.Name))
	}

	if c.Gateway != nil && g.Network().Mode == NetworkModeBridge {
		c.Gateway.bindInBridge()
	}

	g.injectTask(s, kind)
}

// injectPort adds a dynamic port that has the same number inside the network namespace.
func (g *TaskGroup) injectPort(label string) {
	if g.HasPort(label) {
		return
	}
	n := g.Network()
	n.DynamicPorts = append(n.DynamicPorts, Port{
		Label:       label,
		To:          -1,
		HostNetwork: DefaultHostNetwork,
	})
}

// injectTask adds the task of a proxy, if the group does not have it yet, and changes it as the user wants.
func (g *TaskGroup) injectTask(s *Service, kind TaskKind) {
	at := slices.IndexFunc(g.Tasks, func(t *Task) bool { return t.Kind == kind })
	var t *Task
	if at >= 0 {
		t = g.Tasks[at]
	} else {
		t = newProxyTask(kind)
		t.Driver = s.Connect.SidecarTask.driver()
		if t.Driver == driverDocker {
			t.Config = g.envoyContainer()
		}

		g.Tasks = append(g.Tasks, t)
	}

	if s.Connect.SidecarTask != nil {
		s.Connect.SidecarTask.mergeInto(t)
	}

	if t.Driver == driverDocker {
		setDefault(&t.User, envoyUser)
	}

	if t.Driver == DriverConnect && s.Connect.needsEnvoy() {
		t.addConstraint(&Constraint{
			LTarget: "${attr." + AttrConnectProxy + "}",
			RTarget: ConnectProxyEnvoy,
			Operand: "=",
		})
	}

	t.Canonicalize(g)
}

func newProxyTask(kind TaskKind) *Task {
	t := &Task{
		Name:          kind.PortLabel(),
		Kind:          kind,
		ShutdownDelay: proxyShutdownDelay,
		LogConfig: &LogConfig{
			MaxFiles:      proxyLogFiles,
			MaxFileSizeMB: proxyLogFileSizeMB,
		},
		Resources: &Resources{
			CPU:      DefaultProxyCPU,
			MemoryMB: DefaultProxyMemoryMB,
		},
	}

	if !kind.IsGateway() {
		t.Lifecycle = &TaskLifecycle{
			Hook:    LifecyclePrestart,
			Sidecar: true,
		}
	}
	return t
}

// driver returns the driver of a proxy: one with an image runs in a container, as in the dialect.
func (t *SidecarTask) driver() string {
	switch {
	case t == nil:
		return DriverConnect
	case t.Driver != "":
		return t.Driver
	case t.Config["image"] != nil:
		return driverDocker
	}
	return DriverConnect
}

// envoyContainer returns the config of a container with Envoy, except its image.
func (g *TaskGroup) envoyContainer() map[string]any {
	config := map[string]any{"args": []any{
		"-c", "${NOMAD_SECRETS_DIR}/envoy_bootstrap.json",
		"-l", "info",
		"--concurrency", "1",
		"--disable-hot-restart",
	}}
	if !g.Network().Isolated() {
		config["network_mode"] = NetworkModeHost
	}
	return config
}

// mergeInto changes the task of a proxy.
func (t *SidecarTask) mergeInto(task *Task) {
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

	task.Config = merged(task.Config, t.Config)
	task.Env = merged(task.Env, t.Env)
	task.Meta = merged(task.Meta, t.Meta)
	if r := t.Resources; r != nil {
		r.mergeInto(task.Resources)
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

func (r *Resources) mergeInto(into *Resources) {
	overrideNumber(&into.CPU, r.CPU)
	overrideNumber(&into.Cores, r.Cores)
	overrideNumber(&into.MemoryMB, r.MemoryMB)
	overrideNumber(&into.MemoryMaxMB, r.MemoryMaxMB)
	if len(r.Devices) > 0 {
		into.Devices = slices.Clone(r.Devices)
	}
}

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
	all := maps.Clone(under)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, over)
	return all
}

func (t *Task) addConstraint(c *Constraint) {
	if !slices.ContainsFunc(t.Constraints, func(o *Constraint) bool { return o != nil && *o == *c }) {
		t.Constraints = append(t.Constraints, c)
	}
}

// bindInBridge makes a gateway listen on all addresses of its network namespace, as in the dialect. An
// address with DynamicBind gets a port of the allocation.
func (g *Gateway) bindInBridge() {
	p := g.Proxy
	if p.EnvoyGatewayNoDefaultBind || p.EnvoyGatewayBindTaggedAddresses || len(p.EnvoyGatewayBindAddresses) > 0 {
		return
	}

	p.EnvoyGatewayNoDefaultBind = true
	p.EnvoyGatewayBindAddresses = map[string]*GatewayBindAddress{}
	bind := func(name string, port int) {
		p.EnvoyGatewayBindAddresses[name] = &GatewayBindAddress{
			Address: "0.0.0.0",
			Port:    port,
		}
	}

	switch {
	case g.Ingress != nil:
		for _, l := range g.Ingress.Listeners {
			for _, s := range l.Services {
				bind(s.Name, l.Port)
			}
		}

	case g.Terminating != nil:
		bind("default", DynamicBind)
	case g.Mesh != nil:
		bind("wan", DynamicBind)
		bind("lan", DynamicBind)
	}
}

// exposeChecks makes the proxy of a service serve the paths of its exposed checks.
func (g *TaskGroup) exposeChecks(s *Service) {
	for i, c := range s.Checks {
		if !c.Expose {
			continue
		}

		if c.PortLabel == "" {
			c.PortLabel = exposeLabel(s.Name, i, c)
			g.injectPort(c.PortLabel)
		}

		port, _ := g.LocalPort(s)
		x := ConnectExposePath{
			Path:          c.Path,
			Protocol:      DefaultExposeProtocol,
			LocalPathPort: port,
			ListenerPort:  c.PortLabel,
		}

		side := s.Connect.SidecarService
		if side.Proxy == nil {
			side.Proxy = &ConnectProxy{}
		}

		if side.Proxy.Expose == nil {
			side.Proxy.Expose = &ConnectExpose{}
		}

		paths := side.Proxy.Expose.Paths
		if !slices.ContainsFunc(paths, func(o *ConnectExposePath) bool { return *o == x }) {
			side.Proxy.Expose.Paths = append(paths, &x)
		}
	}
}

// exposeLabel returns the label of the port of an exposed check. It is the same at each registration.
func exposeLabel(service string, index int, c *ServiceCheck) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", service, index, c.Name, c.Path))
	return "svc_" + service + "_ck_" + hex.EncodeToString(sum[:3])
}

// validateExpose checks an exposed check.
func (c *ServiceCheck) validateExpose(f fieldErrors, s *OwnedService, g *TaskGroup) {
	sidecar := s.Owner == "" && s.Connect != nil && s.Connect.SidecarService != nil
	f.require(sidecar, "expose is for services of groups with connect { sidecar_service {} }")
	f.require(c.Type == CheckHTTP && c.Protocol == "http",
		"expose is for checks of type http with protocol http; for others write expose in the proxy")
	if !sidecar {
		return
	}
	_, known := g.LocalPort(s.Service)
	f.require(known, "expose: the port of the service inside the network namespace is not known; "+
		"write port = NUMBER in the service, or to in its port of the group")
}
