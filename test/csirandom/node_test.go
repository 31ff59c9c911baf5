package csirandom

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"berth/client"
	"berth/client/allocrunner"
	"berth/client/assembly"
	"berth/client/csi/csihooks"
	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/drivers/drivertest"
	"berth/client/hooks"
	"berth/csi/csitest"
	"berth/structs"
)

// node is a machine with its tasks, its instance of the plugin and its agent.
type node struct {
	w       *world
	name    string
	dir     string
	machine *drivertest.Machine
	plugin  *csitest.Plugin

	mu     sync.Mutex // one restart at a time
	id     string
	boots  int
	off    bool // it has no power
	closed bool // the run has ended
	cancel context.CancelFunc
	done   chan struct{}
}

// addNode starts a node. The instances of the plugin have the volumes of the first one.
func (w *world) addNode(name string) {
	w.t.Helper()
	n := &node{w: w, name: name, dir: filepath.Join(w.dir, name), machine: drivertest.NewMachine()}
	cfg := csitest.Config{
		Controller:     true,
		Node:           true,
		NodeID:         name,
		Groups:         true,
		ControllerCaps: controllerCaps,
		NodeCaps:       nodeCaps,
		Intercept:      w.trace.Intercept("plugin-"+name, name, w.faults.around),
	}
	if len(w.nodes) > 0 {
		cfg.Volumes = w.nodes[0].plugin
	}
	var err error
	n.plugin, err = csitest.New(cfg)
	w.must(err)
	w.t.Cleanup(n.plugin.Close)
	n.plugin.Answer("NodeGetVolumeStats", someStats)
	w.must(n.plugin.Restart())
	w.nodes = append(w.nodes, n)
	n.start()
	w.t.Cleanup(n.close)
}

// The capabilities of the plugin.
var (
	controllerCaps = []string{
		"CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES", "CREATE_DELETE_SNAPSHOT",
		"LIST_SNAPSHOTS", "CLONE_VOLUME", "EXPAND_VOLUME", "LIST_VOLUMES_PUBLISHED_NODES", "MODIFY_VOLUME",
		"SINGLE_NODE_MULTI_WRITER",
	}
	nodeCaps = []string{"STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME", "SINGLE_NODE_MULTI_WRITER", "GET_VOLUME_STATS"}
)

// start starts the agent.
func (n *node) start() {
	cfg := client.DefaultConfig()
	cfg.Enabled = true
	cfg.DataDir = n.dir
	cfg.NodeName = n.name
	cfg.Version = "1"
	cfg.UpdateInterval = 20 * time.Millisecond
	cfg.GCMaxAllocs = 10
	for _, s := range n.w.Servers {
		cfg.Servers = append(cfg.Servers, s.Current().RPCAddr())
	}
	c, err := client.New(cfg, client.Deps{
		Logger: n.w.logger.Named(n.name),
		Dial:   n.w.Net.From(n.name).Dial,
		Build:  n.build,
		BootID: n.bootID(),
	})
	n.w.must(err)
	n.id = c.NodeID()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.cancel = cancel
	n.done = done
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
}

// nodeID returns the ID of the node.
func (n *node) nodeID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// stop ends the agent. The tasks and the plugin go on.
func (n *node) stop() {
	n.cancel()
	<-n.done
	n.machine.Forget()
}

// close ends the agent for good.
func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if !n.off {
		n.stop()
	}
}

// restart ends the agent at any point of its work and starts another one, unless the node has no power.
func (n *node) restart() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off {
		return
	}
	n.stop()
	n.start()
}

// bootID names the time since the last loss of power.
func (n *node) bootID() string { return fmt.Sprintf("%s-boot-%d", n.name, n.boots) }

// losePower ends everything on the node but its disk, and starts it again.
func (n *node) losePower() {
	n.powerOff()
	n.powerOn()
}

// powerOff ends everything on the node but its disk. It returns the ID of the node.
func (n *node) powerOff() (id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.off || n.closed {
		return n.id
	}
	n.off = true
	n.stop()
	n.plugin.Stop()
	n.machine.Reboot()
	n.plugin.LosePower(n.dir)
	n.w.trace.PowerLoss(n.name)
	return n.id
}

