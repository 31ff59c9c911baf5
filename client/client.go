package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/assembly"
	"berth/client/config"
	"berth/client/hooks/secrets"
	"berth/client/machine"
	"berth/client/membership"
	"berth/client/store"
	"berth/internal/agentproof"
	"berth/internal/boottime"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Config is the node agent's configuration.
type Config = config.Config

// DefaultConfig is a node agent that is off, with every setting that has a default.
func DefaultConfig() *Config { return config.DefaultConfig() }

// Deps are the agent's dependencies. The zero value makes a real agent without a log.
type Deps struct {
	// Starting ends if New is to give up. Nil never ends. New does not keep it.
	Starting context.Context
	Logger   hclog.Logger
	// Pool reaches the servers. Nil makes an rpc.Pool over which they can call the node back.
	Pool membership.ServerPool
	// Consul has the services that jobs register there. It has to run for longer than the client. Nil: the
	// node uses none.
	Consul assembly.Consul
	// FindServers, if not nil, finds the RPC addresses of servers when none of the known ones answers.
	FindServers func(ctx context.Context) ([]string, error)
	// Dial connects to servers. Nil is rpc.Dial.
	Dial rpc.Dialer
	// CertifiedID is the ID of the node in the TLS certificate of the agent, "" without one.
	CertifiedID string
	// TaskAPI has the sockets by which tasks reach the API of the agent. It runs for longer than the client.
	// Nil: tasks have none.
	TaskAPI *secrets.APISockets
	// Build makes the subsystems. Nil makes the real ones.
	Build func(assembly.Parts) (*assembly.Subsystems, error)
	// Clock measures leases. Nil is CLOCK_BOOTTIME.
	Clock boottime.Clock
	// BootID is the machine's. "" is the kernel's.
	BootID string
	// Machine is the identity of the machine. "" is this one's.
	Machine structs.MachineID
}

// place returns where this agent runs.
func (d *Deps) place() membership.ProofPlace {
	return membership.ProofPlace{
		BootID:  cmp.Or(d.BootID, boottime.ID()),
		Machine: cmp.Or(d.Machine, agentproof.ReadMachine("/")),
	}
}

// Client is the agent of one node: four loops over what they share. The caller of New must call Run, which
// releases everything New took.
type Client struct {
	// It is set by open, since it needs the subsystems.
	*allocCalls // of the calls for the allocations

	*node
	registration *registration
	work         *work
	plugins      *plugins
	claims       *claims
	space        *space

	taskAPI *secrets.APISockets
	closers []func()
}

// New opens the node's store and fingerprints the host. The configuration must be valid. The client has a
// copy of it, which only Reload replaces.
func New(cfg *Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}

	if deps.Logger == nil {
		deps.Logger = hclog.NewNullLogger()
	}

	n := &node{
		logger:     deps.Logger.Named("client"),
		clock:      deps.Clock,
		consul:     deps.Consul,
		find:       deps.FindServers,
		registered: make(chan struct{}),
		contacted:  make(chan struct{}),
	}
	if n.clock == nil {
		n.clock = boottime.Now
	}

	c := &Client{
		node:    n,
		space:   &space{node: n},
		claims:  newClaims(n),
		plugins: newPlugins(n),
		taskAPI: deps.TaskAPI,
	}
	c.work = newWork(n, c.claims)
	c.registration = newRegistration(n, c.work, c.plugins, c.claims)
	c.settings.Store(cfg.Copy())
	// The lease of a new agent has no length. stop_on_client_after counts from its Since: see endOf.
	c.registration.lease.Store(&membership.Lease{Since: c.clock()})
	if err := c.open(deps); err != nil {
		c.close()
		return nil, fmt.Errorf("starting the node agent: %w", err)
	}

	return c, nil
}

