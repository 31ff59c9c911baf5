package cluster

import (
	"context"
	"slices"
	"time"

	"berth/rpc"
	"berth/structs"
)

// running is an allocation of the node and the context of its task.
type running struct {
	alloc  *structs.Allocation
	keys   []structs.CSIClaimKey
	grants map[structs.CSIClaimKey]uint64 // under which its volumes are mounted
	works  bool                           // its task runs
	stop   context.CancelFunc
	finish chan string // the status with which its task ends
}

// mountedVolume is a volume that an allocation has mounted.
type mountedVolume struct {
	key      structs.CSIClaimKey
	external string
}

func (n *Node) startAlloc(ctx context.Context, a *structs.Allocation) {
	life, stop := context.WithCancel(ctx)
	r := &running{
		alloc:  a,
		grants: map[structs.CSIClaimKey]uint64{},
		stop:   stop,
		finish: make(chan string, 1),
	}
	if g := a.Job.Group(a.TaskGroup); g != nil {
		for _, v := range g.Volumes {
			k := structs.CSIClaimKey{
				Namespace: a.Namespace,
				VolumeID:  v.VolumeID(a.Index(), a.ID),
				AllocID:   a.ID,
			}
			r.keys = append(r.keys, k)
		}
	}
	n.mu.Lock()
	n.allocs[a.ID] = r
	n.mu.Unlock()
	n.wg.Go(func() {
		defer stop()
		n.runAlloc(ctx, life, r)
	})
}

// Running lists the allocations whose tasks run on the node.
func (n *Node) Running() (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.allocs {
		if r.works {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Finish ends an allocation's task by itself, with a client status. A task that ends already stays at its
// first one.
func (n *Node) Finish(allocID, status string) {
	n.c.T.Helper()
	n.mu.Lock()
	r := n.allocs[allocID]
	n.mu.Unlock()
	if r == nil {
		n.c.T.Fatalf("allocation %s does not run on node %s", allocID, n.Name)
	}
	select {
	case r.finish <- status:
	default:
	}
}

// runAlloc is the life of an allocation: claim, mount, run, unmount, release, report. node ends with the
// node, and then nothing is cleaned up. life ends when the servers stop the allocation.
func (n *Node) runAlloc(node, life context.Context, r *running) {
	status := structs.AllocComplete
	mounts, err := n.mountAll(life, r)
	switch {
	case err == nil:
		n.setWorks(r, true)
		n.reportStatus(life, r.alloc, structs.AllocRunning)
		select {
		case <-life.Done():
			n.awaitStopDelay(node)
		case status = <-r.finish:
		}
	case life.Err() == nil:
		status = structs.AllocFailed
	}
	if node.Err() != nil {
		return
	}
	n.setWorks(r, false)
	for _, m := range mounts {
		n.Storage.unmount(n.Name, r.alloc.ID, m.external)
	}
	if len(r.keys) > 0 {
		_ = retry(node, func(ctx context.Context) error {
			req := &structs.CSIVolumeUnpublishRequest{
				NodeID:   n.ID,
				SecretID: n.secret(),
				Claims:   r.keys,
			}
			_, err := rpc.Call(ctx, n.servers, structs.CSIVolumeUnpublish, req)
			return err
		})
	}
	n.mu.Lock()
	delete(n.allocs, r.alloc.ID)
	n.ended[r.alloc.ID] = status
	n.mu.Unlock()
	n.reportStatus(node, r.alloc, status)
}

// awaitStopDelay waits as long as a task takes to stop.
func (n *Node) awaitStopDelay(ctx context.Context) {
	if n.stopDelay <= 0 {
		return
	}
	select {
	case <-time.After(n.stopDelay):
	case <-ctx.Done():
	}
}

func (n *Node) setWorks(r *running, works bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.works = works
}

// reportStatus reports the status of an allocation to the servers. One that runs is healthy.
func (n *Node) reportStatus(ctx context.Context, a *structs.Allocation, status string) {
	update := &structs.AllocClientUpdate{ID: a.ID, ClientStatus: status}
	if status == structs.AllocRunning {
		update.DeploymentID = a.DeploymentID
		update.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: new(true)}
	}
	_ = retry(ctx, func(ctx context.Context) error {
		_, err := rpc.Call(ctx, n.servers, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
			NodeID:   n.ID,
			SecretID: n.secret(),
			Allocs:   []*structs.AllocClientUpdate{update},
		})
		return err
	})
}

// reportAgain reports an allocation that the servers do not know the state of.
func (n *Node) reportAgain(ctx context.Context, r *running) {
	n.mu.Lock()
	works := r.works
	n.mu.Unlock()
	if works {
		n.reportStatus(ctx, r.alloc, structs.AllocRunning)
	}
}

// mountAll claims all volumes of an allocation at once, waits in their claim queues and mounts them. It also
// returns the completed mounts with an error.
func (n *Node) mountAll(ctx context.Context, r *running) (mounts []mountedVolume, err error) {
	a := r.alloc
	group := a.Job.Group(a.TaskGroup)
	req := &structs.CSIVolumeClaimRequest{
		NodeID:   n.ID,
		SecretID: n.secret(),
	}
	for _, v := range group.Volumes {
		c := v.Claim(a.Namespace, a.Index(), a.ID)
		c.AllocID = a.ID
		c.Guarded = n.guarded
		req.Claims = append(req.Claims, c)
	}
	if len(req.Claims) == 0 {
		return nil, nil
	}
	err = retry(ctx, func(ctx context.Context) error {
		_, err := rpc.Call(ctx, n.servers, structs.CSIVolumeClaim, req)
		return err
	})
	for _, c := range req.Claims {
		if err != nil {
			return mounts, err
		}
		var m *mountedVolume
		m, err = n.mountOne(ctx, r, c)
		if m != nil {
			mounts = append(mounts, *m)
		}
	}
	return mounts, err
}

// mountOne mounts a volume as soon as its claim is ready. It asks again if the servers have returned to an
// older state since their answer.
func (n *Node) mountOne(ctx context.Context, r *running, c *structs.CSIClaim) (*mountedVolume, error) {
	for {
		asked := time.Now()
		ready, err := n.awaitClaim(ctx, c)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		if n.unaccountedSince.After(asked) {
			n.mu.Unlock()
			continue
		}
		external := ready.Volume.ExternalID
		attach := n.plugins[ready.Volume.PluginID].Attach
		err = n.Storage.mount(n.Name, external, c, attach)
		r.grants[c.Key()] = ready.Claim.GrantIndex
		n.mu.Unlock()
		return &mountedVolume{c.Key(), external}, err
	}
}

// awaitClaim waits until the volume of a claim may be staged.
func (n *Node) awaitClaim(ctx context.Context, c *structs.CSIClaim) (*structs.CSIClaimGetResponse, error) {
	req := &structs.CSIClaimGetRequest{
		VolumeID: c.VolumeID,
		AllocID:  c.AllocID,
		NodeID:   n.ID,
		SecretID: n.secret(),
	}
	req.Namespace = c.Namespace
	for {
		var resp *structs.CSIClaimGetResponse
		err := retry(ctx, func(ctx context.Context) (err error) {
			resp, err = rpc.Call(ctx, n.servers, structs.CSIClaimGet, req)
			return err
		})
		if err != nil || resp.Ready {
			return resp, err
		}
		req.MinIndex = resp.Index
		req.MaxWait = 3 * time.Second
	}
}
