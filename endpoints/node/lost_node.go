package node

import (
	"cmp"
	"context"
	"slices"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// Lost serves the procedures about nodes that are lost: see structs/cluster.
type Lost struct{ *core.Server }

// Fence orders a run of the devices for a node. The leader's loop carries it out.
func (l Lost) Fence(
	ctx context.Context, req *cluster.NodeFenceRequest, _ *structs.Empty,
) (uint64, error) {
	n, err := l.find(req.NodeID)
	if err == nil {
		err = checkOperator(req)
	}
	if err != nil {
		return 0, err
	}

	// An order that no device can carry out is rejected at once, with the way out.
	tx := l.Store.Read()
	devices, others := l.FenceDevices(tx, n, state.LostClaims(tx, n.ID))
	if !slices.ContainsFunc(devices, (*cluster.FenceDevice).Useful) {
		return 0, structs.Preconditionf("no fence device of the servers matches node %s and covers its volumes%s; "+
			"if the machine is off: berth node confirm-lost %s", n.Name, cluster.MismatchText(others),
			structs.ShortID(n.ID))
	}
	return fsm.Propose(ctx, l.Raft, fsm.FenceOrdered, req)
}

// Confirm records the word of an operator that a machine is off, and releases the volumes of its node.
func (l Lost) Confirm(
	ctx context.Context, req *cluster.NodeFenceRequest, _ *structs.Empty,
) (uint64, error) {
	_, err := l.find(req.NodeID)
	if err == nil {
		err = checkOperator(req)
	}

	if err != nil {
		return 0, err
	}

	// This stands in the log of the server also if the entry fails.
	l.Logger.Warn("operator confirms that a node is lost",
		"node_id", req.NodeID,
		"by", req.By,
		"reason", req.Why)
	return fsm.Propose(ctx, l.Raft, fsm.ConfirmLost, req)
}

// checkOperator bounds the texts of an operator, which rows store. An operator without a name gets one.
func checkOperator(req *cluster.NodeFenceRequest) error {
	req.By = cmp.Or(req.By, "an operator")
	if len(req.Why) > structs.MaxText || len(req.By) > structs.MaxName {
		return structs.Invalidf("Why and By may have %d and %d bytes", structs.MaxText, structs.MaxName)
	}
	return nil
}

// find returns not-found for a node that is not registered.
func (l Lost) find(id string) (*structs.Node, error) {
	n := state.Node(l.Store.Read(), id)
	if n == nil {
		return nil, noNode(structs.Cut(id, structs.MaxQuoted))
	}
	return n, nil
}

// Test runs the action monitor of the devices of a node. It has no effect on the state or on the machine, but
// it runs programs of the servers: only the operator socket may ask for it.
func (l Lost) Test(
	ctx context.Context, req *structs.NodeGetRequest,
) (*cluster.NodeFenceTestResponse, error) {
	tx := l.Store.Read()
	n := state.Node(tx, req.NodeID)
	if n == nil {
		return nil, noNode(structs.Cut(req.NodeID, structs.MaxQuoted))
	}

	resp := &cluster.NodeFenceTestResponse{Results: []*cluster.FenceTest{}}
	if l.Fencing != nil {
		resp.Results = l.Fencing.Test(ctx, state.FenceTargetOf(tx, n))
	}
	return resp, nil
}

// Status shows the facts about the loss of a node.
func (l Lost) Status(
	tx *state.ReadTx, req *structs.NodeGetRequest, resp *cluster.NodeFenceStatusResponse,
) error {
	n := state.Node(tx, req.NodeID)
	if n == nil {
		return noNode(req.NodeID)
	}

	resp.NodeID = n.ID
	resp.Name = n.Name
	resp.Status = n.Status
	resp.Since = n.StatusUpdatedAt
	resp.Epoch = n.Epoch
	resp.Order = state.FenceOrder(tx, n.ID)
	resp.Runs = state.FenceRuns(tx, n.ID)
	slices.Reverse(resp.Runs)
	resp.Claims = state.LostClaims(tx, n.ID)
	resp.Devices, resp.Others = l.FenceDevices(tx, n, resp.Claims)
	// The brake stops the automatic fencing, which is about lost nodes alone.
	if n.Lost() {
		resp.Brake = state.FenceBrake(tx)
	}
	return nil
}
