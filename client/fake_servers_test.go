package client

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
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
	term    uint64

	epoch     uint64
	returning bool                 // in the answer to each heartbeat
	order     []structs.AgentProof // of the requests for a lease

	// holdsBeats is the time for which the answers to heartbeats are under way.
	holdsBeats time.Duration

	claims   map[structs.CSIClaimKey]*structs.CSIClaim
	volume   *structs.CSIVolume
	session  *rpc.Session // of the node, from its last heartbeat
	firstCSI []int        // healthy plugin instances in each registration

	unaccounted bool // in the answer to each heartbeat
	restores    int  // how often it went back to an older state
	deaf        bool // blocking queries do not see that
	rotates     bool // each heartbeat gets another leader

	inventories [][]structs.CSIHeldClaim

	waits map[string]string // the answer to Alloc.DataWaits, of the allocations that it names
	keep  time.Duration     // of its last request

	fail func(addr, method string) error
	hang func(addr, method string) bool // such a call gets no answer
	lose map[string]bool                // the answers of these methods

	cluster string // "": they do not tell it

	twice bool // each allocation is twice in an answer
	left  bool // the node has drained itself
}

// call is one received request.
type call struct {
	addr, method string
	at           time.Time
	req          any
}

func newFakeServers() *fakeServers {
	p := &fakeServers{
		index:   1,
		changed: make(chan struct{}),
		nodes:   map[string]*structs.Node{},
		ttl:     10 * time.Second,
		csi:     map[structs.CSIInstanceKey]*structs.CSIPluginInstance{},
		allocs:  map[string]*structs.Allocation{},
		servers: []string{"s1:1", "s2:1"},
		claims:  map[structs.CSIClaimKey]*structs.CSIClaim{},
	}
	p.rpc = p.serve()
	return p
}

func (p *fakeServers) serve() *rpc.Server {
	return rpc.NewServer(hclog.NewNullLogger(),
		rpc.Handle(structs.NodeRegister, p.register),
		rpc.Handle(structs.NodeHeartbeat, p.heartbeat),
		rpc.Handle(structs.NodeLeave, p.leave),
		rpc.Handle(structs.NodeDrainStatus, p.drainStatus),
		rpc.Handle(structs.NodeUpdateCSI, p.updateCSI),
		rpc.Handle(structs.NodeClientAllocs, p.clientAllocs),
		rpc.Handle(structs.AllocsGet, p.allocsGet),
		rpc.Handle(structs.AllocGet, p.allocGet),
		rpc.Handle(nodecalls.AllocDataWaits, p.dataWaits),
		rpc.Handle(structs.NodeUpdateAllocs, p.updateAllocs),
		rpc.Handle(structs.CSIVolumeClaim, p.claim),
		rpc.Handle(structs.CSIClaimGet, p.getClaim),
		rpc.Handle(structs.CSIVolumeUnpublish, p.unpublish),
		rpc.Handle(structs.CSIClaimList, p.listClaims))
}

// Call implements membership.ServerPool.
func (p *fakeServers) Call(ctx context.Context, addr, method string, req, resp any) error {
	p.mu.Lock()
	p.calls = append(p.calls, call{addr, method, time.Now(), req})
	var err error
	if p.fail != nil {
		err = p.fail(addr, method)
	}
	lose, serve := p.lose[method], p.rpc
	hangs := p.hang != nil && p.hang(addr, method)
	holds := p.holdsBeats
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return structs.Errorf(structs.KindTimeout, "calling %s: %w", method, ctx.Err())
	}
	if err != nil {
		return err
	}
	err = serve.Call(ctx, method, req, resp)
	if method == structs.NodeHeartbeat.Name && holds > 0 {
		select {
		case <-time.After(holds):
		case <-ctx.Done():
			return structs.Errorf(structs.KindTimeout, "calling %s: %w", method, ctx.Err())
		}
	}
	if lose {
		return structs.Errorf(structs.KindTimeout, "the answer is lost")
	}
	return err
}

