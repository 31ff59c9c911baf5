package csi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"berth/endpoints/core"
	"berth/fsm"
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

// mostCalled bounds the nodes that one request calls at the same time.
const mostCalled = 16

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

// callNodes calls the nodes that report calls for the volume as not made, and the nodes that mount it for an
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
	nodes = slices.DeleteFunc(slices.Compact(nodes), func(id string) bool {
		return !nodeconn.Reachable(state.Node(tx, id))
	})
	answers, failures := r.allowCalls(ctx, nodes, req)
	for i, id := range nodes {
		if failures[i] != nil {
			failed = errors.Join(failed, structs.Unavailablef(
				"node %s does not know that it has to make the calls for volume %q again; repeat the command: %w",
				structs.ShortID(id), v.ID, failures[i]))
			continue
		}
		for _, alloc := range waiting[id] {
			if slices.Contains(answers[i].AllocIDs, alloc) {
				mounts = append(mounts, &structs.CSIRetriedMount{NodeID: id, AllocID: alloc})
			}
		}
	}
	return mounts, failed
}

// allowCalls calls nodes side by side, so that some that hang delay the command only once. It returns the
// answers and the errors in the order of the nodes.
func (r Retries) allowCalls(
	ctx context.Context, nodes []string, req *nodecalls.ClientCSIAllowCallsRequest,
) ([]*nodecalls.ClientCSIAllowCallsResponse, []error) {
	answers := make([]*nodecalls.ClientCSIAllowCallsResponse, len(nodes))
	failures := make([]error, len(nodes))
	var calls errgroup.Group
	calls.SetLimit(mostCalled)
	for i, id := range nodes {
		calls.Go(func() error {
			to := nodeconn.Target{Nodes: r.Nodes, IDs: []string{id}, Limit: allowTimeout}
			answers[i], failures[i] = nodeconn.Call(ctx, to, nodecalls.ClientCSIAllowCalls, req)
			return nil
		})
	}
	_ = calls.Wait()
	return answers, failures
}

// waitingForMount returns the allocations that have the volume and do not run yet, by their nodes.
func waitingForMount(tx *state.ReadTx, v *structs.CSIVolume) map[string][]string {
	waiting := map[string][]string{}
	for _, c := range csi.ClaimsByVolume(tx, v.Namespace, v.ID) {
		a := state.Alloc(tx, c.AllocID)
		if c.State == structs.ClaimGranted && a != nil && a.ClientStatus == structs.AllocPending {
			waiting[c.NodeID] = append(waiting[c.NodeID], c.AllocID)
		}
	}
	return waiting
}
