package state

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
)

// This file declares the tables of nodes and of the cluster, and lists all. The tables of volumes are in
// tables_csi.go, those of jobs in tables_jobs.go, those of the servers in tables_servers.go. A comment says
// which rows a sparse index has, and why its keys have their order.

var (
	// nodes has the nodes by ID.
	nodes = mvcc.NewTable("nodes", func(n *structs.Node) Key {
		return mvcc.KeyOf(n.ID)
	}).OnPut(sharing.Node)

	// Nodes that are down and accounted for, by the time at which they went down.
	nodesByDown = nodes.Index("down", func(n *structs.Node) Key {
		if n.Status != structs.NodeDown || n.Unaccounted {
			return nil
		}
		return mvcc.KeyOf(orderedTime(n.StatusUpdatedAt))
	})

	// Nodes that drain.
	drainingNodes = nodes.Index("draining", func(n *structs.Node) Key {
		return mvcc.KeyIf(n.DrainStrategy != nil, n.ID)
	})

	// Nodes that have not reported their volumes since a restore.
	unaccounted = nodes.Index("unaccounted", func(n *structs.Node) Key {
		return mvcc.KeyIf(n.Unaccounted, n.ID)
	})
)

// onlySchedulerConfig is the key of the one row of its table.
const onlySchedulerConfig = "config"

// schedulerConfig has one row, the configuration of the scheduler.
var schedulerConfig = mvcc.NewTable("scheduler_config", func(*structs.SchedulerConfiguration) Key {
	return mvcc.KeyOf(onlySchedulerConfig)
})

var (
	// namespaces has the definitions of namespaces by name.
	namespaces = mvcc.NewTable("namespaces", func(n *structs.Namespace) Key {
		return mvcc.KeyOf(n.Name)
	})

	// nodePools has the definitions of node pools by name.
	nodePools = mvcc.NewTable("node_pools", func(p *structs.NodePool) Key {
		return mvcc.KeyOf(p.Name)
	})
)

var (
	// siTokens has the tokens of Consul of tasks by allocation, task and accessor.
	siTokens = mvcc.NewTable("si_token_accessors", func(a *structs.SITokenAccessor) Key {
		return mvcc.KeyOf(a.AllocID, a.TaskName, a.AccessorID)
	})

	// Tokens that the leader revokes.
	revokedSITokens = siTokens.Index("revoked", func(a *structs.SITokenAccessor) Key {
		return mvcc.KeyIf(a.RevokeTime != 0, a.AllocID)
	})
)

// onlyCluster is the key of the one row of its table.
const onlyCluster = "cluster"

// clusterMetadata has one row, the ID of the cluster.
var clusterMetadata = mvcc.NewTable("cluster_metadata", func(*structs.ClusterMetadata) Key {
	return mvcc.KeyOf(onlyCluster)
})

// onlyLeaseBound is the key of the one row of its table.
const onlyLeaseBound = "leases"

// leaseBounds has one row, the longest lease that a leader may have granted.
var leaseBounds = mvcc.NewTable("lease_bounds", func(*structs.LeaseBound) Key {
	return mvcc.KeyOf(onlyLeaseBound)
})

var (
	// fenceRuns has the attempts to fence a node by node and number.
	fenceRuns = mvcc.NewTable("fence_runs", func(r *structs.FenceRun) Key {
		return mvcc.KeyOf(r.NodeID, mvcc.Ordered(r.Number))
	})

	// fenceOrders has the orders of operators to fence a node by node.
	fenceOrders = mvcc.NewTable("fence_orders", func(o *structs.FenceOrder) Key {
		return mvcc.KeyOf(o.NodeID)
	})
)

// allTables lists the tables in the order in which a snapshot file holds them.
var allTables = mvcc.Schema{
	Tables: []mvcc.AnyTable{
		nodes,
		plugins,
		instances,
		counts,
		volumes,
		claims,
		claimQueues,
		attachments,
		jobVersions,
		jobs,
		allocs,
		evals,
		unblocks,
		jobSubmissions,
		schedulerConfig,
		namespaces,
		nodePools,
		deployments,
		periodicLaunches,
		scalingEvents,
		siTokens,
		clusterMetadata,
		evalAllocs,
		leaseBounds,
		nodeLeases,
		autopilotConfig,
		fenceRuns, fenceOrders,
		pluginConfigs,
		rootKeys,
		secretsMarks,
		variables,
		authorities,
		joinTokens,
		certificates,
		revocations,
	},
}

// Tables returns all tables in the order in which a snapshot file holds them.
func Tables() []mvcc.AnyTable {
	return allTables.AllTables()
}
