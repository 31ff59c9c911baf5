package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"berth/internal/agenttest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// node is a simulated agent with its machine.
type node struct {
	w      *world
	id     string
	secret string
	work   sync.WaitGroup
	beaten atomic.Int64  // the time at which the last heartbeat was sent that was answered, UnixNano
	report chan struct{} // held by the one report on plugins that is on its way: a late one would undo a newer

	mu      sync.Mutex
	row     *structs.Node
	ctx     context.Context // ends with the power; the next one begins with it
	off     context.CancelFunc
	linked  chan struct{}       // closed when the connection is cut; nil: it is cut
	runs    map[string]*run     // by allocation; those that have ended stay
	records map[string]*claimed // claims that are not released, by allocation; they survive the loss of power
}

// claimed are the claims of an allocation, as its node has recorded them.
type claimed struct{ keys []structs.CSIClaimKey }

func (w *world) addNode(row *structs.Node) {
	n := &node{
		w:       w,
		id:      row.ID,
		secret:  row.SecretID,
		row:     row,
		records: map[string]*claimed{},
		report:  make(chan struct{}, 1),
	}
	w.nodes = append(w.nodes, n)
	n.powerOn()
}

// powerOn starts the machine and its agent.
func (n *node) powerOn() {
	n.mu.Lock()
	n.ctx, n.off = context.WithCancel(context.Background())
	n.linked = make(chan struct{})
	n.runs = map[string]*run{}
	n.mu.Unlock()
	n.work.Go(n.keepLease)
	n.work.Go(n.follow)
}

// powerOff ends all processes. Mounts are gone, attachments stay.
func (n *node) powerOff() {
	n.off()
	n.work.Wait()
	n.w.storage.powerOff(n.id)
}

// life returns the context that ends when the power of this moment is gone.
func (n *node) life() context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctx
}

func (n *node) isOn() bool { return n.life().Err() == nil }

// cut cuts the connection to the servers, or heals it.
func (n *node) cut(cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case cut && n.linked != nil:
		close(n.linked)
		n.linked = nil
	case !cut && n.linked == nil:
		n.linked = make(chan struct{})
	}
}

func (n *node) link() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.linked
}

// idle waits, and reports false when the power is gone.
func (n *node) idle(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-n.life().Done():
		return false
	}
}

// latency waits for as long as a message takes.
func (n *node) latency() bool {
	most := 100 * time.Millisecond
	if !n.w.friendly.Load() && n.w.log.pause(time.Second) < 50*time.Millisecond {
		most = 3 * time.Second
	}
	return n.idle(n.w.log.pause(most))
}

// ownRow returns a copy of the node's row.
func (n *node) ownRow() *structs.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.row.Copy()
}

// call calls a procedure until it answers. The error is that of the request, or of ctx.
func call[Req, Resp any](
	ctx context.Context, n *node, m structs.Method[Req, Resp], req *Req,
) (*Resp, error) {
	for ctx.Err() == nil {
		linked := n.link()
		if !n.latency() {
			return nil, n.life().Err()
		}
		if linked == nil {
			n.idle(200 * time.Millisecond)
			continue
		}
		limited, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(n.life(), cancel)
		done := make(chan struct{})
		go func() {
			select {
			case <-linked:
				cancel()
			case <-done:
			}
		}()
		own := *req
		agenttest.Stamp(&own)
		resp, err := rpc.Call(limited, n.w.rpc, m, &own)
		lost := limited.Err() != nil
		close(done)
		stop()
		cancel()
		switch {
		case err == nil && !lost:
			return resp, nil
		case err != nil && !lost && !structs.IsKind(err, structs.KindUnavailable) &&
			!structs.IsKind(err, structs.KindTimeout):
			return nil, err
		}
		if !n.idle(500 * time.Millisecond) {
			return nil, n.life().Err()
		}
	}
	return nil, ctx.Err()
}

// keepLease registers the node and sends heartbeats.
func (n *node) keepLease() {
	for n.isOn() {
		n.report <- struct{}{}
		registered, err := call(n.life(), n, structs.NodeRegister, &structs.NodeRegisterRequest{
			Node: n.ownRow(),
			CSI:  n.instances(),
		})
		<-n.report
		if err != nil {
			return
		}
		epoch := registered.Epoch
		for n.idle(3 * time.Second) {
			sent := time.Now()
			beat, err := call(n.life(), n, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
				NodeID:   n.id,
				SecretID: n.secret,
				Status:   structs.NodeReady,
				CleanFor: epoch, // it counts as clean at once, and gets its next allocation
			})
			if err != nil {
				break
			}
			epoch = beat.Epoch
			n.beaten.Store(sent.UnixNano())
		}
	}
}

const (
	diskPlugin  = "disk"  // attaches volumes; allocations of the job "plugin" run it
	sharePlugin = "share" // does not, and is always there
)

// silent is the time since the node sent the last heartbeat that the servers answered.
func (n *node) silent() time.Duration { return time.Since(time.Unix(0, n.beaten.Load())) }

