package state

import (
	"berth/internal/mvcc"
	"berth/state/sharing"
	"berth/structs"
)

// This file declares the tables and their indexes, with schema_servers.go. A comment says which rows a sparse
// index has, and why its keys have their order.

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

var (
	// plugins has the plugins by ID.
	plugins = mvcc.NewTable("csi_plugins", func(p *structs.CSIPluginRow) Key {
		return mvcc.KeyOf(p.ID)
	})

	// instances has the reports on the halves of plugins by plugin, kind and node.
	instances = mvcc.NewTable("csi_plugin_instances", func(i *structs.CSIPluginInstance) Key {
		return mvcc.KeyOf(i.PluginID, string(i.Kind), i.NodeID)
	}).OnPut(sharing.Instance)

	// Node instances by the topology segments that no other node has: a driver of local storage names the node
	// in a segment. Other segments have many nodes. A query finds some of these nodes quickly without an index.
	instancesByOwnSegment = instances.MultiIndex("own_segment", func(i *structs.CSIPluginInstance) []Key {
		var keys []Key
		for _, s := range ownSegments(i) {
			key := mvcc.KeyOf(i.PluginID, s[0], s[1], i.NodeID)
			keys = append(keys, key)
		}
		return keys
	})

	// The counters of each half of a plugin, so that a response for one volume needs no count of the fleet.
	// Every function that puts or deletes an instance, or an allocation that runs a plugin, updates them.
	counts = mvcc.NewTable("csi_plugin_counts", func(c *structs.CSIPluginCountRow) Key {
		return mvcc.KeyOf(c.PluginID, string(c.Kind))
	})
)

var (
	// volumes has the volumes by namespace and ID.
	volumes = mvcc.NewTable("csi_volumes", func(v *structs.CSIVolume) Key {
		return mvcc.KeyOf(v.Namespace, v.ID)
	}).OnPut(sharing.Volume)

	// By plugin and, within it, by the ID that the plugin gave, "" while it is not known.
	volumesByPlugin = volumes.UniqueIndex("plugin", func(v *structs.CSIVolume) Key {
		return mvcc.KeyOf(v.PluginID, v.ExternalID, v.Namespace, v.ID)
	})

	// Volumes that need a call of the leader: a creation, a deletion or an expansion.
	unsettledVolumes = volumes.Index("unsettled", func(v *structs.CSIVolume) Key {
		return mvcc.KeyIf(v.Unsettled(), v.State)
	})
)

var (
	// claims has the claims by namespace, volume and allocation.
	claims = mvcc.NewTable("csi_claims", func(c *structs.CSIClaim) Key {
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.AllocID)
	}).OnPut(sharing.Claim)

	// claimsByNode has the claims by node and allocation.
	claimsByNode = claims.UniqueIndex("node", func(c *structs.CSIClaim) Key {
		return mvcc.KeyOf(c.NodeID, c.AllocID, c.Namespace, c.VolumeID)
	})

	// The claim queue of a volume, class by class (see claim_queue.go). Of the granted claims it has only the
	// few that exclude other claims of their own class.
	claimsByClass = claims.UniqueIndex("class", func(c *structs.CSIClaim) Key {
		k := c.Class()
		if c.State == structs.ClaimGranted && !k.Conflicts(k) {
			return nil
		}
		created := mvcc.Ordered(c.CreateIndex)
		seq := mvcc.Ordered(uint64(c.Seq))
		return mvcc.KeyOf(c.Namespace, c.VolumeID, c.State, classKey(k), created, seq)
	})

	// waitingByPlugin has the claims that wait, by plugin.
	waitingByPlugin = claims.Index("waiting_plugin", func(c *structs.CSIClaim) Key {
		waits := c.State == structs.ClaimWaiting
		return mvcc.KeyIf(waits, c.PluginID, c.Namespace, c.VolumeID)
	})

	// Claims of allocations that have ended. Their nodes release them.
	endedClaims = claims.Index("ended", func(c *structs.CSIClaim) Key {
		return mvcc.KeyIf(c.EndTime != 0, c.NodeID)
	})

	// Claims whose nodes have not expanded the volume yet, or could not.
	growing = claims.Index("growing", func(c *structs.CSIClaim) Key {
		grows := c.ExpandBytes != 0 || c.ExpandError != nil
		return mvcc.KeyIf(grows, c.Namespace, c.VolumeID)
	})

	// The numbers of granted and waiting claims of each class, so that no reader counts the claims.
	// storeClaim and dropClaim update them.
	claimQueues = mvcc.NewTable("csi_lines", func(l *structs.CSIClaimQueueRow) Key {
		return mvcc.KeyOf(l.Namespace, l.VolumeID)
	})
)

