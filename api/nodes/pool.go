package nodes

import (
	"context"

	"berth/api"
	"berth/internal/conf"
	"berth/structs"
	"berth/structs/cluster"
)

var nodePoolList = api.NewEndpoint(&table, api.Get, "/v1/node/pools",
	api.ServeList(cluster.NodePoolList, nil,
		func(a *cluster.NodePoolListResponse) []*cluster.NodePool {
			return a.Pools
		}))

// ListPools lists the node pools.
func ListPools(ctx context.Context, c *api.Client, q *api.Query) (
	[]*cluster.NodePool, *api.Meta, error,
) {
	return nodePoolList.Fetch(ctx, c, "", q)
}

var nodePoolGet = api.NewEndpoint(&table, api.Get, api.PoolPrefix+"{id}",
	api.ServeMethod(cluster.NodePoolGet, bindNodePool,
		func(a *cluster.NodePoolGetResponse) *cluster.NodePool {
			return a.Pool
		}))

var bindNodePool = api.WithID(func(q *cluster.NodePoolGetRequest, id string) { q.Name = id })

// GetPool reads one node pool.
func GetPool(ctx context.Context, c *api.Client, name string, q *api.Query) (
	*cluster.NodePool, *api.Meta, error,
) {
	return nodePoolGet.Fetch(ctx, c, name, q)
}

var nodePoolNodes = api.NewEndpoint(&table, api.Get, api.PoolPrefix+"{id}/nodes",
	api.ServeList(cluster.NodePoolNodes, bindNodePool,
		func(a *structs.NodeListResponse) []*structs.NodeListStub {
			return a.Nodes
		}))

// ListPoolNodes lists the nodes of a node pool.
func ListPoolNodes(ctx context.Context, c *api.Client, name string, q *api.Query) (
	[]*structs.NodeListStub, *api.Meta, error,
) {
	return nodePoolNodes.Fetch(ctx, c, name, q)
}

var nodePoolJobs = api.NewEndpoint(&table, api.Get, api.PoolPrefix+"{id}/jobs",
	api.ServeList(cluster.NodePoolJobs, bindNodePool,
		func(a *structs.JobListResponse) []*structs.JobListStub {
			return a.Jobs
		}))

// ListPoolJobs lists the jobs that name a node pool.
func ListPoolJobs(ctx context.Context, c *api.Client, name string, q *api.Query) (
	[]*structs.JobListStub, *api.Meta, error,
) {
	return nodePoolJobs.Fetch(ctx, c, name, q)
}

var (
	nodePoolApply = api.NewEndpoint(&table, api.Put, "/v1/node/pools",
		api.ServeMethod(cluster.NodePoolApply, bindNodePoolApply, api.Whole))

	_ = nodePoolApply.At(api.Put, api.PoolPrefix+"{id}")
)

func bindNodePoolApply(c *api.Call, req *cluster.NodePoolApplyRequest) error {
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
	return p, conf.DecodeJSON(src, p, api.DialectDefault)
}

// PutPool creates a node pool, or replaces its description, meta and settings.
func PutPool(ctx context.Context, c *api.Client, p *cluster.NodePool) error {
	return nodePoolApply.Exec(ctx, c, api.Request{Body: p})
}

var nodePoolDelete = api.NewEndpoint(&table, api.Remove, api.PoolPrefix+"{id}",
	api.ServeMethod(cluster.NodePoolDelete,
		api.WithID(func(q *cluster.NodePoolDeleteRequest, id string) { q.Name = id }), api.Whole))

// DeletePool deletes a node pool that no node and no job that is not dead names.
func DeletePool(ctx context.Context, c *api.Client, name string) error {
	return nodePoolDelete.Exec(ctx, c, api.Request{ID: name})
}
