package endpoints

import (
	"context"
	"time"

	"berth/fsm"
	"berth/scheduler/drainer"
	"berth/state"
	"berth/structs"
)

// drain starts, changes or cancels the drain of a node. The leader's loop moves the allocations.
func (n nodes) drain(ctx context.Context, req *structs.NodeDrainRequest, _ *structs.Empty) (uint64, error) {
	err := req.Validate()
	if err != nil {
		return 0, err
	}
	if state.Node(n.store.Read(), req.NodeID) == nil {
		return 0, noNode(req.NodeID)
	}
	return fsm.Propose(ctx, n.raft, fsm.NodeDrain, req)
}

// drainStatus tells what the drain of a node waits for. Some reasons change with the time alone, so a client
// reads again without a change of the index.
func (n nodes) drainStatus(
	tx *state.ReadTx,
	req *structs.NodeGetRequest,
	resp *structs.NodeDrainStatusResponse,
) error {
	node := state.Node(tx, req.NodeID)
	if node == nil {
		return noNode(req.NodeID)
	}
	resp.NodeID = node.ID
	resp.DrainStrategy = node.DrainStrategy
	resp.LastDrain = node.LastDrain
	resp.Waits = drainer.Waits(tx, node, time.Now())
	return nil
}