var (
	// attachments has the attachments by namespace, volume and node.
	attachments = mvcc.NewTable("csi_attachments", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, a.NodeID)
	})

	// attachmentsByNode has the attachments by node.
	attachmentsByNode = attachments.Index("node", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.NodeID)
	})

	// attachmentsByMode has the attachments of a volume by access mode and attachment mode.
	attachmentsByMode = attachments.Index("mode", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.Namespace, a.VolumeID, string(a.AccessMode), string(a.AttachmentMode))
	})

	// attachmentsByExternal has the attachments by plugin and the ID that the plugin gave the volume.
	attachmentsByExternal = attachments.Index("external", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyOf(a.PluginID, a.ExternalVolumeID)
	})

	// Attachments whose claim was released without its node, and that are being detached.
	forcedDetaches = attachments.Index("forced", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyIf(a.Forced && a.State == structs.AttachmentDetaching,
			a.Namespace, a.VolumeID, a.NodeID)
	})

	// Attachments that need a call of the leader: an attach or a detach.
	unsettledAttachments = attachments.Index("unsettled", func(a *structs.CSIAttachment) Key {
		return mvcc.KeyIf(a.Unsettled(), a.State)
	})
)

var (
	// jobs has the current versions of the jobs by namespace and ID.
	jobs = mvcc.NewTable("jobs", func(j *structs.Job) Key {
		return mvcc.KeyOf(j.Namespace, j.ID)
	}).Require(wholeGroups)

	// Jobs that run on every node.
	jobsPerNode = jobs.Index("per_node", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.PerNode() && !j.StartsOthers(), j.Type)
	})

	// Children by the job that has started them.
	jobsByParent = jobs.Index("parent", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.ParentID != "", j.Namespace, j.ParentID)
	})

	// Children by the tokens of their dispatches.
	jobsByToken = jobs.Index("token", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.DispatchIdempotencyToken != "", j.Namespace, j.ParentID, j.DispatchIdempotencyToken)
	})

	// Jobs by the IDs of the scaling policies of their groups.
	jobsByPolicy = jobs.MultiIndex("scaling_policy", func(j *structs.Job) []Key {
		if !j.HasScaling() {
			return nil
		}
		var keys []Key
		for _, p := range j.ScalingPolicies() {
			keys = append(keys, mvcc.KeyOf(p.ID))
		}
		return keys
	})

	// Jobs whose schedules are on.
	periodicJobs = jobs.Index("periodic", func(j *structs.Job) Key {
		return mvcc.KeyIf(j.IsPeriodic(), j.Namespace, j.ID)
	})

	// periodicLaunches has the last starts of the jobs with a schedule by namespace and ID.
	periodicLaunches = mvcc.NewTable("periodic_launches", func(l *structs.PeriodicLaunch) Key {
		return mvcc.KeyOf(l.Namespace, l.ID)
	})

	// Jobs of which nothing will run any more, by the time of their submission.
	jobsByEnd = jobs.Index("end", func(j *structs.Job) Key {
		if j.Status != structs.JobDead || !j.Stop && !j.Finite() {
			return nil
		}
		return mvcc.KeyOf(orderedTime(j.SubmitTime))
	})

	// scalingEvents has the last changes of counts by namespace, job and group.
	scalingEvents = mvcc.NewTable("scaling_events", func(s *structs.ScalingEvents) Key {
		return mvcc.KeyOf(s.Namespace, s.JobID, s.Group)
	})

	// jobVersions has the versions of the jobs by namespace, ID and version.
	jobVersions = mvcc.NewTable("job_versions", func(j *structs.Job) Key {
		return mvcc.KeyOf(j.Namespace, j.ID, mvcc.Ordered(j.Version))
	}).Require(wholeGroups)

	// jobSubmissions has the sources of the versions of jobs by namespace, ID and version.
	jobSubmissions = mvcc.NewTable("job_submissions", func(s *structs.JobSubmission) Key {
		return mvcc.KeyOf(s.Namespace, s.JobID, mvcc.Ordered(s.Version))
	})
)

