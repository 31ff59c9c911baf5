package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner"
	"berth/client/config"
	"berth/client/fingerprint"
	"berth/client/hook"
	"berth/client/hoststats"
	"berth/client/servers"
	"berth/client/store"
	"berth/rpc"
	"berth/structs"
)

// Config is the node agent's configuration.
type Config = config.Config

// DefaultConfig is a node agent that is off, with every setting that has a default.
func DefaultConfig() *Config { return config.DefaultConfig() }

// Drivers are the task drivers of this node.
type Drivers interface {
	allocrunner.Drivers
	// WaitFirst returns when each driver has been fingerprinted once, or with an error that names those
	// that have not when ctx ends.
	WaitFirst(ctx context.Context) error
	// Infos is what each driver last said of itself, by name.
	Infos() map[string]*structs.DriverInfo
	// Changes receives when Infos may answer something new. It has one reader.
	Changes() <-chan struct{}
}

// Plugins are the CSI plugins that run on this node.
type Plugins interface {
	// WaitFirst returns when each plugin that ran already when the agent started has been fingerprinted
	// once, or with an error that names those that have not when ctx ends.
	WaitFirst(ctx context.Context) error
	// Instances is what each instance last said of itself.
	Instances() []*structs.CSIPluginInstance
	// Changes receives when Instances may answer something new. It has one reader.
	Changes() <-chan struct{}
}

// Parts is what the agent's subsystems are built from.
type Parts struct {
	Config   *Config
	Logger   hclog.Logger
	DB       *store.DB
	NodeID   string
	SecretID string
	Servers  rpc.Caller
	// Running tells whether an allocation on this node has not ended.
	Running func(allocID string) bool
	// Progress is told what an allocation that is being set up waits for, "" when it waits no more.
	Progress func(allocID, reason string)
}

// Subsystems are what the agent runs allocations with.
type Subsystems struct {
	Drivers    Drivers
	Plugins    Plugins
	AllocHooks func(env *hook.AllocEnv) []hook.Alloc
	TaskHooks  func(env *hook.AllocEnv, task *structs.Task) []hook.Task
	// Inventory, if not nil, returns this node's records of volumes. With an error it is not complete.
	Inventory func() (*structs.NodeInventory, error)
	// Endpoints are what servers may call on this node.
	Endpoints []rpc.Endpoint
	// Run are the subsystems' own loops: they end with ctx, after every allocation's runner.
	Run []func(ctx context.Context)
	// Destroy, if not nil, takes down what the subsystems made for the node itself; it is called after
	// every allocation was destroyed.
	Destroy func() error
}

// Deps are what the agent does not make itself. The zero value is a real agent without a log.
type Deps struct {
	Logger hclog.Logger
	// Pool reaches the servers; nil makes an rpc.Pool over which they can call the node back.
	Pool servers.Pool
	// Build makes the subsystems; nil makes the real ones.
	Build func(Parts) (*Subsystems, error)
}

// Client is the agent of one node. After New, Run must be called: it releases what New took.
type Client struct {
	logger  hclog.Logger
	config  *config.Holder
	db      *store.DB
	id      identity
	facts   *fingerprint.Facts
	sub     *Subsystems
	pool    servers.Pool
	closers []func()
	servers *servers.List

	node       atomic.Pointer[structs.Node] // as it would register now
	building   sync.Mutex                   // of it
	news       chan struct{}                // has a value: the configuration has changed it
	nodeWrites chan struct{}                // has a value during a write of the node's rows
	told       *structs.Node                // as the servers have acknowledged it; nil: not known; likewise reported
	reported   map[structs.CSIInstanceKey]*structs.CSIPluginInstance
	unsure     bool          // what was sent last of the node may still come to be
	doubted    time.Time     // since when the servers wait to hear what this node holds, or zero; the lease's
	reregister chan struct{} // has a value: what was registered is out of date, or forgotten

	registered     chan struct{} // closed after the first registration
	registeredOnce sync.Once
	anew           chan struct{} // has a value: which allocations to run is to be asked from the start
	claimsDue      chan struct{} // has a value: claims are to be held against the servers'
	contacted      chan struct{} // closed after the first pull of allocations, when claims were looked at
	contactedOnce  sync.Once

	mu      sync.Mutex
	runners map[string]*allocrunner.Runner
	ignored map[string]ignored
	life    context.Context // of the runners
	wg      sync.WaitGroup  // the runners
	updates *updates
}

