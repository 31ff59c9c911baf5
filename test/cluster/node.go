package cluster

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/client/membership"
	"berth/internal/agenttest"
	"berth/internal/level"
	"berth/rpc"
	"berth/structs"
)

// Plugin is the report of a node on a CSI plugin.
type Plugin struct {
	ID         string
	Controller bool // this node runs the controller half, too
	Attach     bool // the controller attaches
	Lists      bool // the controller lists to which nodes a volume is attached
	Local      bool // volumes are on the node whose controller created them
	Zone       string
	Unhealthy  bool
}

// Node is one node.
type Node struct {
	Name    string
	ID      string
	Storage *Storage

	c         *Cluster
	stopDelay time.Duration // the time that a task takes to stop
	guarded   bool          // see WithGuard
	plugins   map[string]Plugin
	servers   *membership.Servers
	serve     *rpc.Server
	pool      *rpc.Pool
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu               sync.Mutex
	allocs           map[string]*running
	ended            map[string]string // the status of each allocation that has ended here
	unaccountedSince time.Time         // since when the servers wait for the node's report; zero: they do not
	resync           bool              // the next query for allocations starts with index 0
	cancelQuery      context.CancelFunc
}

// NodeOption changes a node before it registers.
type NodeOption func(*Node, *structs.Node)

// WithPlugin has a node run an instance of a plugin.
func WithPlugin(p Plugin) NodeOption {
	return func(n *Node, _ *structs.Node) { n.plugins[p.ID] = p }
}

// WithGuard makes the node claim its volumes as one that ends its tasks with its lease. A test that kills the
// node has Storage.PowerOff do that.
func WithGuard() NodeOption {
	return func(n *Node, _ *structs.Node) { n.guarded = true }
}

// WithStopDelay makes the node's tasks take a moment to stop. They keep their volumes until then.
func WithStopDelay(d time.Duration) NodeOption {
	return func(n *Node, _ *structs.Node) { n.stopDelay = d }
}

// AddNode starts a node and waits until it is registered.
func (c *Cluster) AddNode(name string, s *Storage, options ...NodeOption) *Node {
	c.T.Helper()
	n := &Node{
		Name:    name,
		ID:      structs.DeriveID(uint64(len(c.nodes)), name),
		Storage: s,
	}
	c.startNode(n, options...)
	return n
}

// Revive starts a killed node again with an empty volume store: it was rebooted.
func (c *Cluster) Revive(n *Node, options ...NodeOption) *Node {
	c.T.Helper()
	again := &Node{
		Name:    n.Name,
		ID:      n.ID,
		Storage: n.Storage,
	}
	c.startNode(again, options...)
	return again
}

func (c *Cluster) startNode(n *Node, options ...NodeOption) {
	c.T.Helper()
	n.c = c
	n.plugins = map[string]Plugin{}
	n.allocs = map[string]*running{}
	n.ended = map[string]string{}
	row := &structs.Node{
		ID:         n.ID,
		SecretID:   "secret of " + n.ID,
		Name:       n.Name,
		Datacenter: "dc1",
		Status:     structs.NodeReady,
		Attributes: map[string]string{structs.AttrNodeLevel: strconv.Itoa(level.Now)},
		Drivers:    map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
		NodeResources: &structs.NodeResources{
			CPU:    structs.NodeCPUResources{CpuShares: 8000},
			Memory: structs.NodeMemoryResources{MemoryMB: 8000},
			Disk:   structs.NodeDiskResources{DiskMB: 80000},
		},
	}
	for _, o := range options {
		o(n, row)
	}
	n.serve = rpc.NewServer(c.Logger, n.endpoints()...)
	n.pool = rpc.NewPool(c.Net.From(n.Name).Dial, c.Logger, n.serve)
	var addrs []string
	for _, s := range c.Servers {
		addrs = append(addrs, s.Current().RPCAddr())
	}
	n.servers = membership.NewServers(n.pool, addrs, agenttest.Proof)
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	c.nodes = append(c.nodes, n)
	registered := make(chan struct{})
	n.wg.Go(func() {
		n.runLease(ctx, row, registered)
	})
	select {
	case <-registered:
	case <-time.After(Patience):
		c.T.Fatalf("node %s did not get registered", n.Name)
	}
	n.wg.Go(func() { n.runAllocs(ctx) })
}