// open makes everything that New makes. close releases it.
func (c *Client) open(deps Deps) (err error) {
	cfg := c.config()
	err = makeDirs(cfg)
	if err != nil {
		return err
	}

	c.db, err = store.Open(cfg.StateDir())
	if err != nil {
		return err
	}

	// The store is closed last, because everything else may write to it until then.
	c.closers = append(c.closers, func() { _ = c.db.Close() })
	wanted := membership.WantedIdentity{Configured: cfg.NodeID, Certified: deps.CertifiedID}
	c.id, err = membership.LoadIdentity(c.db, cfg.StateDir(), wanted)
	if err != nil {
		return err
	}

	c.logger = c.logger.With("node_id", c.id.NodeID)
	c.registration.proof, err = membership.LoadProof(c.db, cfg.StateDir(), deps.place(), c.logger)
	if err != nil {
		return err
	}

	c.registration.facts, err = machine.ReadFacts(cfg.AllocDir())
	if err == nil {
		err = c.registration.readNetworks()
	}
	if err == nil {
		c.registration.meta, err = loadMeta(c.db)
	}
	if err != nil {
		return err
	}

	// The subsystems get the list of servers, and with it the pool, before the pool can have their endpoints.
	c.memory = membership.RememberServers(c.db, c.origin, c.logger)
	c.servers = membership.NewServers(lazyPool{c}, c.firstServers(), c.registration.proof.OfHeartbeat)
	c.work.makeHolds()
	starting := cmp.Or(deps.Starting, context.Background())
	build := deps.Build
	if build == nil {
		build = assembly.Build
	}

	c.subsystems, err = build(c.parts(starting))
	if err != nil {
		return err
	}

	c.allocCalls = makeCalls(c)
	c.claims.check = newClaimCheck(c)
	c.registration.departure = c.registration.newDeparture()
	c.openPool(deps)
	// The row is there before the first registration, because runners read it.
	c.registration.row.Store(c.registration.buildNode())
	return nil
}

// makeDirs makes the directories of the agent. Others may pass through the directories of tasks and volumes,
// which have modes of their own. The store has secrets.
func makeDirs(cfg *Config) error {
	return errors.Join(
		os.MkdirAll(cfg.StateDir(), 0o700),
		os.MkdirAll(cfg.AllocDir(), 0o711),
		os.MkdirAll(cfg.CSIDir(), 0o711))
}

// openPool makes the pool over which the servers can call the node back.
func (c *Client) openPool(deps Deps) {
	if deps.Pool != nil {
		c.pool = deps.Pool
		return
	}
	logger := c.logger.Named("rpc")
	serve := rpc.NewServer(logger, c.subsystems.Endpoints...)
	if deps.Dial == nil {
		deps.Dial = rpc.Dial
	}

	p := rpc.NewPool(deps.Dial, logger, serve)
	c.pool = p
	c.closers = append(c.closers, serve.Close, p.Close)
}

// lazyPool is the client's pool, which is made after its users.
type lazyPool struct{ c *Client }

// Call implements membership.ServerPool.
func (l lazyPool) Call(ctx context.Context, addr, method string, req, resp any) error {
	return l.c.pool.Call(ctx, addr, method, req, resp)
}

// close releases the resources of open, newest first.
func (c *Client) close() {
	for _, f := range slices.Backward(c.closers) {
		f()
	}
}