// New opens the node's store and fingerprints the host. The configuration must be valid.
func New(cfg *Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = hclog.NewNullLogger()
	}
	c := &Client{
		logger: deps.Logger.Named("client"), config: config.NewHolder(cfg),
		reported:   map[structs.CSIInstanceKey]*structs.CSIPluginInstance{},
		reregister: make(chan struct{}, 1), registered: make(chan struct{}), contacted: make(chan struct{}),
		claimsDue: make(chan struct{}, 1), anew: make(chan struct{}, 1), news: make(chan struct{}, 1),
		nodeWrites: make(chan struct{}, 1),
		runners:    map[string]*allocrunner.Runner{}, ignored: map[string]ignored{}, updates: newUpdates(),
	}
	if err := c.open(deps); err != nil {
		c.close()
		return nil, fmt.Errorf("starting the node agent: %w", err)
	}
	return c, nil
}

// open makes everything that New makes; what it took is released by close.
func (c *Client) open(deps Deps) (err error) {
	cfg := c.config.Get()
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{cfg.StateDir(), 0o700}, {cfg.AllocDir(), 0o711}, {cfg.CSIDir(), 0o711}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return err
		}
	}
	if c.db, err = store.Open(cfg.StateDir()); err != nil {
		return err
	}
	c.closers = append(c.closers, func() { _ = c.db.Close() })
	if c.id, err = loadIdentity(c.db, cfg.StateDir(), cfg.NodeID); err != nil {
		return err
	}
	c.logger = c.logger.With("node_id", c.id.nodeID)
	if c.facts, err = fingerprint.Host(cfg.AllocDir()); err != nil {
		return err
	}
	c.servers = servers.New(latePool{c}, cfg.Servers)
	build := deps.Build
	if build == nil {
		build = buildReal
	}
	c.sub, err = build(Parts{
		Config: cfg, Logger: c.logger, DB: c.db, NodeID: c.id.nodeID, SecretID: c.id.secretID,
		Servers: c.servers, Running: c.running, Progress: c.progress,
	})
	if err != nil {
		return err
	}
	c.openPool(deps.Pool)
	c.rebuildNode()
	return nil
}

// openPool makes the pool over which the servers can call the node back.
func (c *Client) openPool(pool servers.Pool) {
	if pool != nil {
		c.pool = pool
		return
	}
	serve := rpc.NewServer(c.logger.Named("rpc"), c.sub.Endpoints...)
	p := rpc.NewPool(c.logger.Named("rpc"), serve)
	c.pool = p
	c.closers = append(c.closers, serve.Close, p.Close)
}

// latePool is the client's pool, which is made after those who call over it.
type latePool struct{ c *Client }

// Call implements servers.Pool.
func (l latePool) Call(ctx context.Context, addr, method string, req, resp any) error {
	return l.c.pool.Call(ctx, addr, method, req, resp)
}

// close releases what open took, newest first.
func (c *Client) close() {
	for _, f := range slices.Backward(c.closers) {
		f()
	}
}

// Run is the agent's life. It returns when ctx has ended and all it started has: tasks run on, unless
// the configuration wants everything destroyed.
func (c *Client) Run(ctx context.Context) {
	defer c.close()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	below, endBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer endBelow()
	var loops, subsystems sync.WaitGroup
	for _, run := range c.sub.Run {
		subsystems.Go(func() { run(below) })
	}
	c.mu.Lock()
	c.life = life
	c.mu.Unlock()
	c.restore(ctx)
	for _, run := range []func(context.Context){c.runLease, c.runDrivers, c.runPlugins} {
		loops.Go(func() { run(life) })
	}
	// A node that stops takes nothing new, and what it then stops has not ended for the servers: they
	// place it elsewhere when the lease has ended, or this node runs it again when it is back before.
	var exchange sync.WaitGroup
	exchange.Go(func() { c.runAllocs(ctx) })
	exchange.Go(func() { c.runUpdates(ctx) })
	exchange.Go(func() { c.runClaims(ctx) })
	exchange.Wait()
	if c.config.Get().DestroyOnShutdown {
		c.destroyAll()
	}
	end()
	loops.Wait()
	c.wg.Wait()
	endBelow()
	subsystems.Wait()
	if c.config.Get().DestroyOnShutdown && c.sub.Destroy != nil {
		if err := c.sub.Destroy(); err != nil {
			c.logger.Warn("shutting down leaves something behind", "error", err)
		}
	}
}

// NodeID is the node's.
func (c *Client) NodeID() string { return c.id.nodeID }

// Node is the node as it registers. It must not be changed.
func (c *Client) Node() *structs.Node { return c.node.Load() }

// Config is the current configuration. It must not be changed: see UpdateConfig.
func (c *Client) Config() *Config { return c.config.Get() }

