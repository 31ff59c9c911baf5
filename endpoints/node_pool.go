package endpoints

import (
	"cmp"
	"maps"
	"strings"

	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// nodePools serve NodePool.
type nodePools struct{ *Endpoints }

// allNodePools returns the pools by name. It reads all nodes.
func allNodePools(tx *state.ReadTx) map[string]*structs.NodePool {
	always := structs.Indexes{CreateIndex: 1, ModifyIndex: 1}
	pools := map[string]*structs.NodePool{
		structs.AllNodePools: {
			Name:        structs.AllNodePools,
			Description: "All nodes",
			Indexes:     always,
		},
		structs.DefaultNodePool: {
			Name:        structs.DefaultNodePool,
			Description: "The nodes whose configurations name no pool",
			Indexes:     always,
		},
	}
	for n := range state.Nodes(tx) {
		name := poolOf(n)
		p := pools[name]
		if p == nil || p.CreateIndex > n.CreateIndex {
			first := structs.Indexes{CreateIndex: n.CreateIndex, ModifyIndex: n.CreateIndex}
			pools[name] = &structs.NodePool{Name: name, Indexes: first}
		}
	}
	return pools
}

func poolOf(n *structs.Node) string {
	return cmp.Or(n.NodePool, structs.DefaultNodePool)
}

func findNodePool(tx *state.ReadTx, name string) (*structs.NodePool, error) {
	pool := allNodePools(tx)[name]
	if pool == nil {
		return nil, structs.NotFoundf("there is no node pool %q: no node names it in its configuration", name)
	}
	return pool, nil
}

func (nodePools) list(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *structs.NodePoolListResponse,
) (err error) {
	l := query.List[structs.NodePool, structs.NodePool]{
		Key:  func(p *structs.NodePool) []string { return []string{p.Name} },
		Stub: query.Whole[structs.NodePool],
		Keep: func(p *structs.NodePool) bool { return strings.HasPrefix(p.Name, req.Prefix) },
	}
	rows := query.Sorted(maps.Values(allNodePools(tx)), func(a, b *structs.NodePool) int {
		return cmp.Compare(a.Name, b.Name)
	}, req)
	resp.Pools, err = l.Page(rows, req, resp)
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
			return req.Name == structs.AllNodePools || poolOf(n) == req.Name
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
