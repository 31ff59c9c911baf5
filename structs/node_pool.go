package structs

// AllNodePools is the pool of every node. A job in it may run on each of them.
const AllNodePools = "all"

// NodePool describes a node pool. It is no row: the configurations of the nodes name the pools, and a pool
// exists as long as a node names it. The pools all and default always exist.
type NodePool struct {
	Name        string
	Description string
	Meta        map[string]string
	// Indexes are those of the pool's first node; 1 for a pool that always exists.
	Indexes
}

// NodePoolList lists the node pools.
var NodePoolList = read[QueryRequest, NodePoolListResponse]("NodePool.List")

// NodePoolListResponse has the pools by name.
type NodePoolListResponse struct {
	Pools []*NodePool
	QueryMeta
}

// The methods that read one pool, its nodes or its jobs. The error is not-found if the pool does not exist.
var (
	NodePoolGet   = read[NodePoolGetRequest, NodePoolGetResponse]("NodePool.GetNodePool")
	NodePoolNodes = read[NodePoolGetRequest, NodeListResponse]("NodePool.ListNodes")
	NodePoolJobs  = read[NodePoolGetRequest, JobListResponse]("NodePool.ListJobs")
)

// NodePoolGetRequest names the pool.
type NodePoolGetRequest struct {
	Name string
	QueryOptions
}

// NodePoolGetResponse has the pool.
type NodePoolGetResponse struct {
	Pool *NodePool
	QueryMeta
}
