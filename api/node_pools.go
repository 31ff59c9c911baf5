package api

import (
	"context"

	"berth/internal/strictjson"
	"berth/structs"
)

// poolPrefix is the prefix of the routes of one node pool. They have a mux of their own, because
// /v1/node/pool/{id} and /v1/node/{id}/purge both fit /v1/node/pool/purge. No node has the ID "pool".
const poolPrefix = "/v1/node/pool/"

var nodePoolList = route(get, "/v1/node/pools",
	serveList(structs.NodePoolList, nil,
		func(a *structs.NodePoolListResponse) []*structs.NodePool {
			return a.Pools
		}))

// NodePools lists the node pools.
func (c *Client) NodePools(ctx context.Context, q *Query) (
	[]*structs.NodePool, *Meta, error,
) {
	return nodePoolList.fetch(ctx, c, "", q)
}

var nodePoolGet = route(get, poolPrefix+"{id}",
	serveMethod(structs.NodePoolGet, bindNodePool,
		func(a *structs.NodePoolGetResponse) *structs.NodePool {
			return a.Pool
		}))

var bindNodePool = withID(func(q *structs.NodePoolGetRequest, id string) { q.Name = id })

// NodePool reads one node pool.
func (c *Client) NodePool(ctx context.Context, name string, q *Query) (
	*structs.NodePool, *Meta, error,
) {
	return nodePoolGet.fetch(ctx, c, name, q)
}

var nodePoolNodes = route(get, poolPrefix+"{id}/nodes",
	serveList(structs.NodePoolNodes, bindNodePool,
		func(a *structs.NodeListResponse) []*structs.NodeListStub {
			return a.Nodes
		}))

// NodePoolNodes lists the nodes of a node pool.
func (c *Client) NodePoolNodes(ctx context.Context, name string, q *Query) (
	[]*structs.NodeListStub, *Meta, error,
) {
	return nodePoolNodes.fetch(ctx, c, name, q)
}

var nodePoolJobs = route(get, poolPrefix+"{id}/jobs",
	serveList(structs.NodePoolJobs, bindNodePool,
		func(a *structs.JobListResponse) []*structs.JobListStub {
			return a.Jobs
		}))

// NodePoolJobs lists the jobs that name a node pool.
func (c *Client) NodePoolJobs(ctx context.Context, name string, q *Query) (
	[]*structs.JobListStub, *Meta, error,
) {
	return nodePoolJobs.fetch(ctx, c, name, q)
}

var (
	nodePoolApply = route(put, "/v1/node/pools",
		serveMethod(structs.NodePoolApply, bindNodePoolApply, whole))

	_ = handle(put, poolPrefix+"{id}", nodePoolApply.route.serve)
)

func bindNodePoolApply(c *call, req *structs.NodePoolApplyRequest) error {
	req.Pool = &structs.NodePool{}
	err := c.decodeBody(req.Pool)
	if err != nil || c.id() == "" {
		return err
	}
	err = c.sameID("node pool", req.Pool.Name)
	req.Pool.Name = c.id()
	return err
}

// DecodeNodePool decodes a node pool from the JSON of the API, as strictly as the API does.
func DecodeNodePool(src []byte) (*structs.NodePool, error) {
	p := &structs.NodePool{}
	return p, strictjson.Decode(src, p, dialectDefault)
}

// NodePoolApply creates a node pool, or replaces its description, meta and settings.
func (c *Client) NodePoolApply(ctx context.Context, p *structs.NodePool) error {
	return nodePoolApply.route.exec(ctx, c, request{body: p})
}

var nodePoolDelete = route(remove, poolPrefix+"{id}",
	serveMethod(structs.NodePoolDelete,
		withID(func(q *structs.NodePoolDeleteRequest, id string) { q.Name = id }), whole))

// NodePoolDelete deletes a node pool that no node and no job that is not dead names.
func (c *Client) NodePoolDelete(ctx context.Context, name string) error {
	return nodePoolDelete.route.exec(ctx, c, request{id: name})
}
