package node

import (
	"context"
	"maps"
	"slices"

	"berth/fsm"
	"berth/scheduler/drainer"
	"berth/state"
	"berth/structs"
	"berth/structs/validate"
)

// Drain starts, changes or cancels the drain of a node. The leader's loop moves the allocations.
func (n Nodes) Drain(ctx context.Context, req *structs.NodeDrainRequest, _ *structs.Empty) (uint64, error) {
	// The leader's loop reads the drain, plans a step and proposes it. A change between these would let the
	// step act on another drain.
	n.Drains.Lock()
	defer n.Drains.Unlock()
	node := state.Node(n.Store.Read(), req.NodeID)
	if node == nil {
		return 0, noNode(req.NodeID)
	}

	req = withNotesOf(node, req)
	err := validate.NodeDrain(req)
	if err != nil {
		// An operator wrote the notes: who drains the node and why. The end of a drain must not lose
		// them.
		return 0, err
	}
	return fsm.Propose(ctx, n.Raft, fsm.NodeDrain, req)
}

// withNotesOf returns a request with the notes of the drain, if it cancels the drain, or changes the drain
// and has no notes of its own.
func withNotesOf(node *structs.Node, req *structs.NodeDrainRequest) *structs.NodeDrainRequest {
	if node.LastDrain == nil {
		return req
	}

	// The copy leaves the request of a caller in this process as it was.
	own := *req
	switch cancels := req.DrainSpec == nil; {
	case cancels && len(req.Meta) > 0:
		// The notes of the request are added, and replace those with the same name.
		own.Meta = maps.Clone(node.LastDrain.Meta)
		if own.Meta == nil {
			own.Meta = map[string]string{}
		}

		maps.Copy(own.Meta, req.Meta)
	// A change of the deadline alone keeps the notes.
	case !cancels && len(req.Meta) == 0 && node.DrainStrategy != nil:
		own.Meta = node.LastDrain.Meta
	}
	return &own
}

// Leave drains the calling node, whose agent shuts down, or ends this drain when the agent is back.
func (n Nodes) Leave(
	ctx context.Context,
	req *structs.NodeLeaveRequest,
	_ *structs.Empty,
) (uint64, error) {
	n.Drains.Lock()
	defer n.Drains.Unlock()

	err := validate.DrainSpec(req.DrainSpec)
	if err != nil {
		return 0, err
	}
	// The state function decides whether the drain is the node's own: one that an operator has ordered stays.
	return fsm.Propose(ctx, n.Raft, fsm.NodeLeave, req)
}

// DrainStatus tells what the drain of a node waits for. Some reasons change with the time alone, so a client
// reads again without a change of the index.
func (n Nodes) DrainStatus(
	tx *state.ReadTx,
	req *structs.NodeGetRequest,
	resp *structs.NodeDrainStatusResponse,
) error {
	node := state.Node(tx, req.NodeID)
	if node == nil {
		return noNode(req.NodeID)
	}

	resp.NodeID = node.ID
	resp.NodeStatus = node.Status
	resp.DrainStrategy = node.DrainStrategy
	resp.LastDrain = node.LastDrain
	// The time is now and not an entry's: the deadline passes without one.
	resp.Waits = drainer.Waits(tx, node, n.Clock.Now())
	if req.Sees != nil {
		resp.Waits = slices.DeleteFunc(resp.Waits, func(w structs.DrainWait) bool {
			return !req.Sees(w.Namespace, w.AllocID)
		})
	}
	return nil
}
