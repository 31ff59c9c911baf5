package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/driver"
	"berth/client/drivertest"
	"berth/client/hook"
	"berth/rpc"
	"berth/structs"
)

// fakeServers is the servers as a node sees them, in memory.
type fakeServers struct {
	rpc *rpc.Server

	mu      sync.Mutex
	index   uint64
	changed chan struct{}
	nodes   map[string]*structs.Node
	csi     map[structs.CSIInstanceKey]*structs.CSIPluginInstance
	allocs  map[string]*structs.Allocation
	calls   []call
	updates int // how often Node.UpdateAlloc was served
	servers []string
	ttl     time.Duration

	claims   map[structs.CSIClaimKey]*structs.CSIClaim
	volume   *structs.CSIVolume
	session  *rpc.Session // of the node, from its last heartbeat
	firstCSI []int        // healthy plugin instances in each registration

	unaccounted bool // the answer to each heartbeat says so
	restores    int  // how often it went back to an older state
	deaf        bool // blocking queries do not see that
	rotates     bool // each heartbeat gets another leader
	inventories [][]structs.CSIHeldClaim

	fail func(addr, method string) error
	hang func(addr, method string) bool // such a call gets no answer
	lose map[string]bool                // the answers of these methods
}

// call is one request as it came.
type call struct {
	addr, method string
	at           time.Time
	req          any
}

func newFakeServers() *fakeServers {
	p := &fakeServers{
		index: 1, changed: make(chan struct{}), nodes: map[string]*structs.Node{}, ttl: 10 * time.Second,
		csi: map[structs.CSIInstanceKey]*structs.CSIPluginInstance{}, allocs: map[string]*structs.Allocation{},
		servers: []string{"s1:1", "s2:1"}, claims: map[structs.CSIClaimKey]*structs.CSIClaim{},
	}
	p.rpc = p.serve()
	return p
}

func (p *fakeServers) serve() *rpc.Server {
	return rpc.NewServer(hclog.NewNullLogger(),
		rpc.Handle(structs.NodeRegister, p.register), rpc.Handle(structs.NodeHeartbeat, p.heartbeat),
		rpc.Handle(structs.NodeUpdateCSI, p.updateCSI), rpc.Handle(structs.NodeClientAllocs, p.clientAllocs),
		rpc.Handle(structs.AllocsGet, p.allocsGet), rpc.Handle(structs.NodeUpdateAllocs, p.updateAllocs),
		rpc.Handle(structs.CSIVolumeClaim, p.claim), rpc.Handle(structs.CSIClaimGet, p.getClaim),
		rpc.Handle(structs.CSIVolumeUnpublish, p.unpublish), rpc.Handle(structs.CSIClaimList, p.listClaims))
}

// Call implements servers.Pool.
func (p *fakeServers) Call(ctx context.Context, addr, method string, req, resp any) error {
	p.mu.Lock()
	p.calls = append(p.calls, call{addr, method, time.Now(), req})
	var err error
	if p.fail != nil {
		err = p.fail(addr, method)
	}
	lose, serve := p.lose[method], p.rpc
	hangs := p.hang != nil && p.hang(addr, method)
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return structs.Errorf(structs.KindTimeout, "calling %s: %w", method, ctx.Err())
	}
	if err != nil {
		return err
	}
	if err = serve.Call(ctx, method, req, resp); lose {
		return structs.Errorf(structs.KindTimeout, "the answer is lost")
	}
	return err
}

func (p *fakeServers) register(ctx context.Context,
	r *structs.NodeRegisterRequest) (*structs.NodeRegisterResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodes[r.Node.ID] = r.Node
	p.csi, p.session = instancesByKey(r.CSI), rpc.SessionFrom(ctx)
	healthy := 0
	for _, i := range r.CSI {
		if i.Healthy {
			healthy++
		}
	}
	p.firstCSI = append(p.firstCSI, healthy)
	p.rotate()
	return &structs.NodeRegisterResponse{HeartbeatTTL: p.ttl, Servers: p.servers}, nil
}

