package cluster

import (
	"berth/structs"
	"maps"
)

// BuiltInNodePool reports whether a pool always exists. It then has no row.
func BuiltInNodePool(name string) bool {
	return name == structs.AllNodePools || name == structs.DefaultNodePool
}

// RebootAsk is a value of NodePool.Reboot.
const RebootAsk = "ask"

// NodePool describes a node pool. A pool exists while it has a row or a node names it. The pools all and
// default always exist and have no rows.
type NodePool struct {
	Name        string
	Description string
	Meta        map[string]string
	// SchedulerConfiguration has the settings that differ from the cluster's. nil has none.
	SchedulerConfiguration *NodePoolSchedulerConfiguration `json:",omitempty" codec:",omitempty"`
	// Reboot is RebootAsk or "". With RebootAsk a node with volumes that was rebooted counts as lost, until
	// a proof: its machine may be one that was started twice.
	Reboot string `json:",omitempty" codec:",omitempty"`
	// Indexes are the row's. A pool that always exists has 1. Another pool without a row has the indexes of
	// its first node.
	structs.Indexes
}

// NodePoolSchedulerConfiguration has settings of the scheduler for the nodes of a pool. An empty one is that
// of the cluster.
type NodePoolSchedulerConfiguration struct {
	SchedulerAlgorithm            string // AlgorithmBinpack, AlgorithmSpread or ""
	MemoryOversubscriptionEnabled *bool
}

// Copy copies the pool with its map and its settings.
func (p *NodePool) Copy() *NodePool {
	c := *p
	c.Meta = maps.Clone(p.Meta)
	if p.SchedulerConfiguration != nil {
		c.SchedulerConfiguration = new(*p.SchedulerConfiguration)
	}
	return &c
}

// NodePoolList lists the node pools.
var NodePoolList = structs.Read[structs.QueryRequest, NodePoolListResponse]("NodePool.List")

// NodePoolListResponse has the pools by name.
type NodePoolListResponse struct {
	Pools []*NodePool
	structs.QueryMeta
}

// The methods that read one pool, its nodes or its jobs. The error is not-found if the pool does not exist.
var (
	NodePoolGet   = structs.Read[NodePoolGetRequest, NodePoolGetResponse]("NodePool.GetNodePool")
	NodePoolNodes = structs.Read[NodePoolGetRequest, structs.NodeListResponse]("NodePool.ListNodes")
	NodePoolJobs  = structs.Read[NodePoolGetRequest, structs.JobListResponse]("NodePool.ListJobs")
)

// NodePoolGetRequest names the pool.
type NodePoolGetRequest struct {
	Name string
	structs.QueryOptions
}

// NodePoolGetResponse has the pool.
type NodePoolGetResponse struct {
	Pool *NodePool
	structs.QueryMeta
}

// NodePoolApply creates a node pool, or replaces its description, meta and settings.
var NodePoolApply = structs.Write[NodePoolApplyRequest, structs.Empty]("NodePool.ApplyNodePool")

// NodePoolApplyRequest has the pool as it is to be.
type NodePoolApplyRequest struct {
	Pool *NodePool
	structs.WriteOptions
}

// NodePoolDelete deletes a node pool that no node and no job that is not dead names.
var NodePoolDelete = structs.Write[NodePoolDeleteRequest, structs.Empty]("NodePool.DeleteNodePool")

// NodePoolDeleteRequest names the pool.
type NodePoolDeleteRequest struct {
	Name string
	structs.WriteOptions
}
