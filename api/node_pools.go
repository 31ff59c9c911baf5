package api

import "berth/structs"

// poolPrefix is the prefix of the routes of one node pool. They have a mux of their own, because
// /v1/node/pool/{id} and /v1/node/{id}/purge both fit /v1/node/pool/purge. No node has the ID "pool".
const poolPrefix = "/v1/node/pool/"

var (
	_ = handle(get, "/v1/node/pools", serveList(structs.NodePoolList, nil,
		func(a *structs.NodePoolListResponse) []*structs.NodePool { return a.Pools }))
	_ = handle(get, poolPrefix+"{id}", serveMethod(structs.NodePoolGet, bindNodePool,
		func(a *structs.NodePoolGetResponse) *structs.NodePool { return a.Pool }))
	_ = handle(get, poolPrefix+"{id}/nodes", serveList(structs.NodePoolNodes, bindNodePool,
		func(a *structs.NodeListResponse) []*structs.NodeListStub { return a.Nodes }))
	_ = handle(get, poolPrefix+"{id}/jobs", serveList(structs.NodePoolJobs, bindNodePool,
		func(a *structs.JobListResponse) []*structs.JobListStub { return a.Jobs }))

	_ = handle(put, "/v1/node/pools", refusePool)
	_ = handle(put, poolPrefix+"{id}", refusePool)
	_ = handle(remove, poolPrefix+"{id}", refusePool)
)

var bindNodePool = withID(func(q *structs.NodePoolGetRequest, id string) { q.Name = id })

// refusePool rejects a change of a node pool.
func refusePool(*call) (any, error) {
	return nil, structs.Preconditionf("berth stores no node pools: a pool exists while a node names it; " +
		"set node_pool in the client block of the nodes")
}