var (
	// deployments has the deployments by ID.
	deployments = mvcc.NewTable("deployments", func(d *structs.Deployment) Key {
		return mvcc.KeyOf(d.ID)
	})

	// A job's deployments, the newest first.
	deploymentsByJob = deployments.Index("job", func(d *structs.Deployment) Key {
		return mvcc.KeyOf(d.Namespace, d.JobID, mvcc.Ordered(^d.CreateIndex))
	})

	// Deployments that have not ended.
	activeDeployments = deployments.Index("active", func(d *structs.Deployment) Key {
		return mvcc.KeyIf(d.Active(), d.Namespace, d.JobID)
	})
)

var (
	// allocs has the allocations by ID.
	allocs = mvcc.NewTable("allocs", func(a *structs.Allocation) Key {
		return mvcc.KeyOf(a.ID)
	}).OnPut(sharing.Alloc).OnChange(recountEvalAllocs)

	// allocsByJob has the allocations of a job, the live ones (liveRow) and the others (doneRow), by ID.
	allocsByJob = allocs.UniqueIndex("job", func(a *structs.Allocation) Key {
		return mvcc.KeyOf(a.Namespace, a.JobID, liveOrDone(a.Terminal()), a.ID)
	})

	// Allocations that hold the capacity, the devices and the host volumes of their node: until the node reports
	// the end. A node has few of them.
	holdersByNode = allocs.ListIndex("node", func(a *structs.Allocation) Key {
		switch {
		case a.ClientTerminal():
			return nil
		case a.ServerTerminal():
			return mvcc.KeyOf(a.NodeID, endingRow, a.ID)
		}
		return mvcc.KeyOf(a.NodeID, liveRow, a.ID)
	})

	// Allocations whose end their node has reported.
	endedByNode = allocs.UniqueIndex("node_ended", func(a *structs.Allocation) Key {
		return mvcc.KeyIf(a.ClientTerminal(), a.NodeID, a.ID)
	})

	// Allocations that no longer run a task, by the time of their last change.
	allocsByEnd = allocs.UniqueIndex("end", func(a *structs.Allocation) Key {
		if !a.ClientTerminal() {
			return nil
		}
		return mvcc.KeyOf(orderedTime(a.ModifyTime), a.ID)
	})

	// Allocations that have ports of their node. An allocation has them until its node reports the end.
	allocsByPorts = allocs.UniqueIndex("ports", func(a *structs.Allocation) Key {
		has := len(a.Ports) > 0 && !a.ClientTerminal()
		return mvcc.KeyIf(has, a.NodeID, a.ID)
	})

	// Allocations by the plugins that they run. An allocation is live until its node reports the end, because a
	// plugin that is being stopped serves until then.
	allocsByPlugin = allocs.MultiIndex("plugin", func(a *structs.Allocation) []Key {
		var keys []Key
		for _, id := range a.CSIPlugins {
			key := mvcc.KeyOf(id, liveOrDone(a.ClientTerminal()))
			keys = append(keys, key)
		}
		return keys
	})

	// Live allocations by the volumes that they are placed to use, class by class. Most of them have claims,
	// which the claim queue of the volume has. This index finds the few others.
	allocsByVolume = allocs.MultiIndex("volume", func(a *structs.Allocation) []Key {
		if len(a.CSIVolumes) == 0 || a.Terminal() {
			return nil
		}
		keys := make([]Key, len(a.CSIVolumes))
		for i := range a.CSIVolumes {
			u := &a.CSIVolumes[i]
			keys[i] = mvcc.KeyOf(a.Namespace,
				u.VolumeID, classKey(u.Class()))
		}
		return keys
	})

	// Allocations by the services that others may find.
	allocsByService = allocs.MultiIndex("service", func(a *structs.Allocation) []Key {
		if !a.Offered() {
			return nil
		}
		var keys []Key
		for name := range a.ServiceNames() {
			keys = append(keys, mvcc.KeyOf(a.Namespace, name))
		}
		return keys
	})
)

