package node

import (
	"context"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// Pools serve NodePool.
type Pools struct{ *core.Server }

// List lists the node pools by their names: pools that are defined or that nodes name.
func (Pools) List(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *cluster.NodePoolListResponse,
) (err error) {
	name := func(p *cluster.NodePool) string { return p.Name }
	resp.Pools, err = query.PageByName(state.NodePools(tx), name, req, resp)
	return err
}

// Get reads a node pool. The error is not-found. Pools without a definition are found too, if a node names
// them.
func (Pools) Get(
	tx *state.ReadTx,
	req *cluster.NodePoolGetRequest,
	resp *cluster.NodePoolGetResponse,
) (err error) {
	resp.Pool, err = core.FindNodePool(tx, req.Name)
	return err
}

// Apply defines a node pool or changes it. The error is invalid for a specification with faults.
func (p Pools) Apply(
	ctx context.Context,
	req *cluster.NodePoolApplyRequest,
	_ *structs.Empty,
) (uint64, error) {
	if req.Pool == nil {
		return 0, structs.Invalidf("Pool: nothing is given; expected the node pool")
	}

	err := validate.NodePool(req.Pool)
	if err != nil {
		return 0, err
	}
	return fsm.Propose(ctx, p.Raft, fsm.NodePoolApply, req)
}

// ListNodes lists the nodes of a pool, and of the whole cluster for the pool all.
func (Pools) ListNodes(
	tx *state.ReadTx,
	req *cluster.NodePoolGetRequest,
	resp *structs.NodeListResponse,
) error {
	// An empty list for a misspelt name would look like a pool without nodes.
	_, err := core.FindNodePool(tx, req.Name)
	if err != nil {
		return err
	}

	l := query.List[structs.Node, structs.NodeListStub]{
		Key:  nodeKey,
		Stub: setNodeStub,
		Keep: func(n *structs.Node) bool {
			// A row may name no pool: PoolOf gives it the default one.
			return req.Name == structs.AllNodePools || state.PoolOf(n) == req.Name
		},
	}

	resp.Nodes, err = l.Page(state.NodesFrom(tx, req.Prefix, query.Start(req)), req, resp)
	return err
}