// powerOn starts a node that has no power.
func (n *node) powerOn() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.off || n.closed {
		return
	}
	n.off = false
	n.boots++
	n.w.must(n.plugin.Restart())
	n.start()
}

// crash ends the plugin at any point of its calls and starts it again, unless the node has no power.
func (n *node) crash() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.off {
		n.w.must(n.plugin.Restart())
	}
}

// build makes the subsystems of the agent: tasks of the fake machine, and the real volumes.
func (n *node) build(p assembly.Parts) (*assembly.Subsystems, error) {
	instances := registry.New(p.DB, p.Logger)
	root := filepath.Join(n.dir, "csi", "v")
	m := volumes.New(n.volumesConfig(p, instances, root))
	for _, kind := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		err := instances.Register(&registry.Instance{
			Kind:            kind,
			ID:              pluginID,
			AllocID:         "plugin-on-" + n.name,
			SocketPath:      n.plugin.Socket(),
			HostMountPath:   root,
			PluginMountPath: root,
		})
		if err != nil {
			return nil, err
		}
	}
	using := csihooks.VolumesConfig{
		Volumes:     m.Volumes(),
		Servers:     p.Servers,
		Logger:      p.Logger,
		Progress:    p.Progress,
		Node:        func() (id, secretID string) { return p.NodeID, p.SecretID },
		Renewals:    &csihooks.TokenRenewals{},
		ServersBack: p.ServersBack,
		RetryMin:    10 * time.Millisecond,
		RetryMax:    200 * time.Millisecond,
		FileSystem:  func(string) (string, error) { return "", nil },
	}
	mount := func(env *hooks.AllocEnv) []hooks.Alloc {
		return []hooks.Alloc{csihooks.NewVolumes(using, env)}
	}
	return &assembly.Subsystems{
		Drivers:    drivers{n.machine.Drivers()},
		Plugins:    plugins{m},
		AllocHooks: mount,
		TaskHooks:  func(*hooks.AllocEnv, *structs.Task) []hooks.Task { return nil },
		Inventory:  m.Volumes().Inventory,
		Endpoints:  volumes.Endpoints(m, volumes.EndpointDeps{Running: p.Holds.Running, CheckEpoch: p.CheckEpoch}),
		Run:        []func(context.Context){m.Run, reconcile(p, m), n.measure(m)},
	}, nil
}

// volumesConfig has short times, so that a run has many repetitions. The plugin mounts nothing.
func (n *node) volumesConfig(p assembly.Parts, instances *registry.Registry, root string) volumes.Config {
	return volumes.Config{
		Registry:            instances,
		DB:                  p.DB,
		Logger:              p.Logger,
		NodeID:              p.NodeID,
		Root:                root,
		FingerprintInterval: time.Second,
		ProbeTimeout:        5 * time.Second,
		CallTimeout:         2 * time.Second,
		LateWait:            4 * time.Second,
		StopWait:            time.Nanosecond,
		ClientWait:          2 * time.Second,
		RetryMin:            5 * time.Millisecond,
		RetryMax:            200 * time.Millisecond,
		AcceptUnmounted:     true,
		BootID:              n.bootID(),
	}
}

// reconcile releases the volumes of allocations that the node does not have, as the real agent does.
func reconcile(p assembly.Parts, m *volumes.Manager) func(context.Context) {
	known := func() map[string]bool {
		ids := map[string]bool{}
		saved, _ := allocrunner.Saved(p.DB)
		for _, a := range saved {
			ids[a.ID] = true
		}
		return ids
	}
	before := known()
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			_, err := m.Volumes().Reconcile(ctx, func(id string) bool { return before[id] || known()[id] })
			if err == nil {
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// plugins are the plugins of a node, without the allocations that run them: the servers have none.
type plugins struct{ *volumes.Manager }

func (p plugins) Instances() []*structs.CSIPluginInstance {
	all := p.Manager.Instances()
	for _, i := range all {
		i.AllocID = ""
	}
	return all
}

// drivers are the drivers of a fake machine. They never change.
type drivers struct{ drivertest.Set }

func (drivers) WaitFirst(context.Context) error { return nil }

func (drivers) Infos() map[string]*structs.DriverInfo {
	return map[string]*structs.DriverInfo{"fake": {Detected: true, Healthy: true}}
}

func (drivers) Changes() <-chan struct{} { return nil }