// Kill ends the node without a message. Its mounts stay.
func (n *Node) Kill() {
	n.cancel()
	n.serve.Close()
	n.pool.Close()
	n.wg.Wait()
}

// PowerOff kills the node and removes its mounts, like a loss of power.
func (n *Node) PowerOff() {
	n.Kill()
	n.Storage.PowerOff(n.Name)
}

// retry repeats a call until it succeeds, fails for good, or ctx ends. All calls of a node are idempotent.
func retry(ctx context.Context, f func(ctx context.Context) error) error {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		limited, cancel := context.WithTimeout(ctx, 20*time.Second)
		err := f(limited)
		cancel()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if k := structs.KindOf(err); k != structs.KindUnavailable && k != structs.KindTimeout {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// runLease registers the node and sends heartbeats. After a change of the leader it sends the next one at
// once.
func (n *Node) runLease(ctx context.Context, row *structs.Node, registered chan struct{}) {
	var epoch uint64
	for ctx.Err() == nil {
		err := retry(ctx, func(ctx context.Context) error {
			req := &structs.NodeRegisterRequest{
				Node:      row,
				CSI:       n.instances(),
				Inventory: n.inventory(),
				Agent:     agenttest.Proof(),
			}
			resp, err := rpc.Call(ctx, n.servers, structs.NodeRegister, req)
			if err == nil {
				n.servers.Set(resp.Servers)
				n.servers.SetEpoch(resp.Epoch)
				epoch = resp.Epoch
			}
			return err
		})
		if err != nil {
			return
		}
		if registered != nil {
			close(registered)
			registered = nil
		}
		for ctx.Err() == nil {
			before, _ := n.servers.First()
			var ttl time.Duration
			var news bool
			err := retry(ctx, func(ctx context.Context) error {
				resp, err := rpc.Call(ctx, n.servers, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
					NodeID:    n.ID,
					SecretID:  row.SecretID,
					Status:    structs.NodeReady,
					Inventory: n.reportAfterRestore(ctx),
					CleanFor:  epoch, // it counts as clean at once, and gets its next allocation
					Agent:     agenttest.Proof(),
				})
				if err == nil {
					epoch = resp.Epoch
					ttl = resp.HeartbeatTTL
					news = n.setUnaccounted(resp.Unaccounted)
					n.servers.Set(resp.Servers)
					n.servers.SetEpoch(resp.Epoch)
				}
				return err
			})
			if err != nil || news {
				break // the servers do not know the node, or returned to an older state
			}
			n.awaitHeartbeat(ctx, ttl/3, before)
		}
	}
}

func (n *Node) awaitHeartbeat(ctx context.Context, pause time.Duration, before string) {
	addr, moved := n.servers.First()
	if addr != before {
		return // the leader needs its own connection to this node
	}
	lost := ctx.Done()
	if s, err := n.pool.Session(ctx, addr); err == nil {
		lost = s.Done()
	}
	select {
	case <-time.After(pause):
	case <-moved:
	case <-lost:
		select { // it may be restarting
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
}

// instances returns the report of the node on its plugins.
func (n *Node) instances() (out []*structs.CSIPluginInstance) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.plugins {
		needs := p.Controller || p.Attach || p.Local
		info := structs.CSIInfo{
			PluginID:                 p.ID,
			Healthy:                  !p.Unhealthy,
			Provider:                 "fake",
			ProviderVersion:          "1",
			RequiresControllerPlugin: needs,
			RequiresTopologies:       p.Zone != "",
		}
		half := &structs.CSIPluginInstance{
			Kind:    structs.CSIKindNode,
			NodeID:  n.ID,
			CSIInfo: info,
		}
		half.NodeInfo = &structs.CSINodeInfo{ID: n.Name}
		if p.Zone != "" {
			half.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"zone": p.Zone}}
		}
		out = append(out, half)
		if p.Controller {
			c := &structs.CSIPluginInstance{
				Kind:    structs.CSIKindController,
				NodeID:  n.ID,
				CSIInfo: info,
			}
			c.ControllerInfo = &structs.CSIControllerInfo{
				SupportsCreateDelete: true, SupportsAttachDetach: p.Attach, SupportsExpand: true,
				SupportsListVolumes: p.Lists, SupportsListVolumesAttachedNodes: p.Lists,
			}
			out = append(out, c)
		}
	}
	return out
}

