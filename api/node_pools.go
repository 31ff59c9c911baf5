package api

import (
	"context"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/admin"
)

// poolPrefix is the prefix of the routes of one node pool. They have a mux of their own, because
// /v1/node/pool/{id} and /v1/node/{id}/purge both fit /v1/node/pool/purge. No node has the ID "pool".
const poolPrefix = "/v1/node/pool/"

var nodePoolList = NewEndpoint(Get, "/v1/node/pools",
	ServeList(admin.NodePoolList, nil,
		func(a *admin.NodePoolListResponse) []*admin.NodePool {
			return a.Pools
		}))

// NodePools lists the node pools.
func (c *Client) NodePools(ctx context.Context, q *Query) (
	[]*admin.NodePool, *Meta, error,
) {
	return nodePoolList.Fetch(ctx, c, "", q)
}

var nodePoolGet = NewEndpoint(Get, poolPrefix+"{id}",
	ServeMethod(admin.NodePoolGet, bindNodePool,
		func(a *admin.NodePoolGetResponse) *admin.NodePool {
			return a.Pool
		}))

var bindNodePool = WithID(func(q *admin.NodePoolGetRequest, id string) { q.Name = id })

// NodePool reads one node pool.
func (c *Client) NodePool(ctx context.Context, name string, q *Query) (
	*admin.NodePool, *Meta, error,
) {
	return nodePoolGet.Fetch(ctx, c, name, q)
}

var nodePoolNodes = NewEndpoint(Get, poolPrefix+"{id}/nodes",
	ServeList(admin.NodePoolNodes, bindNodePool,
		func(a *structs.NodeListResponse) []*structs.NodeListStub {
			return a.Nodes
		}))

// NodePoolNodes lists the nodes of a node pool.
func (c *Client) NodePoolNodes(ctx context.Context, name string, q *Query) (
	[]*structs.NodeListStub, *Meta, error,
) {
	return nodePoolNodes.Fetch(ctx, c, name, q)
}

var nodePoolJobs = NewEndpoint(Get, poolPrefix+"{id}/jobs",
	ServeList(admin.NodePoolJobs, bindNodePool,
		func(a *structs.JobListResponse) []*structs.JobListStub {
			return a.Jobs
		}))

// NodePoolJobs lists the jobs that name a node pool.
func (c *Client) NodePoolJobs(ctx context.Context, name string, q *Query) (
	[]*structs.JobListStub, *Meta, error,
) {
	return nodePoolJobs.Fetch(ctx, c, name, q)
}

var (
	nodePoolApply = NewEndpoint(Put, "/v1/node/pools",
		ServeMethod(admin.NodePoolApply, bindNodePoolApply, Whole))

	_ = Handle(Put, poolPrefix+"{id}", nodePoolApply.route.serve)
)

func bindNodePoolApply(c *Call, req *admin.NodePoolApplyRequest) error {
	req.Pool = &admin.NodePool{}
	err := c.DecodeBody(req.Pool)
	if err != nil || c.ID() == "" {
		return err
	}
	err = c.SameID("node pool", req.Pool.Name)
	req.Pool.Name = c.ID()
	return err
}

// DecodeNodePool decodes a node pool from the JSON of the API, as strictly as the API does.
func DecodeNodePool(src []byte) (*admin.NodePool, error) {
	p := &admin.NodePool{}
	return p, conf.DecodeJSON(src, p, dialectDefault)
}

// NodePoolApply creates a node pool, or replaces its description, meta and settings.
func (c *Client) NodePoolApply(ctx context.Context, p *admin.NodePool) error {
	return nodePoolApply.route.exec(ctx, c, Request{Body: p})
}

var nodePoolDelete = NewEndpoint(Remove, poolPrefix+"{id}",
	ServeMethod(admin.NodePoolDelete,
		WithID(func(q *admin.NodePoolDeleteRequest, id string) { q.Name = id }), Whole))

// NodePoolDelete deletes a node pool that no node and no job that is not dead names.
func (c *Client) NodePoolDelete(ctx context.Context, name string) error {
	return nodePoolDelete.route.exec(ctx, c, Request{ID: name})
}
