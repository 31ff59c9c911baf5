package client

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/assembly"
	"berth/client/devices"
	"berth/client/drivers/driver"
	"berth/client/drivers/drivertest"
	"berth/client/hooks"
	"berth/internal/boottime"
	"berth/structs"
	"berth/structs/nodecalls"
)

// parts are fake subsystems.
type parts struct {
	drivertest.Set
	machine *drivertest.Machine
	drivers signals
	plugins *fakePlugins
	devices *fakeDevices
	hooks   func(env *hooks.AllocEnv) []hooks.Alloc
	made    assembly.Parts
	// tasks makes the hooks of a task. nil: there are none.
	tasks func(made assembly.Parts, env *hooks.AllocEnv, task *structs.Task) []hooks.Task
	holds *map[structs.CSIClaimKey]uint64 // the volume store, which outlives agents

	mu  sync.Mutex
	log []string
}

// signals has the channels of a fake fingerprinter. ready is closed after its first round.
type signals struct {
	ready   chan struct{}
	changes chan struct{}
}

func newSignals() signals {
	return signals{ready: make(chan struct{}), changes: make(chan struct{}, 1)}
}

func (s signals) WaitFirst(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (s signals) Changes() <-chan struct{} { return s.changes }

type fakeDrivers struct {
	signals
	drivertest.Set
	infos func() map[string]*structs.DriverInfo
}

func (f fakeDrivers) Infos() map[string]*structs.DriverInfo {
	return f.infos()
}

type fakePlugins struct {
	signals
	mu        sync.Mutex
	instances []*structs.CSIPluginInstance
}

func (f *fakePlugins) Instances() []*structs.CSIPluginInstance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.instances)
}

func (f *fakePlugins) set(all ...*structs.CSIPluginInstance) {
	f.mu.Lock()
	f.instances = all
	f.mu.Unlock()
	select {
	case f.changes <- struct{}{}:
	default:
	}
}

// fakeDevices has one device per group of the configuration, and statistics of the devices 0, 1 and 2.
type fakeDevices struct {
	signals
	mu     sync.Mutex
	groups []*structs.NodeDeviceResource
	faults map[string]string
}

func (f *fakeDevices) Groups() []*structs.NodeDeviceResource {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.groups
}

func (f *fakeDevices) Faults() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults
}

// fail makes a plugin fail, or work again.
func (f *fakeDevices) fail(faults map[string]string) {
	f.mu.Lock()
	f.faults = faults
	f.mu.Unlock()
	f.changes <- struct{}{}
}

func (f *fakeDevices) SetHost(groups []*devices.HostGroup) {
	f.mu.Lock()
	f.groups = nil
	for _, g := range groups {
		f.groups = append(f.groups, &structs.NodeDeviceResource{
			Name:      g.ID,
			Instances: []*structs.NodeDevice{{ID: g.Paths[0], Healthy: true}},
		})
	}
	f.mu.Unlock()
	select {
	case f.changes <- struct{}{}:
	default:
	}
}

func (f *fakeDevices) StatsOf(held []*structs.AllocatedDeviceResource) []*nodecalls.DeviceGroupStats {
	var all []*nodecalls.DeviceGroupStats
	for _, d := range held {
		g := &nodecalls.DeviceGroupStats{Name: d.Name, InstanceStats: map[string]*nodecalls.DeviceStats{}}
		for _, id := range d.DeviceIDs {
			g.InstanceStats[id] = &nodecalls.DeviceStats{}
		}
		all = append(all, g)
	}
	return all
}

func (f *fakeDevices) Stats() []*nodecalls.DeviceGroupStats {
	return f.StatsOf([]*structs.AllocatedDeviceResource{{Name: "gpu", DeviceIDs: []string{"0", "1", "2"}}})
}

func instance(plugin string, kind structs.CSIKind, healthy bool) *structs.CSIPluginInstance {
	return &structs.CSIPluginInstance{
		Kind:    kind,
		NodeID:  "n",
		CSIInfo: structs.CSIInfo{PluginID: plugin, Healthy: healthy},
	}
}

// fixture is one node and its servers, which outlive its agents.
type fixture struct {
	t       *testing.T
	dir     string
	servers *fakeServers
	machine *drivertest.Machine
	edit    func(*Config)
	parts   *parts
	client  *Client
	cancel  context.CancelFunc
	done    chan struct{}
	node    *structs.DriverInfo
	holds   map[structs.CSIClaimKey]uint64
	consul  assembly.Consul
	// suspended is the time that only CLOCK_BOOTTIME counts.
	suspended atomic.Int64
	find      func(context.Context) ([]string, error)
	boot      string // of the machine; "": that of this one
	log       hclog.Logger
}

