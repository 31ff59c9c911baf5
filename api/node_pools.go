package api

import (
	"context"

	"berth/internal/strictjson"
	"berth/structs"
	"berth/structs/admin"
)

// poolPrefix is the prefix of the routes of one node pool. They have a mux of their own, because
// /v1/node/pool/{id} and /v1/node/{id}/purge both fit /v1/node/pool/purge. No node has the ID "pool".
const poolPrefix = "/v1/node/pool/"

var nodePoolList = route(get, "/v1/node/pools",
	serveList(admin.NodePoolList, nil,
		func(a *admin.NodePoolListResponse) []*admin.NodePool {
			return a.Pools
		}))

// NodePools lists the node pools.
func (c *Client) NodePools(ctx context.Context, q *Query) (
	[]*admin.NodePool, *Meta, error,
) {
	return nodePoolList.fetch(ctx, c, "", q)
}

var nodePoolGet = route(get, poolPrefix+"{id}",
	serveMethod(admin.NodePoolGet, bindNodePool,
		func(a *admin.NodePoolGetResponse) *admin.NodePool {
			return a.Pool
		}))

var bindNodePool = withID(func(q *admin.NodePoolGetRequest, id string) { q.Name = id })

// NodePool reads one node pool.
func (c *Client) NodePool(ctx context.Context, name string, q *Query) (
	*admin.NodePool, *Meta, error,
) {
	return nodePoolGet.fetch(ctx, c, name, q)
}

var nodePoolNodes = route(get, poolPrefix+"{id}/nodes",
	serveList(admin.NodePoolNodes, bindNodePool,
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
	serveList(admin.NodePoolJobs, bindNodePool,
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
		serveMethod(admin.NodePoolApply, bindNodePoolApply, whole))

	_ = handle(put, poolPrefix+"{id}", nodePoolApply.route.serve)
)

func bindNodePoolApply(c *call, req *admin.NodePoolApplyRequest) error {
	req.Pool = &admin.NodePool{}
	err := c.decodeBody(req.Pool)
	if err != nil || c.id() == "" {
		return err
	}
	err = c.sameID("node pool", req.Pool.Name)
	req.Pool.Name = c.id()
	return err
}

// DecodeNodePool decodes a node pool from the JSON of the API, as strictly as the API does.
func DecodeNodePool(src []byte) (*admin.NodePool, error) {
	p := &admin.NodePool{}
	return p, strictjson.Decode(src, p, dialectDefault)
}

// NodePoolApply creates a node pool, or replaces its description, meta and settings.
func (c *Client) NodePoolApply(ctx context.Context, p *admin.NodePool) error {
	return nodePoolApply.route.exec(ctx, c, request{body: p})
}

var nodePoolDelete = route(remove, poolPrefix+"{id}",
	serveMethod(admin.NodePoolDelete,
		withID(func(q *admin.NodePoolDeleteRequest, id string) { q.Name = id }), whole))

// NodePoolDelete deletes a node pool that no node and no job that is not dead names.
func (c *Client) NodePoolDelete(ctx context.Context, name string) error {
	return nodePoolDelete.route.exec(ctx, c, request{id: name})
}