// Run runs the agent. It returns when ctx has ended and everything it started has ended. Tasks run on,
// unless the configuration demands that the agent destroys everything.
func (c *Client) Run(ctx context.Context) {
	defer c.close()
	c.registration.warnOfHostVolumes()

	// The contexts below do not end with ctx: first the exchange with the servers ends, then the runners and
	// their loops, and then the subsystems that these use.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	below, endBelow := context.WithCancel(context.WithoutCancel(ctx))
	defer endBelow()

	var loops, subsystems sync.WaitGroup
	for _, run := range c.subsystems.Run {
		subsystems.Go(func() { run(below) })
	}

	// No runner is there before, so this needs no lock.
	c.work.life = life
	c.work.restoreAllocs(ctx)
	// From now on an allocation that is not in the set is not on this node.
	close(c.work.restored)
	loops.Go(func() { c.space.watch(life) })
	loops.Go(func() {
		if c.space.awaitRecords(life, c.registration.proof.Begin) {
			c.registration.run(life)
		}
	})
	loops.Go(func() { c.registration.runDrivers(life) })
	loops.Go(func() { c.plugins.run(life) })
	loops.Go(func() { c.work.runStopAlone(life) })
	// A node that stops accepts no new allocation. It does not report the ends that it causes: the servers
	// place these allocations elsewhere when the lease has ended, or this node runs them again if it is back
	// before.
	var exchange sync.WaitGroup
	exchange.Go(func() { c.work.runAllocs(ctx) })
	exchange.Go(func() { c.work.runUpdates(ctx) })
	exchange.Go(func() { c.claims.run(ctx) })
	exchange.Go(func() { c.registration.runReturn(ctx) })
	exchange.Go(func() { c.registration.proof.Run(ctx) })
	exchange.Go(func() { c.memory.Run(ctx) })
	exchange.Wait()
	// The lease goes on until here: the unmounts may take long, and nobody else may get the volumes
	// meanwhile.
	if c.config().DestroyOnShutdown {
		c.work.destroyAll()
	}

	end()
	loops.Wait()
	c.work.wg.Wait()
	endBelow()
	subsystems.Wait()
	c.releaseNode()
}

// Reload takes over the live settings of a valid configuration (see WithLive) and registers the node again if
// they change it. It keeps all others.
func (c *Client) Reload(next *config.Config) {
	old := c.config()
	now := old.WithLive(next)
	// The pointer is swapped whole, so no loop reads a part of the old settings and a part of the new ones.
	c.settings.Store(now)
	if !slices.Equal(old.Servers, now.Servers) {
		c.servers.Set(now.Servers)
	}
	if c.subsystems.Devices != nil {
		c.subsystems.Devices.SetHost(now.Devices)
	}
	c.registration.warnOfHostVolumes()
	c.registration.noteChange()
}

// Meta changes the metadata of the node over the configuration's, if there are changes, and returns all
// of it. The servers see it with the next registration, which follows at once.
func Meta(c *Client, changes map[string]*string) (*nodecalls.NodeMeta, error) {
	static := c.config().Meta
	if len(changes) == 0 {
		return c.registration.meta.Read(static), nil
	}
	defer c.registration.noteChange()
	return c.registration.meta.Apply(static, changes)
}

// NodeID returns the ID of the node, which outlives restarts of the agent.
func (c *Client) NodeID() string { return c.id.NodeID }

// Node returns the row with which the node registers. The caller must not change it.
func (c *Client) Node() *structs.Node {
	return c.registration.row.Load()
}

// notify puts a value into a channel of capacity 1 that its reader has not emptied. The value stands for any
// number of causes: the reader looks at the present state.
func notify(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// waitClosed waits until ch is closed. It reports false if ctx ended first.
func waitClosed(ctx context.Context, ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	// Both may be the case. Then the event counts.
	case <-ctx.Done():
		return isClosed(ch)
	}
}

// isClosed is for channels that carry no values.
func isClosed(ch <-chan struct{}) bool {
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

// ServersContacted is closed once the servers have sent the allocations of this node.
func (c *Client) ServersContacted() <-chan struct{} { return c.contacted }

// Registered is closed once the node has registered.
func (c *Client) Registered() <-chan struct{} { return c.registered }

// Servers returns the servers' addresses in the order in which the node tries them.
func (c *Client) Servers() []string {
	return c.servers.All()
}

// Lease returns the length of the lease that the servers granted last, and the time since its request. The
// length is 0, and the time is that since the start, if they have granted none.
func (c *Client) Lease() (ttl, age time.Duration) {
	l := c.registration.lease.Load()
	return l.TTL, c.clock().Sub(l.Since)
}

// Caller calls the servers as the node does: the leader first, another server if it does not answer.
func (c *Client) Caller() rpc.Caller { return c.servers }

// Allocs returns the states of the allocations on this node, as the node reports them to the servers.
func (c *Client) Allocs() map[string]*structs.AllocClientUpdate { return c.work.states() }