func newFixture(t *testing.T) *fixture {
	return &fixture{
		t:       t,
		dir:     t.TempDir(),
		servers: newFakeServers(),
		machine: drivertest.NewMachine(),
		edit:    func(*Config) {},
		node:    &structs.DriverInfo{Detected: true, Healthy: true},
	}
}

// start begins a life of the agent. Its drivers and plugins are fingerprinted unless slow.
func (r *fixture) start(slow bool) {
	r.t.Helper()
	r.prepare(slow)
	r.run()
}

func (r *fixture) prepare(slow bool) {
	r.t.Helper()
	p := &parts{
		machine: r.machine,
		Set:     r.machine.Drivers(),
		drivers: newSignals(),
		plugins: &fakePlugins{signals: newSignals()},
		devices: &fakeDevices{signals: newSignals()},
	}
	p.hooks, p.holds = func(*hooks.AllocEnv) []hooks.Alloc { return nil }, &r.holds
	if r.parts != nil {
		p.hooks, p.log = r.parts.hooks, r.parts.log
		p.tasks = r.parts.tasks
	}
	r.parts = p
	if !slow {
		close(p.drivers.ready)
		close(p.plugins.ready)
		close(p.devices.ready)
	}
	cfg := DefaultConfig()
	cfg.Enabled = true
	cfg.DataDir = r.dir
	withoutCNI(cfg)
	cfg.Servers = []string{"s1:1", "s2:1"}
	cfg.NodeName = "node1"
	cfg.Version = "0.1"
	r.edit(cfg)
	clock := boottime.Monotonic()
	c, err := New(cfg, Deps{
		Pool:        r.servers,
		Consul:      r.consul,
		FindServers: r.find,
		BootID:      r.boot,
		Logger:      r.log,
		Clock: func() boottime.Instant {
			return clock().Add(time.Duration(r.suspended.Load()))
		},
		Build: func(made assembly.Parts) (*assembly.Subsystems, error) {
			p.made = made
			return &assembly.Subsystems{
				Drivers: fakeDrivers{p.drivers, p.Set,
					func() map[string]*structs.DriverInfo {
						r.servers.mu.Lock()
						defer r.servers.mu.Unlock()
						return map[string]*structs.DriverInfo{"fake": r.node}
					}},
				Plugins: p.plugins,
				Devices: p.devices,
				AllocHooks: func(env *hooks.AllocEnv) []hooks.Alloc {
					return p.hooks(env)
				},
				TaskHooks: func(env *hooks.AllocEnv, task *structs.Task) []hooks.Task {
					if p.tasks == nil {
						return nil
					}
					return p.tasks(made, env, task)
				},
				Inventory: p.inventory,
				Run: []func(context.Context){func(ctx context.Context) {
					<-ctx.Done()
					p.note("subsystems end")
				}},
			}, nil
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.client = c
}

// withoutCNI leaves out the network plugins of this machine. An agent starts each of them, to read its
// version.
func withoutCNI(cfg *Config) {
	cfg.Settings.Path = filepath.Join(cfg.DataDir, "no-plugins")
}

func (r *fixture) run() {
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.done = make(chan struct{})
	go func() {
		defer close(r.done)
		r.client.Run(ctx)
	}()
	synctest.Wait()
}

// stop ends the agent. Its tasks run on.
func (r *fixture) stop() {
	r.cancel()
	<-r.done
	r.machine.Forget()
}

// pass sleeps, and then waits until all goroutines are blocked.
func (r *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *parts) inventory() (*structs.NodeInventory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := &structs.NodeInventory{}
	for k, grant := range *p.holds {
		i.Held = append(i.Held, structs.CSIHeldClaim{
			CSIClaimKey: k,
			GrantIndex:  grant,
		})
	}
	return i, nil
}

func (p *parts) note(event string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, event)
}

// testAlloc is an allocation of a service with one task, web.
func testAlloc(id string) *structs.Allocation {
	g := &structs.TaskGroup{
		Name: "g",
		RestartPolicy: &structs.RestartPolicy{
			Attempts: 1,
			Interval: time.Minute,
			Delay:    time.Second,
			Mode:     "fail",
		},
		Tasks: []*structs.Task{{Name: "web", Driver: "fake", Config: map[string]any{}}},
	}
	job := &structs.Job{
		ID:         "job",
		Name:       "job",
		Type:       structs.JobService,
		TaskGroups: []*structs.TaskGroup{g},
	}
	return &structs.Allocation{
		ID:            id,
		Name:          "job.g[0]",
		JobID:         "job",
		Job:           job,
		TaskGroup:     "g",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocPending,
	}
}

func inVirtualTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

var failed = driver.ExitResult{ExitCode: 1}
