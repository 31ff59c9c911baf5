package state

import (
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/lease"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/trust"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/capacity"
	"berth/structs/cluster"
	"berth/structs/validate"
)

// Check reads the whole store and describes every violated invariant. A store that only this package has
// changed has none. `berth operator check` runs it on a saved snapshot, and tests run it after every step.
// After schema.MostFaults violations it only counts, and the last line has the number.
func Check(tx *ReadTx) []string {
	c := schema.NewReport(tx)
	checkAllIndexes(c)
	csi.CheckClaims(c)
	csi.CheckClaimQueues(c)
	csi.CheckAttachments(c)
	csi.CheckVolumes(c)
	snapshot.CheckSnapshots(c)
	snapshot.CheckGroups(c)
	csi.CheckDrifts(c)
	csi.CheckHealth(c)
	snapshot.CheckSchedules(c)
	csi.CheckHostClaims(c)
	checkPlugins(c)
	csi.CheckInstances(c)
	checkAllocs(c)
	checkEvals(c)
	checkJobs(c)
	checkSchedules(c)
	checkSchedulerConfig(c)
	checkAutopilotConfig(c)
	checkNamespaces(c)
	checkNodePools(c)
	checkDeployments(c)
	checkScalingEvents(c)
	trust.CheckSITokens(c)
	checkFences(c)
	checkFencePins(c)
	csi.CheckPluginConfigs(c)
	csi.CheckClasses(c)
	lease.CheckNodeLeases(c)
	trust.CheckRootKeys(c)
	trust.CheckSealedValues(c)
	checkVariables(c)
	trust.CheckJoins(c)
	trust.CheckSigningKeys(c)
	checkAdmissionRules(c)
	checkMethodTokens(c)
	namespace.CheckQuotaUses(c)
	namespace.CheckQuotas(c)

	return c.Faults()
}

func checkAllIndexes(c *schema.Report) {
	schema.CheckIndexes(c, schema.Nodes)
	schema.CheckIndexes(c, schema.Plugins)
	schema.CheckIndexes(c, schema.Instances)
	schema.CheckIndexes(c, schema.PluginCounts)
	schema.CheckIndexes(c, schema.Volumes)
	schema.CheckIndexes(c, schema.Claims)
	schema.CheckIndexes(c, schema.ClaimQueues)
	schema.CheckIndexes(c, schema.Attachments)
	schema.CheckIndexes(c, schema.Jobs)
	schema.CheckIndexes(c, schema.JobVersions)
	schema.CheckIndexes(c, schema.JobSubmissions)
	schema.CheckIndexes(c, schema.Allocs)
	schema.CheckIndexes(c, schema.Evals)
	schema.CheckIndexes(c, schema.Unblocks)
	schema.CheckIndexes(c, schema.SchedulerConfig)
	schema.CheckIndexes(c, schema.Namespaces)
	schema.CheckIndexes(c, schema.NodePools)
	schema.CheckIndexes(c, schema.Deployments)
	schema.CheckIndexes(c, schema.PeriodicLaunches)
	schema.CheckIndexes(c, schema.ScalingEvents)
	schema.CheckIndexes(c, schema.SITokens)
	schema.CheckIndexes(c, schema.ClusterMetadata)
	schema.CheckIndexes(c, schema.LeaseBounds)
	schema.CheckIndexes(c, schema.AutopilotConfig)
	schema.CheckIndexes(c, schema.ClusterTimes)
	schema.CheckIndexes(c, schema.WrongClocks)
	schema.CheckIndexes(c, schema.SecretsMarks)
	schema.CheckIndexes(c, schema.FenceRuns)
	schema.CheckIndexes(c, schema.FenceOrders)
	schema.CheckIndexes(c, schema.FencePins)
	schema.CheckIndexes(c, schema.RootKeys)
	schema.CheckIndexes(c, schema.Variables)
	schema.CheckIndexes(c, schema.Authorities)
	schema.CheckIndexes(c, schema.JoinTokens)
	schema.CheckIndexes(c, schema.Certificates)
	schema.CheckIndexes(c, schema.Revocations)
	checkAccessIndexes(c)
	schema.CheckIndexes(c, schema.Quotas)
}

// checkPlugins checks that a plugin has a row exactly while something refers to the plugin.
func checkPlugins(c *schema.Report) {
	for p := range schema.Plugins.Scan(c) {
		c.Want(csi.PluginReferences(c, p.ID) != "",
			"plugin %s: nothing refers to it", p.ID)
		c.Want(!p.ControllerSeen || p.Known,
			"plugin %s: its controller was seen and it is not known", p.ID)
	}

	checkCounts(c)
	for v := range schema.Volumes.Scan(c) {
		c.Want(csi.Plugin(c, v.PluginID) != nil,
			"volume %s/%s: plugin %s has no row", v.Namespace, v.ID, v.PluginID)
	}

	for a := range schema.Allocs.Scan(c) {
		for _, id := range a.CSIPlugins {
			c.Want(a.ClientTerminal() || csi.Plugin(c, id) != nil,
				"allocation %s: plugin %s has no row", a.ID, id)
		}
	}
}

