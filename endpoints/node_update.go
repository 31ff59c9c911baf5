package endpoints

import (
	"context"

	"berth/fsm"
	"berth/structs"
)

// update takes what changed of the node that asks. The node says what is to come of it. Where that differs,
// the node and the servers do not know the same of it; the update is refused (precondition) so that the
// node registers. An update that changes nothing goes past the log.
func (n nodes) update(
	ctx context.Context, node *structs.Node, req *structs.NodeUpdateRequest,
) (*structs.Empty, error) {
	changed := req.Changed(node)
	if req.Digest != "" && changed.Digest() != req.Digest {
		return nil, structs.Errorf(structs.KindPrecondition,
			"node %s takes the servers to know other things of it than they do; it is to register", node.ID)
	}
	changed.Status = structs.NodeReady // whatever it is, it stays: a registration would say this
	is, err := registration(&structs.NodeRegisterRequest{Node: changed}, node)
	if err != nil {
		return nil, err
	}
	if structs.NodeEqual(node, is, reported) {
		return done(node.ModifyIndex, nil)
	}
	entry := *req
	entry.ComputedClass = ""
	entry.Was = 0
	if entry.Settings != nil {
		entry.Settings = is.Settings() // with what was left out
	}
	return done(fsm.Propose(ctx, n.raft, fsm.NodeUpdate, &entry))
}
