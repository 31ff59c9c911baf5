package endpoints

import (
	"context"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// updateTries bounds how often an update is worked out anew because the node's row had changed meanwhile.
const updateTries = 5

// update takes what changed of the node that asks, which says what is to come of it: where that differs, the two
// do not know the same of the node, and it is refused (precondition) so that the node registers.
func (n nodes) update(ctx context.Context, node *structs.Node, req *structs.NodeUpdateRequest) (*structs.Empty, error) {
	index, err := n.updateFrom(ctx, node, req)
	for range updateTries - 1 {
		if !structs.IsKind(err, structs.KindConflict) {
			break
		}
		if node = state.Node(n.store.Read(), req.NodeID); node == nil {
			return nil, noNode(req.NodeID)
		}
		index, err = n.updateFrom(ctx, node, req)
	}
	if structs.IsKind(err, structs.KindConflict) {
		err = structs.Errorf(structs.KindUnavailable, "nothing was written: %w", err)
	}
	return done(index, err)
}

// updateFrom changes the node as it is known. What is known already goes past the log.
func (n nodes) updateFrom(ctx context.Context, old *structs.Node, req *structs.NodeUpdateRequest) (uint64, error) {
	changed := req.Changed(old)
	if req.Digest != "" && changed.Digest() != req.Digest {
		return 0, structs.Errorf(structs.KindPrecondition, "node %s takes the servers to know other things of it than they do; it is to register", old.ID)
	}
	changed.Status = structs.NodeReady // whatever it is, it stays: a registration would say this
	said, err := registration(&structs.NodeRegisterRequest{Node: changed}, old)
	if err != nil {
		return 0, err
	}
	if structs.NodeEqual(old, said, reported) {
		return old.ModifyIndex, nil
	}
	own := *req
	own.ComputedClass, own.Was = said.ComputedClass, old.ModifyIndex
	if own.Settings != nil {
		own.Settings = said.Settings() // what was left out is filled in
	}
	return fsm.Propose(ctx, n.raft, fsm.NodeUpdate, &own)
}