func (p *fakeServers) heartbeat(ctx context.Context,
	r *structs.NodeHeartbeatRequest) (*structs.NodeHeartbeatResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[r.NodeID]; n == nil || n.SecretID != r.SecretID {
		return nil, structs.Errorf(structs.KindNotFound, "no node %s", r.NodeID)
	}
	p.session = rpc.SessionFrom(ctx)
	p.rotate()
	if r.Inventory != nil {
		p.inventories = append(p.inventories, r.Inventory.Held)
	}
	return &structs.NodeHeartbeatResponse{HeartbeatTTL: p.ttl, Servers: p.servers, Unaccounted: p.unaccounted},
		nil
}

// rotate names another leader, if it is to. p.mu is held.
func (p *fakeServers) rotate() {
	if p.rotates {
		p.servers = []string{p.servers[1], p.servers[0]}
	}
}

func (p *fakeServers) updateCSI(_ context.Context, r *structs.NodeUpdateCSIRequest) (*structs.Empty, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Full {
		clear(p.csi)
	}
	maps.Copy(p.csi, instancesByKey(r.Upserts))
	for _, k := range r.Removes {
		delete(p.csi, k)
	}
	return &structs.Empty{}, nil
}

func (p *fakeServers) clientAllocs(ctx context.Context,
	r *structs.NodeGetRequest) (*structs.NodeClientAllocsResponse, error) {
	p.mu.Lock()
	before := p.restores
	p.mu.Unlock()
	for {
		p.mu.Lock()
		if p.index > r.MinIndex || p.restores != before && !p.deaf {
			resp := &structs.NodeClientAllocsResponse{Allocs: map[string]uint64{}}
			for id, a := range p.allocs {
				resp.Allocs[id] = a.AllocModifyIndex
			}
			resp.Index = p.index
			p.mu.Unlock()
			return resp, nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *fakeServers) allocsGet(_ context.Context, r *structs.AllocsGetRequest) (*structs.AllocsResponse,
	error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resp := &structs.AllocsResponse{}
	for _, id := range r.AllocIDs {
		if a := p.allocs[id]; a != nil {
			resp.Allocs = append(resp.Allocs, a)
		}
	}
	return resp, nil
}

func (p *fakeServers) updateAllocs(_ context.Context, r *structs.AllocsClientUpdateRequest) (*structs.Empty,
	error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updates++
	for _, u := range r.Allocs {
		if a := p.allocs[u.ID]; a != nil {
			c := a.Copy()
			c.ClientStatus, c.ClientDescription, c.TaskStates = u.ClientStatus, u.ClientDescription, u.TaskStates
			p.allocs[u.ID] = c
		}
	}
	return &structs.Empty{}, nil
}

// place puts or replaces allocations; each edit gets a copy.
func (p *fakeServers) place(allocs ...*structs.Allocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index++
	for _, a := range allocs {
		c := a.Copy()
		c.AllocModifyIndex = p.index
		p.allocs[a.ID] = c
	}
	p.wake()
}

// save returns the state of the servers, for restore.
func (p *fakeServers) save() *fakeServers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &fakeServers{index: p.index, nodes: maps.Clone(p.nodes), csi: maps.Clone(p.csi),
		allocs: maps.Clone(p.allocs), claims: maps.Clone(p.claims)}
}

// restore makes the servers return to a saved state, and request the node's report of the time since.
func (p *fakeServers) restore(saved *fakeServers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index, p.nodes, p.csi, p.allocs, p.claims = saved.index, saved.nodes, saved.csi, saved.allocs, saved.claims
	p.unaccounted = true
	p.restores++
	p.wake()
}

// stopAlloc has the servers want an allocation stopped.
func (p *fakeServers) stopAlloc(id string) {
	p.mu.Lock()
	a := p.allocs[id].Copy()
	p.mu.Unlock()
	a.DesiredStatus = structs.AllocDesiredStop
	p.place(a)
}

// remove makes the servers delete allocations.
func (p *fakeServers) remove(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index++
	for _, id := range ids {
		delete(p.allocs, id)
	}
	p.wake()
}

func (p *fakeServers) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *fakeServers) status(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.allocs[id]; a != nil {
		return a.ClientStatus
	}
	return "gone"
}

// called lists the calls of a method.
func (p *fakeServers) called(method string) []call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.calls), func(c call) bool { return c.method != method })
}