// The sums over the allocations of each node that hold something of it.
var nodeUses = mvcc.SumLists(holdersByNode,
	func(a *structs.Allocation) string { return a.NodeID }, structs.NodeUseOf)

// The numbers of allocations that each evaluation has placed for its job.
var evalAllocs = mvcc.NewTable("eval_allocs", func(r *evalAllocsRow) Key {
	return mvcc.KeyOf(r.EvalID, r.Namespace, r.JobID)
}).Computed()

var (
	// evals has the evaluations by ID.
	evals = mvcc.NewTable("evals", func(e *structs.Evaluation) Key {
		return mvcc.KeyOf(e.ID)
	}).OnPut(sharing.Eval)

	// Ended evaluations by the node that caused them and by their retention. Open evaluations by their status
	// and the node, except that those with a time have a status of their own.
	evalsByJob = evals.Index("job", func(e *structs.Evaluation) Key {
		switch {
		case e.Terminal():
			return mvcc.KeyOf(e.Namespace, e.JobID, doneEval, e.NodeID, retention(e))
		case e.Status == structs.EvalPending && e.WaitUntil > 0:
			return mvcc.KeyOf(e.Namespace, e.JobID, openEval, laterEval)
		}
		return mvcc.KeyOf(e.Namespace, e.JobID, openEval, e.Status, e.NodeID)
	})

	// The order of the leader's work: pending evaluations by priority and age, evaluations with a time by that
	// time, and ended evaluations that no allocation names by their end, for the deletion.
	evalsInOrder = evals.Index("turn", func(e *structs.Evaluation) Key {
		switch {
		case e.Terminal() && e.Placed:
			return nil
		case e.Terminal():
			return mvcc.KeyOf(doneEval, orderedTime(e.ModifyTime))
		case e.Status == structs.EvalPending && e.WaitUntil > 0:
			return mvcc.KeyOf(laterEval, orderedTime(e.WaitUntil))
		case e.Status == structs.EvalPending:
			return mvcc.KeyOf(openEval, byPriority(e), mvcc.Ordered(e.CreateIndex))
		}
		return nil
	})

	// The queues of blocked evaluations, by key, priority and shape (see eval_blocked.go).
	evalsByBlocked = evals.MultiIndex("blocked_on", func(e *structs.Evaluation) []Key {
		if !isQueued(e) {
			return nil
		}
		var keys []Key
		for _, k := range e.BlockedOn {
			keys = append(keys, mvcc.KeyOf(k, queueKey(e), mvcc.Ordered(e.CreateIndex)))
		}
		return keys
	})

	// unblocks has the last unblock of each key of blocked evaluations.
	unblocks = mvcc.NewTable("wakes", func(w *structs.UnblockRow) Key {
		return mvcc.KeyOf(w.Key)
	})

	// Keys whose unblock has not reached all queues yet.
	unblocksDue = unblocks.Index("due", func(w *structs.UnblockRow) Key {
		return mvcc.KeyIf(w.Due, "due")
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

// pluginConfigs has the settings of plugins by ID. A plugin with the default settings has no row.
var pluginConfigs = mvcc.NewTable("csi_plugin_configs", func(c *structs.CSIPluginSettings) Key {
	return mvcc.KeyOf(c.ID)
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
