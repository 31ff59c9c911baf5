package api

import (
	"context"

	"berth/internal/conf"
	"berth/structs"
	"berth/structs/cluster"
)

// poolPrefix is the prefix of the routes of one node pool. They have a mux of their own, because
// /v1/node/pool/{id} and /v1/node/{id}/purge both fit /v1/node/pool/purge. No node has the ID "pool".
const poolPrefix = "/v1/node/pool/"

var nodePoolList = NewEndpoint(Get, "/v1/node/pools",
	ServeList(cluster.NodePoolList, nil,
		func(a *cluster.NodePoolListResponse) []*cluster.NodePool {
			return a.Pools
		}))

// NodePools lists the node pools.
func (c *Client) NodePools(ctx context.Context, q *Query) (
	[]*cluster.NodePool, *Meta, error,
) {
	return nodePoolList.Fetch(ctx, c, "", q)
}

var nodePoolGet = NewEndpoint(Get, poolPrefix+"{id}",
	ServeMethod(cluster.NodePoolGet, bindNodePool,
		func(a *cluster.NodePoolGetResponse) *cluster.NodePool {
			return a.Pool
		}))

var bindNodePool = WithID(func(q *cluster.NodePoolGetRequest, id string) { q.Name = id })

// NodePool reads one node pool.
func (c *Client) NodePool(ctx context.Context, name string, q *Query) (
	*cluster.NodePool, *Meta, error,
) {
	return nodePoolGet.Fetch(ctx, c, name, q)
}

var nodePoolNodes = NewEndpoint(Get, poolPrefix+"{id}/nodes",
	ServeList(cluster.NodePoolNodes, bindNodePool,
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
	ServeList(cluster.NodePoolJobs, bindNodePool,
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
		ServeMethod(cluster.NodePoolApply, bindNodePoolApply, Whole))

	_ = Handle(Put, poolPrefix+"{id}", nodePoolApply.route.serve)
)

func bindNodePoolApply(c *Call, req *cluster.NodePoolApplyRequest) error {
	req.Pool = &cluster.NodePool{}
	err := c.DecodeBody(req.Pool)
	if err != nil || c.ID() == "" {
		return err
	}
	err = c.SameID("node pool", req.Pool.Name)
	req.Pool.Name = c.ID()
	return err
}

// DecodeNodePool decodes a node pool from the JSON of the API, as strictly as the API does.
func DecodeNodePool(src []byte) (*cluster.NodePool, error) {
	p := &cluster.NodePool{}
	return p, conf.DecodeJSON(src, p, dialectDefault)
}

// NodePoolApply creates a node pool, or replaces its description, meta and settings.
func (c *Client) NodePoolApply(ctx context.Context, p *cluster.NodePool) error {
	return nodePoolApply.route.exec(ctx, c, Request{Body: p})
}

var nodePoolDelete = NewEndpoint(Remove, poolPrefix+"{id}",
	ServeMethod(cluster.NodePoolDelete,
		WithID(func(q *cluster.NodePoolDeleteRequest, id string) { q.Name = id }), Whole))

// NodePoolDelete deletes a node pool that no node and no job that is not dead names.
func (c *Client) NodePoolDelete(ctx context.Context, name string) error {
	return nodePoolDelete.route.exec(ctx, c, Request{ID: name})
}
