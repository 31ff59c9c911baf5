package assembly

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-metrics"
	"golang.org/x/sync/semaphore"

	"berth/client/allocrunner"
	"berth/client/allocrunner/taskrunner"
	"berth/client/csi/csihooks"
	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/csi/upkeep"
	"berth/client/csi/volumes"
	"berth/client/devices"
	"berth/client/drivers/catalog"
	"berth/client/drivers/manager"
	"berth/client/guard"
	"berth/client/handover"
	"berth/client/hooks"
	"berth/client/hooks/artifact"
	"berth/client/hooks/disk"
	"berth/client/hooks/identities"
	"berth/client/hooks/network"
	"berth/client/hooks/secrets"
	"berth/client/hooks/template"
	"berth/client/login"
	"berth/client/machine/cni"
	"berth/client/machine/netns"
	"berth/client/mesh/connect"
	"berth/client/store"
	"berth/rpc"
	"berth/structs"
)

// Build makes the subsystems of a real node. It fails for a setting that does not fit the machine, and for
// records that it cannot read. The order follows the needs: drivers may be plugins, volumes need the
// registry, and hooks need all of them.
func Build(p Parts) (*Subsystems, error) {
	external, err := openPlugins(p)
	if err != nil {
		return nil, err
	}
	drivers, err := buildDrivers(p, external)
	if err != nil {
		return nil, err
	}
	deviceManager := buildDevices(p, external)
	instances, err := buildRegistry(p)
	if err != nil {
		return nil, err
	}

	// The mount table has paths without links, and the manager compares its own with them.
	csiDir, err := mounts.Resolve(p.Config.CSIDir())
	if err != nil {
		return nil, err
	}
	root := filepath.Join(csiDir, "v")
	plugins := buildVolumes(p, instances, root)
	watched := watchMounts(p, plugins, drivers.Supervisor())
	guarding, err := buildGuard(p, drivers)
	if err != nil {
		return nil, err
	}
	supervisors := supervisorConfig(p, csiDir, plugins, drivers)
	supervisors.Registry = instances
	logins, err := buildLogins(p)
	if err != nil {
		return nil, err
	}
	signed := identities.New(identitiesConfig(p))
	using := volumesConfig(p, plugins, guarding, watched.healer)
	of := allocParts{using, guarding, buildSockets(p), signed, logins, csiDir}
	ofTasks := taskParts{supervisors, deviceManager.Reserve, logins, signed, of.using, watched.quiescing}
	return &Subsystems{
		Drivers:    drivers,
		Plugins:    plugins,
		Devices:    deviceManager,
		AllocHooks: allocHooks(p, of),
		TaskHooks:  guardedLast(guarding, taskHooks(p, ofTasks)),
		Vault:      logins.fingerprint,
		Renewed:    guarding.Renewed,
		LeaseEnded: guarding.HasEnded,
		Inventory:  plugins.Volumes().Inventory,
		Endpoints:  append(endpoints(p, plugins, drivers), watched.endpoints()...),
		Run: []func(context.Context){
			drivers.Run, deviceManager.Run, plugins.Run, watched.usage.Run, watched.health.Run,
			watched.trims.Run, of.consul.Run, of.signed.Run,
			reconcileVolumes(p, plugins, guarding),
			guarding.Run,
			reconcileNetworks(p),
			logins.run,
		},
		Release: func() error { return releaseUnused(root) },
		Destroy: func() error { return errors.Join(killPlugins(p, external), mounts.ReleaseShared(root)) },
	}, nil
}

func supervisorConfig(
	p Parts, dir string, plugins *volumes.Manager, drivers *manager.Manager,
) csihooks.SupervisorConfig {
	return csihooks.SupervisorConfig{
		Dir:       dir,
		Volumes:   plugins.Volumes(),
		Logger:    p.Logger,
		HostPaths: func(t *structs.Task) bool { return taskrunner.HostPaths(drivers, t) },
	}
}