// UpdateConfig edits a copy of the configuration and makes it the current one. runDrivers sends to the servers
// whatever the edit changes in the node. The agent does not call it: a reload (SIGHUP) changes the log level alone.
func (c *Client) UpdateConfig(edit func(*Config)) {
	c.config.Update(edit)
	c.rebuildNode()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// ServersContacted is closed once the servers have said which allocations this node should have.
func (c *Client) ServersContacted() <-chan struct{} { return c.contacted }

// Registered is closed once the node has registered.
func (c *Client) Registered() <-chan struct{} { return c.registered }

// Servers are the servers' addresses, the one that is asked first in front.
func (c *Client) Servers() []string { return c.servers.All() }

// SetServers replaces the servers' addresses, for an agent that learns them by other ways.
func (c *Client) SetServers(addrs []string) { c.servers.Set(addrs) }

// HostStats measures what this machine uses.
func (c *Client) HostStats(ctx context.Context) (*structs.HostStats, error) {
	host := hoststats.Host{Dir: c.config.Get().AllocDir(), MHz: c.facts.Resources.CPU.CpuShares}
	return host.Measure(ctx)
}

// LogFiles is the directory that holds <task>.<kind>.N, the logs of a task of an allocation on this
// node. kind is stdout or stderr. Not-found when the allocation is not here or has no such task.
func (c *Client) LogFiles(allocID, task, kind string) (dir string, err error) {
	if kind != "stdout" && kind != "stderr" {
		return "", structs.Errorf(structs.KindInvalid, "a task has the logs stdout and stderr, not %q", kind)
	}
	r := c.runner(allocID)
	if r == nil {
		return "", structs.Errorf(structs.KindNotFound, "allocation %s is not on this node", allocID)
	}
	alloc := r.Alloc()
	if g := alloc.Job.Group(alloc.TaskGroup); g == nil || g.Task(task) == nil {
		return "", structs.Errorf(structs.KindNotFound, "allocation %s has no task %q", allocID, task)
	}
	return allocrunner.LogDir(r.Dir()), nil
}

// Allocs are the states of the allocations on this node, as the servers are told them.
func (c *Client) Allocs() map[string]*structs.AllocClientUpdate {
	m := map[string]*structs.AllocClientUpdate{}
	for _, r := range c.allRunners() {
		m[r.ID()] = r.ClientState()
	}
	return m
}

// running tells whether an allocation on this node has not ended.
func (c *Client) running(allocID string) bool {
	r := c.runner(allocID)
	if r == nil {
		return false
	}
	s := r.ClientState().ClientStatus
	return s == structs.AllocPending || s == structs.AllocRunning
}

func (c *Client) progress(allocID, reason string) {
	if r := c.runner(allocID); r != nil {
		r.SetProgress(reason)
	}
}

func (c *Client) runner(allocID string) *allocrunner.Runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runners[allocID]
}

func (c *Client) allRunners() []*allocrunner.Runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.runners))
}

// destroyAll stops every allocation and takes down all they used: first those that use volumes, then the
// plugins those need; then directories and records are removed. It is bounded, and says what is left.
func (c *Client) destroyAll() {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Get().ShutdownTimeout)
	defer cancel()
	all := c.allRunners()
	for _, plugins := range []bool{false, true} {
		some := slices.DeleteFunc(slices.Clone(all), func(r *allocrunner.Runner) bool { return runsPlugin(r.Alloc()) != plugins })
		for _, r := range some {
			r.Stop("the node agent shuts down")
		}
		for _, r := range some {
			await(ctx, r.Unwound())
		}
	}
	for _, r := range all {
		r.Destroy()
	}
	for _, r := range all {
		if !await(ctx, r.Ended()) {
			c.logger.Warn("shutting down leaves an allocation behind", "alloc_id", r.ID())
		}
	}
}

// await waits until ch is closed. It reports false when ctx ended first.
func await(ctx context.Context, ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-ctx.Done():
		return ended(ch)
	}
}

// ended reports whether ch is closed.
func ended(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// runsPlugin reports whether the allocation runs a CSI plugin.
func runsPlugin(alloc *structs.Allocation) bool {
	g := alloc.Job.Group(alloc.TaskGroup)
	return g != nil && len(g.Plugins()) > 0
}

// firstFingerprint waits until what ran already was looked for, and drivers and the plugins that ran already have been fingerprinted once, at
// most as long as configured.
func (c *Client) firstFingerprint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Get().FirstFingerprintTimeout)
	defer cancel()
	begin := time.Now()
	c.waitAttached(ctx, c.allRunners()...)
	err := errors.Join(c.sub.Drivers.WaitFirst(ctx), c.sub.Plugins.WaitFirst(ctx))
	if err != nil {
		c.logger.Warn("registering before everything was fingerprinted", "waited", time.Since(begin), "error", err)
		return
	}
	c.logger.Debug("everything was fingerprinted once", "waited", time.Since(begin))
}
