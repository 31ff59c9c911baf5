package endpoints

import (
	"berth/endpoints/core"
	"berth/endpoints/join"
	"berth/endpoints/release"
	"berth/endpoints/vars"
	"berth/fsm"
	"berth/rpc"
	"berth/server/authority"
	"berth/structs"
)

// Endpoints serve the procedures of one server.
type Endpoints struct {
	*core.Server
	nodes  nodes
	jobs   jobs
	allocs allocs
	change volumeWrites
}

// New makes the procedures.
func New(d core.Deps) *Endpoints {
	return NewWith(d, core.DefaultSettings())
}

// NewWith makes the procedures with settings of their own.
func NewWith(d core.Deps, config core.Settings) *Endpoints {
	s := core.NewServer(d, config)
	return &Endpoints{
		Server: s,
		nodes:  newNodes(s),
		jobs:   newJobs(s),
		allocs: newAllocs(s),
		change: newVolumeWrites(s),
	}
}

// quick marks a procedure that mostly answers from memory. It has many callers, and a goroutine would be a
// large part of the cost of a request. A request that is forwarded or waits for others is not quick. A write
// of this kind goes through the log now and then, and delays its own connection meanwhile.
func (e *Endpoints) quick(endpoint rpc.Endpoint) rpc.Endpoint {
	endpoint.Inline = func(req any) bool {
		o := optionsOf(req, endpoint.Write)
		if o.write {
			_, isMe, _, _ := e.Raft.Leader()
			return isMe
		}
		return o.stale || e.Raft.Alone()
	}
	return endpoint
}

// quickIf marks a procedure of which some requests are quick.
func quickIf[Req any](
	endpoint rpc.Endpoint,
	small func(*Req) bool,
) rpc.Endpoint {
	quick := endpoint.Inline
	endpoint.Inline = func(req any) bool {
		return quick(req) && small(req.(*Req))
	}
	return endpoint
}

// slow marks a procedure that waits for a plugin: it is counted among the requests that wait.
func slow(e rpc.Endpoint) rpc.Endpoint {
	e.Slow = true
	return e
}

// shed marks a read of operators, which the server may reject under overload (see rpc.Server.Shed).
func shed(e rpc.Endpoint) rpc.Endpoint {
	e.Sheddable = true
	return e
}

// mostlyUnchanged marks a write that mostly reports known values and then needs no log entry: it is rejected
// only if there is something to write.
func mostlyUnchanged(e rpc.Endpoint) rpc.Endpoint {
	e.Admit = nil
	return e
}