// endpoints returns the procedures that servers may call on this node.
func endpoints(p Parts, plugins *volumes.Manager, drivers *manager.Manager) []rpc.Endpoint {
	return append(
		volumes.Endpoints(plugins, volumes.EndpointDeps{Running: p.Holds.Running, CheckEpoch: p.CheckEpoch}),
		drivers.Endpoint(), disk.Endpoint(diskConfig(p)))
}

// releaseUnused releases the shared mount of volumes, unless something is mounted below it. The shared mount
// is needed again at the next start, so a volume that is still mounted keeps it.
func releaseUnused(root string) error {
	err := mounts.ReleaseShared(root)
	if structs.IsKind(err, structs.KindPrecondition) {
		return nil
	}
	return err
}

func buildDrivers(p Parts, external *catalog.Catalog) (*manager.Manager, error) {
	return manager.New(p.Config.DriverConfig(), manager.Options{
		Dir:     p.Config.DriverDir(),
		Plugins: external,
		Records: p.DB,
		Node:    manager.Node{ID: p.NodeID, Name: p.Config.NodeName},
		MHz:     p.MHz,
		Logger:  p.Logger,
	})
}

// buildSockets makes the sockets of allocations that lead to Consul.
func buildSockets(p Parts) *connect.Sockets {
	if p.Consul == nil {
		none := func(context.Context) (net.Conn, error) {
			return nil, structs.Preconditionf("this node uses no Consul (consul.address)")
		}
		return connect.NewSockets(none, none, p.Logger)
	}
	return connect.NewSockets(p.Consul.DialHTTP, p.Consul.DialGRPC, p.Logger)
}

func buildDevices(p Parts, external *catalog.Catalog) *devices.Manager {
	return devices.New(devices.Config{
		Host:    p.Config.Devices,
		Catalog: external,
		Records: p.DB,
		Holds:   p.Holds.HoldsDevices,
		Others:  p.Holds.OtherDevices,
	}, p.Logger)
}

func buildVolumes(p Parts, instances *registry.Registry, root string) *volumes.Manager {
	return volumes.New(volumes.Config{
		Registry: instances,
		DB:       p.DB,
		Logger:   p.Logger,
		NodeID:   p.NodeID,
		Root:     root,
		Metrics:  measureCall,
	})
}

// The supervisor runs as a process of its own, because tasks have to end with the lease also when the agent
// is dead.
func buildGuard(p Parts, drivers *manager.Manager) (*guard.Guard, error) {
	return guard.New(guard.Config{
		Dir:      p.Config.GuardDir(),
		Command:  drivers.Supervisor(),
		Drivers:  drivers,
		Group:    p.Group,
		Lose:     p.Lose,
		Watchdog: p.Config.Fencing.Watchdog,
		Clock:    p.Clock,
		Logger:   p.Logger.Named("guard"),
	})
}

func volumesConfig(
	p Parts, plugins *volumes.Manager, guarding *guard.Guard, healer *upkeep.Healer,
) csihooks.VolumesConfig {
	return csihooks.VolumesConfig{
		Volumes:  plugins.Volumes(),
		Servers:  p.Servers,
		Logger:   p.Logger,
		Progress: p.Progress,
		Node:     func() (id, secretID string) { return p.NodeID, p.SecretID },
		Mark:     p.MarkClaims,
		Guard:    guarding,
		Renewals: &csihooks.TokenRenewals{},
		Healer:   healer,

		ServersBack: p.ServersBack,
		MountsGroup: func(pluginID string) bool {
			conn, err := plugins.Healthy(structs.CSIKindNode, pluginID)
			return err == nil && conn.Info.NodeInfo != nil && conn.Info.NodeInfo.SupportsMountGroup
		},
	}
}

func inlineConfig(p Parts, using csihooks.VolumesConfig) csihooks.InlineConfig {
	return csihooks.InlineConfig{
		Volumes:     using.Volumes,
		Signer:      csihooks.TokenSigner{Servers: p.Servers, Node: using.Node},
		Progress:    p.Progress,
		ServersBack: p.ServersBack,
	}
}