// instances is the report of the node on its CSI plugins.
func (n *node) instances() (all []*structs.CSIPluginInstance) {
	info := structs.CSIInfo{PluginID: sharePlugin, Healthy: true, Provider: "share.csi", ProviderVersion: "1"}
	info.NodeInfo = &structs.CSINodeInfo{ID: n.id}
	all = append(all, &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: n.id, CSIInfo: info})
	runner := n.pluginAlloc()
	if runner == "" {
		return all
	}
	info = structs.CSIInfo{
		PluginID:                 diskPlugin,
		AllocID:                  runner,
		Healthy:                  true,
		Provider:                 "disk.csi",
		ProviderVersion:          "1",
		RequiresControllerPlugin: true,
	}
	control := info
	control.ControllerInfo = &structs.CSIControllerInfo{
		SupportsAttachDetach:         true,
		SupportsCreateDelete:         true,
		SupportsCreateDeleteSnapshot: true,
	}
	info.NodeInfo = &structs.CSINodeInfo{ID: n.id}
	return append(all,
		&structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: n.id, CSIInfo: info},
		&structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: n.id, CSIInfo: control})
}

// runsPlugin reports whether an allocation with the plugin runs.
func (n *node) runsPlugin() bool { return n.pluginAlloc() != "" }

// pluginAlloc returns the newest allocation that runs the plugin, "" if none does.
func (n *node) pluginAlloc() (id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	newest := uint64(0)
	for _, r := range n.runs {
		if r.works && len(r.group.Plugins()) > 0 && r.row().CreateIndex >= newest {
			id = r.id
			newest = r.row().CreateIndex
		}
	}
	return id
}

// reportPlugins tells the servers which plugins run.
func (n *node) reportPlugins() {
	n.report <- struct{}{}
	defer func() { <-n.report }()
	_, _ = call(n.life(), n, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   n.id,
		SecretID: n.secret,
		Upserts:  n.instances(),
		Full:     true,
	})
}

// follow runs the allocations that the servers want.
func (n *node) follow() {
	index := uint64(1)
	for n.isOn() {
		req := &structs.NodeGetRequest{NodeID: n.id, SecretID: n.secret}
		req.MinIndex = index
		req.MaxWait = 5 * time.Minute
		resp, err := call(n.life(), n, structs.NodeClientAllocs, req)
		if err != nil {
			n.idle(time.Second) // not registered yet
			continue
		}
		index = max(1, resp.Index)
		var ids []string
		for id := range resp.Allocs {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		n.forget(resp.Allocs)
		if len(ids) > 0 && !n.fetch(ids) {
			index = 1
		}
	}
}

// forget stops the allocations that the servers do not know.
func (n *node) forget(wanted map[string]uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.runs {
		if _, known := wanted[id]; !known {
			r.stop()
		}
	}
}

func (n *node) fetch(ids []string) bool {
	req := &structs.AllocsGetRequest{AllocIDs: ids, NodeID: n.id, SecretID: n.secret}
	req.Namespace = structs.AllNamespaces
	resp, err := call(n.life(), n, structs.AllocsGet, req)
	if err != nil {
		return false
	}
	for _, a := range resp.Allocs {
		n.apply(a)
	}
	return true
}

// apply starts, updates or stops an allocation.
func (n *node) apply(a *structs.Allocation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.runs[a.ID]
	switch {
	case r != nil:
		r.update(a)
	case !a.ClientTerminal() || n.records[a.ID] != nil:
		r = newRun(n, a)
		n.runs[a.ID] = r
		if a.ClientTerminal() {
			r.stop()
		}
		n.work.Go(r.live)
	}
}

// serve answers a call of the leader.
func (n *node) serve(ctx context.Context, method string, req, resp any) error {
	linked := n.link()
	if linked == nil || !n.isOn() {
		return structs.Unavailablef("node %s is not connected", n.id)
	}
	if !n.latency() {
		return structs.Unavailablef("node %s is gone", n.id)
	}
	failing := !n.w.friendly.Load() && n.w.log.pause(time.Second) < 100*time.Millisecond
	if failing || ctx.Err() != nil {
		return structs.Unavailablef("the plugin on node %s is busy", n.id)
	}
	switch r := req.(type) {
	case *nodecalls.ClientCSIAttachRequest:
		n.w.storage.attach(r.ExternalID, r.ExternalNodeID, r.AccessMode)
	case *nodecalls.ClientCSIDetachRequest:
		n.w.storage.detach(r.ExternalID, r.ExternalNodeID)
	case *nodecalls.ClientCSINodeDetachRequest:
		return n.release(r)
	case *nodecalls.ClientCSIDeleteRequest:
		n.w.kept.deleteVolume(r.ExternalID)
	case *nodecalls.ClientCSISnapshotRequest:
		resp.(*nodecalls.ClientCSISnapshotResponse).Snapshot = n.w.kept.takeSnapshot(r)
	case *nodecalls.ClientCSISnapshotDeleteRequest:
		n.w.kept.deleteSnapshot(r.ExternalID)
	default:
		return fmt.Errorf("node %s does not know %s", n.id, method)
	}
	return nil
}

// release unmounts a volume for an allocation that has ended.
func (n *node) release(r *nodecalls.ClientCSINodeDetachRequest) error {
	n.mu.Lock()
	run := n.runs[r.AllocID]
	n.mu.Unlock()
	switch {
	case run != nil && !run.isUnwound():
		return structs.Preconditionf("allocation %s has not ended", r.AllocID)
	case usesPlugin(r.VolumeID) && !n.runsPlugin():
		return structs.Unavailablef("the plugin does not run on node %s", n.id)
	}
	n.w.storage.unmount(r.VolumeID, func(m mount) bool { return m.alloc == r.AllocID && m.node == n.id })
	return nil
}
