package cluster

import (
	"context"
	"time"

	"berth/rpc"
	"berth/structs"
)

// running is an allocation on the node.
type running struct {
	alloc  *structs.Allocation
	stop   context.CancelFunc
	finish chan string // the status with which its task ends by itself
}

// held is a volume that an allocation has mounted.
type held struct {
	key      structs.CSIClaimKey
	external string
}

func (n *Node) begin(ctx context.Context, a *structs.Allocation) {
	life, stop := context.WithCancel(ctx)
	r := &running{alloc: a, stop: stop, finish: make(chan string, 1)}
	n.mu.Lock()
	n.allocs[a.ID] = r
	n.mu.Unlock()
	n.wg.Go(func() {
		defer stop()
		n.live(ctx, life, r)
	})
}

// Finish ends an allocation's task by itself, with a client status.
func (n *Node) Finish(allocID, status string) {
	n.c.T.Helper()
	n.mu.Lock()
	r := n.allocs[allocID]
	n.mu.Unlock()
	if r == nil {
		n.c.T.Fatalf("allocation %s does not run on node %s", allocID, n.Name)
	}
	r.finish <- status
}

// live is the life of an allocation: claim, mount, run, unmount, release, say so. node ends with the node,
// and then nothing is cleaned up; life ends with the servers' wish that it runs.
func (n *Node) live(node, life context.Context, r *running) {
	status := structs.AllocComplete
	mounts, err := n.mountAll(life, r.alloc)
	switch {
	case err == nil:
		n.report(life, r.alloc.ID, structs.AllocRunning)
		select {
		case <-life.Done():
		case status = <-r.finish:
		}
	case life.Err() == nil:
		status = structs.AllocFailed
	}
	if node.Err() != nil {
		return
	}
	var keys []structs.CSIClaimKey
	for _, m := range mounts {
		n.Storage.unmount(n.Name, r.alloc.ID, m.external)
	}
	if g := r.alloc.Job.Group(r.alloc.TaskGroup); g != nil {
		for _, v := range g.Volumes {
			keys = append(keys, structs.CSIClaimKey{Namespace: r.alloc.Namespace, VolumeID: v.VolumeID(r.alloc.Index()), AllocID: r.alloc.ID})
		}
	}
	if len(keys) > 0 {
		_ = retry(node, func(ctx context.Context) error {
			_, err := rpc.Call(ctx, n.servers, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{NodeID: n.ID, SecretID: n.secret(), Claims: keys})
			return err
		})
	}
	n.mu.Lock()
	delete(n.allocs, r.alloc.ID)
	n.mu.Unlock()
	n.report(node, r.alloc.ID, status)
}

// report says of an allocation what became of it.
func (n *Node) report(ctx context.Context, alloc, status string) {
	_ = retry(ctx, func(ctx context.Context) error {
		_, err := rpc.Call(ctx, n.servers, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
			NodeID: n.ID, SecretID: n.secret(), Allocs: []*structs.AllocClientUpdate{{ID: alloc, ClientStatus: status}}})
		return err
	})
}

// mountAll claims all volumes of an allocation at once, waits in their lines and mounts them. What it
// mounted it returns with an error, too.
func (n *Node) mountAll(ctx context.Context, a *structs.Allocation) (mounts []held, err error) {
	group := a.Job.Group(a.TaskGroup)
	req := &structs.CSIVolumeClaimRequest{NodeID: n.ID, SecretID: n.secret()}
	for _, v := range group.Volumes {
		c := v.Claim(a.Namespace, a.Index())
		c.AllocID = a.ID
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
		var ready *structs.CSIClaimGetResponse
		if ready, err = n.awaitClaim(ctx, c); err != nil {
			return mounts, err
		}
		external := ready.Volume.ExternalID
		err = n.Storage.mount(n.Name, a.ID, external, c.VolumeID, c.AccessMode, ready.Attachment != nil)
		mounts = append(mounts, held{c.Key(), external})
	}
	return mounts, err
}

// awaitClaim waits until the volume of a claim may be staged.
func (n *Node) awaitClaim(ctx context.Context, c *structs.CSIClaim) (*structs.CSIClaimGetResponse, error) {
	req := &structs.CSIClaimGetRequest{VolumeID: c.VolumeID, AllocID: c.AllocID, NodeID: n.ID, SecretID: n.secret()}
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