// List is every procedure that a server serves, wrapped in the middleware.
func (e *Endpoints) List() []rpc.Endpoint {
	var (
		status = statuses{e.Server}
		node   = e.nodes
		lost   = lostNodes{e.Server}
		pool   = nodePools{e.Server}
		space  = namespaces{e.Server}
		job    = e.jobs
		alloc  = e.allocs
		eval   = evals{e.Server}
		plugin = plugins{e.Server}
		volume = volumes{e.Server}
		claim  = claims{e.Server}
		free   = release.Releaser{
			Store:     e.Store,
			Raft:      e.Raft,
			Nodes:     e.Nodes,
			Logger:    e.Logger,
			MayAssert: e.mayAssert,
		}
		change = e.change
		search = searches{e.Server}
		deploy = deployments{e.Server}
		offer  = services{e.Server}
		vars   = vars.Variables{
			Store: e.Store,
			Raft:  e.Raft,
			Keys:  e.Keys,
			Locks: e.Locks,
		}
		sign = join.Signing{
			Signer: authority.Signer{Rows: authority.RowsOf(e.Store), Keys: e.Keys, Now: e.Now},
			Store:  e.Store,
			Leader: e.Raft,
			Region: e.Region,
			Logger: e.Logger,
		}
	)
	return []rpc.Endpoint{
		local(e, structs.StatusPing, status.ping),
		local(e, structs.StatusLeader, status.leader),
		local(e, structs.StatusPeers, status.peers),
		local(e, structs.StatusRaftStats, status.raftStats),
		read(e, structs.OperatorRaft, anyone, status.raftConfiguration),
		write(e, structs.OperatorRemove, anyone, status.removePeer),
		write(e, structs.OperatorTransfer, anyone, status.transferLeadership),
		write(e, structs.SystemGC, anyone, status.collectGarbage),
		read(e, structs.SchedulerConfigGet, anyone, status.schedulerConfig),
		write(e, structs.SchedulerConfigSet, anyone, status.setSchedulerConfig),
		call(e, structs.KeyringList, anyone, e.RootKeys.List),
		write(e, structs.KeyringRotate, anyone, e.RootKeys.Serve),
		write(e, structs.KeyringDelete, anyone, propose(e, fsm.RootKeyRemove)),
		local(e, structs.KeyringStatusGet, e.RootKeys.Status),
		call(e, structs.AutopilotHealth, anyone, status.health),
		read(e, structs.AutopilotConfigGet, anyone, status.autopilotConfig),
		write(e, structs.AutopilotConfigSet, anyone, status.setAutopilotConfig),

		// register checks the secret of its row.
		mostlyUnchanged(write(e, structs.NodeRegister, anyone, node.register)),
		write(e, structs.NodeDeregister, anyone, node.deregister),
		e.quick(mostlyUnchanged(nodeWrite(e, structs.NodeHeartbeat, nodeOnly, node.heartbeat))),
		nodeWrite(e, structs.NodeUpdateCSI, nodeOnly, node.updateCSI),
		write(e, structs.NodeEligibility, anyone, node.eligibility),
		write(e, structs.NodeExtendLease, anyone, node.extendLease),
		write(e, structs.NodeDrain, anyone, node.drain),
		write(e, structs.NodeLeave, nodeOnly, node.leave),
		shed(read(e, structs.NodeDrainStatus, anyone, node.drainStatus)),
		mostlyUnchanged(write(e, structs.NodeUpdateAllocs, nodeOnly, node.updateAllocs)),
		shed(e.quick(read(e, structs.NodeGet, anyone, node.get))),
		shed(read(e, structs.NodeList, anyone, node.list)),
		shed(call(e, structs.NodeForeignList, anyone, node.listForeign)),
		shed(read(e, structs.NodeAllocs, anyone, alloc.ofNode)),
		call(e, structs.NodeClientAllocs, nodeOnly, node.clientAllocs),
		write(e, structs.NodeEvaluate, anyone, node.evaluate),
		slow(nodeWrite(e, structs.NodeDeriveSIToken, nodeOnly, node.deriveSIToken)),

		// These release volumes, or run programs of the servers.
		write(e, structs.NodeFence, e.socketOnly, lost.fence),
		write(e, structs.NodeConfirmLost, e.socketOnly, lost.confirm),
		slow(call(e, structs.NodeFenceTest, e.socketOnly, lost.test)),
		shed(read(e, structs.NodeFenceStatus, anyone, lost.status)),

		shed(read(e, structs.NodePoolList, anyone, pool.list)),
		shed(read(e, structs.NodePoolGet, anyone, pool.get)),
		shed(read(e, structs.NodePoolNodes, anyone, pool.nodes)),
		shed(read(e, structs.NodePoolJobs, anyone, job.ofPool)),
		write(e, structs.NodePoolApply, anyone, pool.apply),
		write(e, structs.NodePoolDelete, anyone, propose(e, fsm.NodePoolDelete)),

		shed(read(e, structs.NamespaceList, anyone, space.list)),
		shed(read(e, structs.NamespaceGet, anyone, space.get)),
		write(e, structs.NamespaceApply, anyone, space.apply),
		write(e, structs.NamespaceDelete, anyone, propose(e, fsm.NamespaceDelete)),

		write(e, structs.JobRegister, anyone, job.register),
		write(e, structs.JobDeregister, anyone, job.deregister),
		write(e, structs.JobEvaluate, anyone, job.evaluate),
		slow(call(e, structs.JobValidate, anyone, job.validate)),
		shed(read(e, structs.JobPlan, anyone, job.plan)),
		write(e, structs.JobRevert, anyone, job.revert),
		write(e, structs.JobDispatch, anyone, job.dispatch),
		write(e, structs.PeriodicForce, anyone, job.forcePeriodic),
		write(e, structs.JobScale, anyone, job.scale),
		shed(read(e, structs.JobScaleStatus, anyone, job.scaleStatus)),
		shed(e.quick(read(e, structs.JobGet, anyone, job.get))),
		shed(read(e, structs.JobList, anyone, job.list)),
		shed(read(e, structs.JobVersions, anyone, job.versions)),
		shed(read(e, structs.JobSubmissionGet, anyone, job.submission)),
		shed(read(e, structs.JobSummaryGet, anyone, job.summary)),
		shed(read(e, structs.JobWhy, anyone, job.why)),
		shed(read(e, structs.JobAllocations, anyone, job.allocations)),
		shed(read(e, structs.JobEvaluations, anyone, job.evaluations)),
		shed(read(e, structs.JobDeployments, anyone, deploy.ofJob)),
		shed(read(e, structs.JobLatestDeployment, anyone, deploy.latest)),
		write(e, structs.JobStable, anyone, job.setStable),

		shed(read(e, structs.ScalingPolicyList, anyone, job.scalingPolicies)),
		shed(e.quick(read(e, structs.ScalingPolicyGet, anyone, job.scalingPolicy))),

		shed(read(e, structs.ServiceList, anyone, offer.list)),
		shed(read(e, structs.ServiceGet, anyone, offer.get)),
		shed(read(e, structs.AllocOffers, anyone, alloc.services)),
		shed(read(e, structs.JobOffers, anyone, job.services)),

		shed(read(e, structs.DeploymentList, anyone, deploy.list)),
		shed(e.quick(read(e, structs.DeploymentGet, anyone, deploy.get))),
		shed(read(e, structs.DeploymentAllocations, anyone, deploy.allocations)),
		write(e, structs.DeploymentFail, anyone, deploy.fail),
		write(e, structs.DeploymentPause, anyone, deploy.pause),
		write(e, structs.DeploymentPromote, anyone, deploy.promote),
		write(e, structs.DeploymentSetHealth, anyone, deploy.setHealth),
		write(e, structs.DeploymentUnblock, anyone, deploy.unblock),

		shed(e.quick(read(e, structs.AllocGet, anyone, alloc.get))),
		read(e, structs.AllocsGet, anyone, alloc.getMany),
		shed(read(e, structs.AllocList, anyone, alloc.list)),
		write(e, structs.AllocStop, anyone, alloc.stop),
		slow(call(e, structs.AllocData, nodeOnly, alloc.data)),
		read(e, structs.AllocDataWaits, nodeOnly, alloc.dataWaits),

		shed(e.quick(read(e, structs.EvalGet, anyone, eval.get))),
		shed(read(e, structs.EvalList, anyone, eval.list)),
		shed(read(e, structs.EvalCount, anyone, eval.count)),
		write(e, structs.EvalDelete, anyone, eval.delete),
		shed(read(e, structs.EvalAllocs, anyone, eval.allocations)),

		shed(read(e, structs.CSIPluginGet, anyone, plugin.get)),
		shed(read(e, structs.CSIPluginList, anyone, plugin.list)),
		write(e, structs.CSIPluginDelete, anyone, propose(e, fsm.PluginDelete)),
		read(e, structs.CSIPluginSettingsGet, anyone, plugin.config),
		write(e, structs.CSIPluginSettingsSet, anyone, propose(e, fsm.PluginConfigSet)),

		shed(quickIf(e.quick(read(e, structs.CSIVolumeGet, anyone, volume.get)), volume.isSmall)),
		shed(read(e, structs.VolumeWhy, anyone, volume.why)),
		shed(read(e, structs.CSIVolumeList, anyone, volume.list)),
		slow(call(e, structs.CSIVolumeExternal, anyone, volume.external)),
		slow(write(e, structs.CSIVolumeRegister, anyone, change.register)),
		slow(write(e, structs.CSIVolumeCreate, anyone, change.create)),
		write(e, structs.CSIVolumeDeregister, anyone, change.deregister),
		slow(write(e, structs.CSIVolumeDelete, anyone, change.remove)),

		write(e, structs.CSIVolumeClaim, nodeOnly, claim.claim),
		write(e, structs.CSIVolumeUnpublish, nodeOnly, claim.unpublish),
		slow(write(e, structs.CSIVolumeDetach, anyone, free.Detach)),
		write(e, structs.CSIVolumeNodeExpanded, nodeOnly, claim.nodeExpanded),
		write(e, structs.CSIVolumeRetry, anyone, propose(e, fsm.VolumeRetry)),
		e.quick(call(e, structs.CSIClaimGet, nodeOnly, claim.get)),
		read(e, structs.CSIClaimList, anyone, claim.list),
		shed(read(e, structs.VolumeClaimList, anyone, claim.listAll)),
		slow(write(e, structs.VolumeClaimRelease, anyone, free.Claim)),
		slow(write(e, structs.VolumeClaimForce, e.socketOnly, free.ForceClaim)),

		shed(read(e, structs.VariableList, anyone, vars.List)),
		read(e, structs.VariableGet, anyone, vars.Get),
		write(e, structs.VariableApply, anyone, vars.Apply),
		write(e, structs.VariableRenew, anyone, vars.Renew),

		write(e, structs.JoinTokenCreate, anyone, sign.CreateToken),
		write(e, structs.JoinTokenDelete, anyone, propose(e, fsm.JoinTokenDelete)),
		read(e, structs.JoinTokenList, anyone, sign.ListTokens),
		write(e, structs.CertificateSign, anyone, sign.Sign),
		write(e, structs.CertificateRenew, anyone, sign.Renew),
		write(e, structs.OperatorCertificate, anyone, sign.SignOperator),
		write(e, structs.CertificateRevoke, anyone, sign.Revoke),
		write(e, structs.CertificateUnrevoke, anyone, propose(e, fsm.Unrevoke)),
		read(e, structs.CertificateRevocations, anyone, sign.ListRevocations),
		write(e, structs.AuthorityReplace, anyone, sign.ReplaceAuthority),
		read(e, structs.AuthorityList, anyone, sign.ListAuthorities),
		write(e, structs.AuthorityRemove, anyone, sign.RemoveAuthority),

		shed(read(e, structs.SearchPrefix, anyone, search.prefix)),
		shed(read(e, structs.SearchFuzzy, anyone, search.fuzzy)),
	}
}