func diskConfig(p Parts) disk.Config {
	return disk.Config{
		NodeID:   p.NodeID,
		SecretID: p.SecretID,
		Region:   p.Config.Region,
		Servers:  p.Servers,
		Logger:   p.Logger,
		Complete: p.Contacted,
		Local:    p.LocalAlloc,
		Progress: p.Progress,
		Report:   p.Report,
		Settings: p.MovedData,

		ServersBack: p.ServersBack,
	}
}

func networkConfig(p Parts) network.Config {
	dir := p.Config.NetworkDir()
	return network.Config{
		DB:         p.DB,
		Dir:        filepath.Join(dir, "allocs"),
		Namespaces: namespaces{},
		Networks:   cni.New(p.Config.Settings, dir),
		Logger:     p.Logger,
	}
}

// namespaces are this machine's. They are an interface in package network, for tests without root.
type namespaces struct{}

func (namespaces) Make(path string) error   { return netns.Make(path) }
func (namespaces) IsLive(path string) bool  { return netns.IsLive(path) }
func (namespaces) Remove(path string) error { return netns.Remove(path) }

func watcherConfig(p Parts) handover.PredecessorConfig {
	return handover.PredecessorConfig{
		NodeID:   p.NodeID,
		Region:   p.Config.Region,
		Servers:  p.Servers,
		Logger:   p.Logger,
		Complete: p.Contacted,
		Local: func(allocID string) (<-chan struct{}, bool) {
			local, here := p.LocalAlloc(allocID)
			return local.Unwound, here
		},
		Progress: p.Progress,
		Report:   p.Report,

		ServersBack: p.ServersBack,
	}
}

// allocParts are the parts of the node that the hooks of its allocations share.
type allocParts struct {
	using    csihooks.VolumesConfig
	guarding *guard.Guard
	consul   *connect.Sockets
	signed   *identities.Manager
	logins   *logins
	csiDir   string // without links
}

// allocHooks returns the hooks of an allocation: its secrets, the waits for its predecessors and for its
// capacity, and the hooks of its disk, its identities, its volumes, its ports, its network and its sockets.
// Down goes the other way, so what comes first is released last.
func allocHooks(p Parts, of allocParts) func(*hooks.AllocEnv) []hooks.Alloc {
	mounter := secrets.NewMounter(p.Config.SecretsSizeMB, p.Logger)
	return func(env *hooks.AllocEnv) []hooks.Alloc {
		list := []hooks.Alloc{mounter.Hook(env)}
		if h := handover.Predecessors(env, watcherConfig(p)); h != nil {
			list = append(list, h)
		}

		list = append(list, handover.Capacity(p.Holds.CapacityHolder, p.Progress))
		if h := disk.New(env, diskConfig(p)); h != nil {
			list = append(list, h)
		}

		if h := of.signed.Hook(env); h != nil {
			list = append(list, h)
		}

		list = append(list, of.guarding.Hook(env),
			csihooks.NewVolumes(of.using, env))
		if h := csihooks.NewInline(inlineConfig(p, of.using), env); h != nil {
			list = append(list, h)
		}

		if h := handover.Ports(env, p.Holds.PortHolder, p.Progress); h != nil {
			list = append(list, h)
		}

		if h := network.New(networkConfig(p), env); h != nil { // it maps the ports
			list = append(list, h)
		}

		if h := handover.HostVolumes(env, handover.HostVolumesConfig{
			Volume:   p.HostVolume,
			Holder:   p.Holds.HostVolumeHolder,
			Progress: p.Progress,
			Dir:      filepath.Join(of.csiDir, "host"),
		}); h != nil {
			list = append(list, h)
		}

		if h := of.consul.Hook(env); h != nil {
			list = append(list, h)
		}

		if h := login.NewServices(of.logins.cfg, env); h != nil {
			list = append(list, h)
		}

		return list
	}
}

// taskParts are the parts of the node that the hooks of its tasks share.
type taskParts struct {
	supervisors csihooks.SupervisorConfig
	reserve     devices.Reserve
	logins      *logins
	signed      *identities.Manager
	using       csihooks.VolumesConfig
	quiescing   *csihooks.QuiescedTasks
}

