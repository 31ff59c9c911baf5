package csi

import (
	"context"
	"errors"
	"time"

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

// Retry makes the failed operations of a volume due. Before that, the nodes forget that calls for the volume
// have ended their plugin. A node that cannot be called does not matter: its plugin serves nobody.
func (r Retries) Retry(
	ctx context.Context, req *structs.CSIVolumeRetryRequest, _ *structs.Empty,
) (uint64, error) {
	var failed error
	v := csi.Volume(r.Store.Read(), req.RequestNamespace(), req.ID)
	if v != nil {
		failed = r.allowCalls(ctx, v)
	}
	index, err := fsm.Propose(ctx, r.Raft, fsm.VolumeRetry, req)
	return index, errors.Join(err, failed)
}

// allowCalls calls the nodes that report calls for the volume as not made.
func (r Retries) allowCalls(ctx context.Context, v *structs.CSIVolume) error {
	tx := r.Store.Read()
	names := v.NamesOfCalls()
	nodes := map[string]bool{}
	for _, half := range []structs.CSIKind{structs.CSIKindController, structs.CSIKindNode} {
		for i := range csi.InstancesByPluginKind(tx, v.PluginID, half) {
			if len(i.EndingCallsOf(names)) > 0 && nodeconn.Reachable(state.Node(tx, i.NodeID)) {
				nodes[i.NodeID] = true
			}
		}
	}

	var failed error
	for id := range nodes {
		to := nodeconn.Target{Nodes: r.Nodes, IDs: []string{id}, Limit: allowTimeout}
		req := &nodecalls.ClientCSIAllowCallsRequest{PluginID: v.PluginID, Volumes: names}
		_, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIAllowCalls, req)
		if err != nil {
			failed = errors.Join(failed, structs.Unavailablef(
				"node %s still makes no calls for volume %q that have ended its plugin; repeat the command: %w",
				structs.ShortID(id), v.ID, err))
		}
	}
	return failed
}