// checkCounts checks that the stored counts equal the rows.
func checkCounts(c *schema.Report) {
	name := func(half structs.CSIInstanceKey) string {
		return half.PluginID + " " + string(half.Kind)
	}

	found := map[string]csi.Tally{}
	for i := range schema.Instances.Scan(c) {
		k := name(i.Key())
		found[k] = found[k].Plus(csi.TallyInstance(i))
	}

	for a := range schema.Allocs.Scan(c) {
		for _, half := range PluginHalves(c, a) {
			k := name(half)
			found[k] = found[k].Plus(csi.Tally{Runs: 1})
		}
	}

	kept := map[string]csi.Tally{}
	for n := range schema.PluginCounts.Scan(c) {
		kept[name(structs.CSIInstanceKey{PluginID: n.PluginID, Kind: n.Kind})] = n.Tally
	}

	schema.CheckCounts(c, "instances and runs of plugin", found, kept)
}

// checkAllocs checks that the references of an allocation exist: the version of its job while the row exists,
// and its node until its end.
func checkAllocs(c *schema.Report) {
	for a := range schema.Allocs.Scan(c) {
		c.Want(a.Job == nil, "allocation %s: carries its job", a.ID)
		c.Want(a.Resources != nil, "allocation %s: has no resources", a.ID)
		c.Want(JobOf(c, a) != nil,
			"allocation %s: version %d of job %s is gone", a.ID, a.JobVersion, a.JobID)
		c.Want(a.ClientTerminal() || Node(c, a.NodeID) != nil,
			"allocation %s: its node %s is gone", a.ID, a.NodeID)
		checkServices(c, a)
	}
	checkDevices(c)
	checkPorts(c)
	checkNodeUses(c)
	checkEvalAllocs(c)
}

// checkServices checks the instances of an allocation: they end with it, each is there once, and none is
// newer than the row.
func checkServices(c *schema.Report, a *structs.Allocation) {
	c.Want(!a.ClientTerminal() || len(a.Services) == 0,
		"allocation %s: it has ended and offers services", a.ID)
	seen := map[string]bool{}
	for _, i := range a.Services {
		c.Want(!seen[i.ID], "allocation %s: service %s is there twice", a.ID, i.ID)
		seen[i.ID] = true
		c.Want(i.CreateIndex != 0 && i.CreateIndex <= i.ModifyIndex && i.ModifyIndex <= a.ModifyIndex,
			"allocation %s: service %s was created at %d and modified at %d, the row at %d",
			a.ID, i.ID, i.CreateIndex, i.ModifyIndex, a.ModifyIndex)
	}
}

// checkDevices checks that no device is given to two allocations that hold resources.
func checkDevices(c *schema.Report) {
	uses := map[string]capacity.DeviceUse{} // by node
	for a := range schema.Allocs.Scan(c) {
		if a.Terminal() || len(a.Devices) == 0 {
			continue
		}
		holder := uses[a.NodeID].Holder(a)
		c.Want(holder == "",
			"allocation %s: allocation %s has one of its devices", a.ID, holder)
		uses[a.NodeID] = uses[a.NodeID].Add(a)
	}
}

// checkEvals checks that a job has at most one blocked evaluation, and that none has missed an unblock,
// because it would stay blocked for ever.
func checkEvals(c *schema.Report) {
	waiting := map[structs.JobKey]string{}
	for e := range schema.Evals.Scan(c) {
		if e.Status != structs.EvalBlocked {
			continue
		}
		k := structs.JobKey{
			Namespace: e.Namespace,
			ID:        e.JobID,
		}
		c.Want(waiting[k] == "",
			"job %s/%s has two blocked evaluations: %s, %s", k.Namespace, k.ID, waiting[k], e.ID)
		waiting[k] = e.ID
		missed := unblock.Missed(c, e)
		c.Want(missed == "", "evaluation %s missed the unblock of %s", e.ID, missed)
	}
}

// checkJobs checks that a job is also its newest stored version, and that its stored status is the one that
// its allocations and evaluations give.
func checkJobs(c *schema.Report) {
	for j := range schema.Jobs.Scan(c) {
		v := JobVersion(c, j.Namespace, j.ID, j.Version)
		c.Want(v != nil && sameSpec(v, j),
			"job %s/%s: version %d is not kept as it is", j.Namespace, j.ID, j.Version)
		status := jobStatus(c, j)
		c.Want(status == j.Status,
			"job %s/%s is %s and should be %s", j.Namespace, j.ID, j.Status, status)
	}
	for s := range schema.JobSubmissions.Scan(c) {
		c.Want(JobVersion(c, s.Namespace, s.JobID, s.Version) != nil,
			"source of job %s/%s: version %d is gone", s.Namespace, s.JobID, s.Version)
	}
}

func checkSchedulerConfig(c *schema.Report) {
	for s := range schema.SchedulerConfig.Scan(c) {
		err := validate.SchedulerConfig(s)
		c.Want(err == nil, "the configuration of the scheduler is invalid: %v", err)
	}
}

func checkAutopilotConfig(c *schema.Report) {
	for a := range schema.AutopilotConfig.Scan(c) {
		err := validate.AutopilotConfig(a)
		c.Want(err == nil, "the configuration of autopilot is invalid: %v", err)
	}
}

// checkNamespaces checks that each namespace with a row has a name.
func checkNamespaces(c *schema.Report) {
	for n := range schema.Namespaces.Scan(c) {
		c.Want(n.Name != "", "a namespace has no name")
	}
}

// checkNodePools checks that each node pool with a row has a name and is not built-in.
func checkNodePools(c *schema.Report) {
	for p := range schema.NodePools.Scan(c) {
		c.Want(p.Name != "" && !cluster.BuiltInNodePool(p.Name),
			"node pool %q: a built-in pool, or one without a name, has no row", p.Name)
	}
}