// csiHooks returns the hooks of a task for its CSI plugin and its volumes.
func (of taskParts) csiHooks(env *hooks.AllocEnv, task *structs.Task) (list []hooks.Task) {
	if task.CSIPluginConfig != nil {
		list = append(list, csihooks.NewPluginSupervisor(of.supervisors, env, task))
	}

	if h := csihooks.NewRepublisher(of.using, env, task); h != nil {
		list = append(list, h)
	}

	if h := csihooks.NewIllness(of.using, env, task); h != nil {
		list = append(list, h)
	}

	if h := of.quiescing.Hook(env, task); h != nil {
		list = append(list, h)
	}
	return list
}

// taskHooks returns the hooks of a task: for its socket of the API, its payload, its artifacts, its
// identities, the service mesh, its devices, its CSI plugin, the tokens and the snapshots of its volumes
// and its templates. A task does not keep devices waiting while it downloads. Templates read the files and
// the variables of the other hooks.
func taskHooks(p Parts, of taskParts) func(*hooks.AllocEnv, *structs.Task) []hooks.Task {
	artifacts := artifactConfig(p)
	reserving := devices.HookConfig{
		Reserve:  of.reserve,
		Holder:   p.Holds.DeviceHolder,
		Progress: p.Progress,
	}

	templates := template.Config{
		DB:     p.DB,
		Logger: p.Logger,
		Slots:  semaphore.NewWeighted(template.MaxRunning),

		Lookups: of.logins.lookups,
	}

	// Each task gets hooks of its own. The hooks share the values above.
	return func(env *hooks.AllocEnv, task *structs.Task) []hooks.Task {
		var list []hooks.Task
		if p.TaskAPI != nil {
			list = append(list, p.TaskAPI.Hook(env, task))
		}

		if h := artifact.NewPayload(env, task); h != nil {
			list = append(list, h)
		}

		if h := artifact.New(artifacts, env, task); h != nil {
			list = append(list, h)
		}

		if h := of.signed.TaskHook(env, task); h != nil {
			list = append(list, h)
		}

		list = append(list, meshHooks(p, env, task)...)
		list = append(list, of.logins.hooks(env, task)...)
		if h := devices.NewHook(reserving, env, task); h != nil {
			list = append(list, h)
		}

		list = append(list, of.csiHooks(env, task)...)
		if h := template.New(templates, env, task); h != nil {
			list = append(list, h)
		}

		return list
	}
}

// taskHooksOf makes the hooks of a task.
type taskHooksOf = func(*hooks.AllocEnv, *structs.Task) []hooks.Task

// guardedLast puts the hook of the guard behind the others: it is the last before the start.
func guardedLast(guarding *guard.Guard, others taskHooksOf) taskHooksOf {
	return func(env *hooks.AllocEnv, task *structs.Task) []hooks.Task {
		return append(others(env, task), guarding.TaskHook(env))
	}
}

// measureCall counts one call of a CSI plugin. A timing is a sample in milliseconds, with the gRPC code as
// its label.
func measureCall(plugin, method, code string, took time.Duration) {
	metrics.AddSampleWithLabels([]string{"csi", "call"},
		float32(took.Seconds()*1000),
		[]metrics.Label{
			{Name: "plugin", Value: plugin},
			{Name: "method", Value: method},
			{Name: "code", Value: code},
		})
}

// buildRegistry restores the registry of plugins, without the plugins of allocations that are not here.
func buildRegistry(p Parts) (*registry.Registry, error) {
	instances := registry.New(p.DB, p.Logger)
	known, err := knownAllocs(p.DB)
	if err != nil {
		p.Logger.Error("failed to read some records of allocations", "error", err)
		return instances, nil // an outdated registration does less harm than a missing one
	}

	return instances, instances.Retain(func(id string) bool {
		return known[id]
	})
}

// knownAllocs returns the allocations that were read also with an error, so the caller decides what a gap
// means.
func knownAllocs(db *store.DB) (map[string]bool, error) {
	allocs, err := allocrunner.Saved(db)
	known := make(map[string]bool, len(allocs))
	for _, a := range allocs {
		known[a.ID] = true
	}
	return known, err
}