func (p *fakeServers) dataWaits(_ context.Context,
	r *nodecalls.AllocDataWaitsRequest) (*nodecalls.AllocDataWaitsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = r.Keep
	waits := maps.Clone(p.waits)
	maps.DeleteFunc(waits, func(id, _ string) bool { return !slices.Contains(r.AllocIDs, id) })
	return &nodecalls.AllocDataWaitsResponse{Waits: waits}, nil
}

func (p *fakeServers) register(ctx context.Context,
	r *structs.NodeRegisterRequest) (*structs.NodeRegisterResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.ClusterID != p.cluster && r.ClusterID != "" && p.nodes[r.Node.ID] == nil {
		return nil, structs.Conflictf("the node belongs to cluster %s", r.ClusterID)
	}
	p.order = append(p.order, *r.Agent)
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
	return &structs.NodeRegisterResponse{
		LeaseGrant: p.grant(),
		Servers:    p.servers,
		Left:       p.left,
		ClusterID:  p.cluster,
	}, nil
}

func (p *fakeServers) heartbeat(ctx context.Context,
	r *structs.NodeHeartbeatRequest) (*structs.NodeHeartbeatResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[r.NodeID]; n == nil || n.SecretID != r.SecretID {
		return nil, structs.Errorf(structs.KindNotFound, "no node %s", r.NodeID)
	}
	p.order = append(p.order, *r.Agent)
	p.session = rpc.SessionFrom(ctx)
	p.rotate()
	if r.Inventory != nil {
		p.inventories = append(p.inventories, r.Inventory.Held)
	}
	return &structs.NodeHeartbeatResponse{
			LeaseGrant:  p.grant(),
			Servers:     p.servers,
			Unaccounted: p.unaccounted,
		},
		nil
}

// grant is the lease that the servers grant. p.mu is held.
func (p *fakeServers) grant() structs.LeaseGrant {
	return structs.LeaseGrant{
		HeartbeatTTL:   p.ttl,
		HeartbeatGrace: 10 * time.Second,
		LeaseTerm:      p.term,
		Epoch:          p.epoch,
		Returning:      p.returning,
	}
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
		if p.cluster != "" && p.nodes[r.NodeID] == nil {
			p.mu.Unlock()
			return nil, structs.NotFoundf("the node is not registered")
		}
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
	if p.twice {
		resp.Allocs = append(resp.Allocs, resp.Allocs...)
	}
	return resp, nil
}

// allocGet answers at once, also to a query that waits for a change.
func (p *fakeServers) allocGet(_ context.Context, r *structs.AllocGetRequest) (*structs.AllocGetResponse,
	error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.allocs[r.AllocID]
	if a == nil {
		return nil, structs.NotFoundf("no allocation %q", r.AllocID)
	}
	resp := &structs.AllocGetResponse{Alloc: a}
	resp.Index = p.index
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
			c.ClientStatus = u.ClientStatus
			c.ClientDescription = u.ClientDescription
			c.TaskStates = u.TaskStates
			p.allocs[u.ID] = c
		}
	}
	return &structs.Empty{}, nil
}

// place adds or replaces allocations. It stores copies.
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
	return &fakeServers{
		index:  p.index,
		nodes:  maps.Clone(p.nodes),
		csi:    maps.Clone(p.csi),
		allocs: maps.Clone(p.allocs),
		claims: maps.Clone(p.claims),
	}
}

// restore makes the servers return to a saved state, and request the node's report of the time since.
func (p *fakeServers) restore(saved *fakeServers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.index = saved.index
	p.nodes = saved.nodes
	p.csi = saved.csi
	p.allocs = saved.allocs
	p.claims = saved.claims
	p.unaccounted = true
	p.restores++
	p.wake()
}

// stopAlloc marks an allocation as to be stopped.
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
	return slices.DeleteFunc(slices.Clone(p.calls), func(c call) bool {
		return c.method != method
	})
}

// do changes the fields under the lock.
func (p *fakeServers) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// requests returns the proofs of the requests for a lease.
func (s *fakeServers) requests() []structs.AgentProof {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}