// do changes the plane's fields.
func (p *fakeServers) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// parts are fake subsystems.
type parts struct {
	drivertest.Set
	machine *drivertest.Machine
	drivers signals
	plugins *fakePlugins
	hooks   func(env *hook.AllocEnv) []hook.Alloc
	holds   *map[structs.CSIClaimKey]uint64 // the volume store, which outlives agents

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

func (f fakeDrivers) Infos() map[string]*structs.DriverInfo { return f.infos() }

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

func instance(plugin string, kind structs.CSIKind, healthy bool) *structs.CSIPluginInstance {
	return &structs.CSIPluginInstance{Kind: kind, NodeID: "n", CSIInfo: structs.CSIInfo{PluginID: plugin,
		Healthy: healthy}}
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
}

func newFixture(t *testing.T) *fixture {
	return &fixture{t: t, dir: t.TempDir(), servers: newFakeServers(), machine: drivertest.NewMachine(),
		edit: func(*Config) {},
		node: &structs.DriverInfo{Detected: true, Healthy: true}}
}

// start begins a life of the agent. Its drivers and plugins are fingerprinted unless slow.
func (r *fixture) start(slow bool) {
	r.t.Helper()
	r.prepare(slow)
	r.run()
}

func (r *fixture) prepare(slow bool) {
	r.t.Helper()
	p := &parts{machine: r.machine, Set: r.machine.Drivers(), drivers: newSignals(),
		plugins: &fakePlugins{signals: newSignals()}}
	p.hooks, p.holds = func(*hook.AllocEnv) []hook.Alloc { return nil }, &r.holds
	if r.parts != nil {
		p.hooks, p.log = r.parts.hooks, r.parts.log
	}
	r.parts = p
	if !slow {
		close(p.drivers.ready)
		close(p.plugins.ready)
	}
	cfg := DefaultConfig()
	cfg.Enabled, cfg.DataDir, cfg.Servers, cfg.NodeName, cfg.Version = true, r.dir, []string{"s1:1", "s2:1"},
		"node1", "0.1"
	r.edit(cfg)
	c, err := New(cfg, Deps{Pool: r.servers, Build: func(Parts) (*Subsystems, error) {
		return &Subsystems{
			Drivers: fakeDrivers{p.drivers, p.Set, func() map[string]*structs.DriverInfo {
				r.servers.mu.Lock()
				defer r.servers.mu.Unlock()
				return map[string]*structs.DriverInfo{"fake": r.node}
			}},
			Plugins:    p.plugins,
			AllocHooks: func(env *hook.AllocEnv) []hook.Alloc { return p.hooks(env) },
			TaskHooks:  func(*hook.AllocEnv, *structs.Task) []hook.Task { return nil },
			Inventory:  p.inventory,
			Run:        []func(context.Context){func(ctx context.Context) { <-ctx.Done(); p.note("subsystems end") }},
		}, nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.client = c
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

// stop ends the agent's life; its tasks run on.
func (r *fixture) stop() {
	r.cancel()
	<-r.done
	r.machine.Forget()
}

// pass lets time pass until all is quiet.
func (r *fixture) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *parts) inventory() (*structs.NodeInventory, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := &structs.NodeInventory{}
	for k, grant := range *p.holds {
		i.Held = append(i.Held, structs.CSIHeldClaim{CSIClaimKey: k, GrantIndex: grant})
	}
	return i, nil
}

func (p *parts) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, what)
}

// testAlloc is an allocation of a service with one task, web.
func testAlloc(id string) *structs.Allocation {
	g := &structs.TaskGroup{Name: "g", RestartPolicy: &structs.RestartPolicy{Attempts: 1, Interval: time.Minute,
		Delay: time.Second, Mode: "fail"},
		Tasks: []*structs.Task{{Name: "web", Driver: "fake", Config: map[string]any{}}}}
	job := &structs.Job{ID: "job", Name: "job", Type: structs.JobService, TaskGroups: []*structs.TaskGroup{g}}
	return &structs.Allocation{ID: id, Name: "job.g[0]", JobID: "job", Job: job, TaskGroup: "g",
		DesiredStatus: structs.AllocDesiredRun, ClientStatus: structs.AllocPending}
}

func inTime(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

var failed = driver.ExitResult{ExitCode: 1}
