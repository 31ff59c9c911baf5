package schema

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// This file declares the tables of nodes and of the cluster, and lists all. The tables of volumes are in
// tables_csi.go, of jobs in tables_jobs.go, and of the servers in tables_servers.go. A comment says
// which rows a sparse index has, and why its keys have their order.

var (
	// Nodes has the nodes by ID.
	Nodes = mvcc.NewTable("nodes", func(n *structs.Node) mvcc.Key {
		return mvcc.KeyOf(n.ID)
	}).OnPut(sharing.Node)

	// Nodes that are down and accounted for, by the time at which they went down.
	NodesByDown = Nodes.Index("down", func(n *structs.Node) mvcc.Key {
		if n.Status != structs.NodeDown || n.Unaccounted {
			return nil
		}
		return mvcc.KeyOf(orderedTime(n.StatusUpdatedAt))
	})

	// Nodes that drain.
	DrainingNodes = Nodes.Index("draining", func(n *structs.Node) mvcc.Key {
		return mvcc.KeyIf(n.DrainStrategy != nil, n.ID)
	})

	// Nodes that have not reported their volumes since a restore.
	UnaccountedNodes = Nodes.Index("unaccounted", func(n *structs.Node) mvcc.Key {
		return mvcc.KeyIf(n.Unaccounted, n.ID)
	})
)

// OnlySchedulerConfig is the key of the one row of its table.
const OnlySchedulerConfig = "config"

// SchedulerConfig has one row, the configuration of the scheduler.
var SchedulerConfig = mvcc.NewTable("scheduler_config", func(*cluster.SchedulerConfiguration) mvcc.Key {
	return mvcc.KeyOf(OnlySchedulerConfig)
})

var (
	// Namespaces has the definitions of namespaces by name.
	Namespaces = mvcc.NewTable("namespaces", func(n *cluster.Namespace) mvcc.Key {
		return mvcc.KeyOf(n.Name)
	}).OnChange(followQuota)

	// NamespacesByQuota has the namespaces that name a quota, by the quota.
	NamespacesByQuota = Namespaces.Index("quota", func(n *cluster.Namespace) mvcc.Key {
		return mvcc.KeyIf(n.Quota != "", n.Quota)
	})

	// NodePools has the definitions of node pools by name.
	NodePools = mvcc.NewTable("node_pools", func(p *cluster.NodePool) mvcc.Key {
		return mvcc.KeyOf(p.Name)
	})
)

var (
	// SITokens has the tokens of Consul of tasks by allocation, task and accessor.
	SITokens = mvcc.NewTable("si_token_accessors", func(a *access.SITokenAccessor) mvcc.Key {
		return mvcc.KeyOf(a.AllocID, a.TaskName, a.AccessorID)
	})

	// Tokens that the leader revokes.
	RevokedSITokens = SITokens.Index("revoked", func(a *access.SITokenAccessor) mvcc.Key {
		return mvcc.KeyIf(a.RevokeTime != 0, a.AllocID)
	})
)

// OnlyCluster is the key of the one row of its table.
const OnlyCluster = "cluster"

// ClusterMetadata has one row, the ID of the cluster.
var ClusterMetadata = mvcc.NewTable("cluster_metadata", func(*access.ClusterMetadata) mvcc.Key {
	return mvcc.KeyOf(OnlyCluster)
})

// OnlyLeaseBound is the key of the one row of its table.
const OnlyLeaseBound = "leases"

// LeaseBounds has one row, the longest lease that a leader may have granted.
var LeaseBounds = mvcc.NewTable("lease_bounds", func(*cluster.LeaseBound) mvcc.Key {
	return mvcc.KeyOf(OnlyLeaseBound)
})

var (
	// FenceRuns has the attempts to fence a node by node and number.
	FenceRuns = mvcc.NewTable("fence_runs", func(r *cluster.FenceRun) mvcc.Key {
		return mvcc.KeyOf(r.NodeID, mvcc.Ordered(r.Number))
	})

	// FenceOrders has the orders of operators to fence a node by node.
	FenceOrders = mvcc.NewTable("fence_orders", func(o *cluster.FenceOrder) mvcc.Key {
		return mvcc.KeyOf(o.NodeID)
	})

	// FencePins has the values that fence devices use for nodes, by the kind of their key, the key and their
	// name.
	FencePins = mvcc.NewTable("fence_pins", func(p *cluster.FencePin) mvcc.Key {
		return mvcc.KeyOf(p.Kind, p.Key, p.Name)
	})
)

// OnlyClusterTime is the key of the one row of its table.
const OnlyClusterTime = "time"

// ClusterTimes has one row, the time by which the servers count ages.
var ClusterTimes = mvcc.NewTable("cluster_time", func(*cluster.ClusterTime) mvcc.Key {
	return mvcc.KeyOf(OnlyClusterTime)
})

// WrongClocks has the servers whose wall clocks differ from the cluster time, by ID.
var WrongClocks = mvcc.NewTable("wrong_clocks", func(c *cluster.WrongClock) mvcc.Key {
	return mvcc.KeyOf(c.ServerID)
})

// All lists the tables in the order in which a snapshot file holds them.
var All = mvcc.Schema{
	Tables: []mvcc.AnyTable{
		Nodes,
		Plugins,
		Instances,
		PluginCounts,
		Volumes,
		Claims,
		ClaimQueues,
		Attachments,
		JobVersions,
		Jobs,
		Allocs,
		Evals,
		Unblocks,
		JobSubmissions,
		SchedulerConfig,
		Namespaces,
		NodePools,
		Deployments,
		PeriodicLaunches,
		ScalingEvents,
		SITokens,
		ClusterMetadata,
		EvalAllocs,
		LeaseBounds,
		NodeLeases,
		AutopilotConfig,
		FenceRuns, FenceOrders, FencePins,
		PluginConfigs,
		RootKeys,
		SecretsMarks,
		Variables,
		Authorities,
		JoinTokens,
		Certificates,
		Revocations,
		ACLPolicies,
		ACLRoles,
		ACLTokens, ACLMethodTokens, ACLDeletedTokens,
		ACLBootstraps, ACLModes,
		SigningKeys,
		AdmissionRules,
		ACLAuthMethods,
		ACLBindingRules,
		ACLLoginMarks,
		ACLOneTimeTokens,
		Quotas,
		QuotaUses,
		VolumeClasses, Exhausted,
		Snapshots,
		Drifts, DriftSummaries, Health,
		SnapshotSchedules,
		SnapshotGroups,
		HostClaims,
		ClusterTimes, WrongClocks,
	},
}

// Tables returns all tables in the order in which a snapshot file holds them.
func Tables() []mvcc.AnyTable {
	return All.AllTables()
}
