package csi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/level"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Retries serve CSIVolume.Retry.
type Retries struct{ *core.Server }

// allowTimeout bounds a call to a node, which calls no plugin for it.
const allowTimeout = 10 * time.Second

// Retry makes the failed operations of a volume due. Before that, the nodes forget that calls for the volume
// have ended their plugin, and make its failed mounts again. A node that cannot be called does not matter:
// its plugin serves nobody.
func (r Retries) Retry(
	ctx context.Context, req *structs.CSIVolumeRetryRequest, resp *structs.CSIVolumeRetryResponse,
) (uint64, error) {
	var failed error
	v := csi.Volume(r.Store.Read(), req.RequestNamespace(), req.ID)
	if v != nil {
		resp.Mounts, failed = r.callNodes(ctx, v)
	}
	index, err := fsm.Propose(ctx, r.Raft, fsm.VolumeRetry, req)
	return index, errors.Join(err, failed)
}

// callNodes calls the nodes that report calls for the volume as not made, and those that mount it for an
// allocation that does not run yet.
func (r Retries) callNodes(
	ctx context.Context, v *structs.CSIVolume,
) (mounts []*structs.CSIRetriedMount, failed error) {
	tx := r.Store.Read()
	req := &nodecalls.ClientCSIAllowCallsRequest{
		PluginID:        v.PluginID,
		Volumes:         v.NamesOfCalls(),
		VolumeNamespace: v.Namespace,
		VolumeID:        v.ID,
	}
	waiting := waitingForMount(tx, v)
	nodes := slices.Collect(maps.Keys(waiting))
	for _, half := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		for i := range csi.InstancesByPluginKind(tx, v.PluginID, half) {
			if len(i.EndingCallsOf(req.Volumes)) > 0 {
				nodes = append(nodes, i.NodeID)
			}
		}
	}

	slices.Sort(nodes)
	for _, id := range slices.Compact(nodes) {
		if !nodeconn.Reachable(state.Node(tx, id)) {
			continue
		}
		to := nodeconn.Target{Nodes: r.Nodes, IDs: []string{id}, Limit: allowTimeout}
		resp, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIAllowCalls, req)
		if err != nil {
			failed = errors.Join(failed, structs.Unavailablef(
				"node %s does not know that it has to make the calls for volume %q again; repeat the command: %w",
				structs.ShortID(id), v.ID, err))
			continue
		}
		for _, alloc := range waiting[id] {
			if slices.Contains(resp.AllocIDs, alloc) {
				mounts = append(mounts, &structs.CSIRetriedMount{NodeID: id, AllocID: alloc})
			}
		}
	}
	return mounts, failed
}

// waitingForMount returns the allocations that have the volume and do not run yet, by their nodes.
func waitingForMount(tx *state.ReadTx, v *structs.CSIVolume) map[string][]string {
	waiting := map[string][]string{}
	for _, c := range csi.ClaimsByVolume(tx, v.Namespace, v.ID) {
		a := state.Alloc(tx, c.AllocID)
		n := state.Node(tx, c.NodeID)
		if n == nil || n.Level() == level.First { // its agent does not know the call
			continue
		}
		if c.State == structs.ClaimGranted && a != nil && a.ClientStatus == structs.AllocPending {
			waiting[c.NodeID] = append(waiting[c.NodeID], c.AllocID)
		}
	}
	return waiting
}