// SetPlugin changes a plugin of the node and reports it.
func (n *Node) SetPlugin(p Plugin) {
	n.c.T.Helper()
	n.mu.Lock()
	n.plugins[p.ID] = p
	n.mu.Unlock()
	err := retry(n.c.T.Context(), func(ctx context.Context) error {
		_, err := rpc.Call(ctx, n.servers, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:   n.ID,
			SecretID: n.secret(),
			Upserts:  n.instances(),
			Full:     true,
		})
		return err
	})
	if err != nil {
		n.c.T.Fatalf("node %s reports its plugins: %v", n.Name, err)
	}
}

func (n *Node) secret() string { return "secret of " + n.ID }

// runAllocs runs the allocations that the servers place on the node.
func (n *Node) runAllocs(ctx context.Context) {
	index := uint64(1)
	for ctx.Err() == nil {
		var resp *structs.NodeClientAllocsResponse
		asked, done := context.WithCancel(ctx)
		n.mu.Lock()
		if n.resync {
			index, n.resync = 1, false
		}
		n.cancelQuery = done
		n.mu.Unlock()
		err := retry(asked, func(ctx context.Context) (err error) {
			req := &structs.NodeGetRequest{
				NodeID:   n.ID,
				SecretID: n.secret(),
			}
			req.MinIndex = index
			req.MaxWait = 10 * time.Second
			req.AllowStale = false
			resp, err = rpc.Call(ctx, n.servers, structs.NodeClientAllocs, req)
			return err
		})
		done()
		if err != nil {
			continue
		}
		index = max(1, resp.Index)
		var ids []string
		for id := range resp.Allocs {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		n.mu.Lock()
		for id, r := range n.allocs {
			if _, wanted := resp.Allocs[id]; !wanted {
				r.stop()
			}
		}
		n.mu.Unlock()
		n.syncAllocs(ctx, ids)
	}
}

func (n *Node) syncAllocs(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	var resp *structs.AllocsResponse
	err := retry(ctx, func(ctx context.Context) (err error) {
		resp, err = rpc.Call(ctx, n.servers, structs.AllocsGet, &structs.AllocsGetRequest{
			AllocIDs: ids,
			NodeID:   n.ID,
			SecretID: n.secret(),
		})
		return err
	})
	if err != nil {
		return
	}
	for _, a := range resp.Allocs {
		n.mu.Lock()
		r := n.allocs[a.ID]
		ended := n.ended[a.ID]
		n.mu.Unlock()
		switch {
		case r != nil && a.Terminal():
			r.stop()
		case r != nil && a.IsUnknown():
			n.reportAgain(ctx, r)
		case r == nil && ended != "" && !a.ClientTerminal():
			n.reportStatus(ctx, a, ended)
		case r == nil && a.DesiredStatus == structs.AllocDesiredRun && !a.ClientTerminal():
			n.startAlloc(ctx, a)
		case r == nil && a.DesiredStatus == structs.AllocDesiredStop && !a.ClientTerminal():
			n.reportStatus(ctx, a, structs.AllocComplete)
		}
	}
}

// Leader returns the address of the server that the node calls first, "" without a connection.
func (n *Node) Leader() string {
	addr, _ := n.servers.First()
	return addr
}
