package endpoints

import (
	"cmp"
	"context"

	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/validate"
)

// nodePools serve NodePool.
type nodePools struct{ *Endpoints }

func findNodePool(tx *state.ReadTx, name string) (*structs.NodePool, error) {
	for _, p := range state.NodePools(tx) {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, structs.NotFoundf("there is no node pool %q: it is not defined, and no node names it",
		structs.Cut(name, structs.MaxQuoted))
}

func (nodePools) list(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *structs.NodePoolListResponse,
) (err error) {
	name := func(p *structs.NodePool) string { return p.Name }
	resp.Pools, err = pageByName(state.NodePools(tx), name, req, resp)
	return err
}

func (nodePools) get(
	tx *state.ReadTx,
	req *structs.NodePoolGetRequest,
	resp *structs.NodePoolGetResponse,
) (err error) {
	resp.Pool, err = findNodePool(tx, req.Name)
	return err
}

func (p nodePools) apply(
	ctx context.Context,
	req *structs.NodePoolApplyRequest,
	_ *structs.Empty,
) (uint64, error) {
	if req.Pool == nil {
		return 0, structs.Invalidf("Pool: nothing is given; expected the node pool")
	}
	err := validate.NodePool(req.Pool)
	if err != nil {
		return 0, err
	}
	return fsm.Propose(ctx, p.raft, fsm.NodePoolApply, req)
}

func (nodePools) nodes(
	tx *state.ReadTx,
	req *structs.NodePoolGetRequest,
	resp *structs.NodeListResponse,
) error {
	_, err := findNodePool(tx, req.Name)
	if err != nil {
		return err
	}
	l := query.List[structs.Node, structs.NodeListStub]{
		Key:  nodeKey,
		Stub: setNodeStub,
		Keep: func(n *structs.Node) bool {
			return req.Name == structs.AllNodePools || state.PoolOf(n) == req.Name
		},
	}
	resp.Nodes, err = l.Page(state.NodesFrom(tx, req.Prefix, query.Start(req)), req, resp)
	return err
}

// jobs lists the jobs that name the pool. So the pool all has the jobs that may run on every node, and not
// all jobs.
func (nodePools) jobs(
	tx *state.ReadTx,
	req *structs.NodePoolGetRequest,
	resp *structs.JobListResponse,
) error {
	_, err := findNodePool(tx, req.Name)
	if err != nil {
		return err
	}
	l := newJobStubList(tx)
	l.Keep = func(j *structs.Job) bool {
		return cmp.Or(j.NodePool, structs.DefaultNodePool) == req.Name
	}
	rows := state.JobsFrom(tx,
		req.RequestNamespace(),
		req.Prefix,
		query.Start(req))
	resp.Jobs, err = l.Page(rows, req, resp)
	return err
}
