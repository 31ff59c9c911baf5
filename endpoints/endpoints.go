package endpoints

import (
	"berth/endpoints/core"
	"berth/endpoints/csi"
	"berth/endpoints/job"
	"berth/endpoints/join"
	"berth/endpoints/node"
	"berth/endpoints/release"
	"berth/endpoints/vars"
	"berth/fsm"
	"berth/rpc"
	"berth/server/authority"
	"berth/structs"
	"berth/structs/admin"
	"berth/structs/inquiry"
	"berth/structs/nodecalls"
	"berth/structs/nodeloss"
	"berth/structs/variable"
)

// Endpoints serve the procedures of one server.
type Endpoints struct {
	*core.Server
	nodes  node.Nodes
	jobs   job.Jobs
	allocs job.Allocs
	change csi.VolumeWrites
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
		nodes:  node.NewNodes(s),
		jobs:   job.NewJobs(s),
		allocs: job.NewAllocs(s),
		change: csi.NewVolumeWrites(s),
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
		status  = statuses{Server: e.Server}
		nodes   = e.nodes
		lost    = node.Lost{Server: e.Server}
		pools   = node.Pools{Server: e.Server}
		space   = namespaces{Server: e.Server}
		jobs    = e.jobs
		allocs  = e.allocs
		evals   = job.Evals{Server: e.Server}
		plugins = csi.Plugins{Server: e.Server}
		volumes = csi.Volumes{Server: e.Server}
		claims  = csi.Claims{Server: e.Server}
		free    = release.Releaser{
			Store:     e.Store,
			Raft:      e.Raft,
			Nodes:     e.Nodes,
			Logger:    e.Logger,
			MayAssert: e.mayAssert,
		}
		change  = e.change
		search  = searches{Server: e.Server}
		deploys = job.Deployments{Server: e.Server}
		offer   = job.Services{Server: e.Server}
		vars    = vars.Variables{
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
		local(e, admin.StatusPing, status.ping),
		local(e, admin.StatusLeader, status.leader),
		local(e, admin.StatusPeers, status.peers),
		local(e, admin.StatusRaftStats, status.raftStats),
		read(e, admin.OperatorRaft, anyone, status.raftConfiguration),
		write(e, admin.OperatorRemove, anyone, status.removePeer),
		write(e, admin.OperatorTransfer, anyone, status.transferLeadership),
		write(e, admin.SystemGC, anyone, status.collectGarbage),
		read(e, admin.SchedulerConfigGet, anyone, status.schedulerConfig),
		write(e, admin.SchedulerConfigSet, anyone, status.setSchedulerConfig),
		call(e, admin.KeyringList, anyone, e.RootKeys.List),
		write(e, admin.KeyringRotate, anyone, e.RootKeys.Serve),
		write(e, admin.KeyringDelete, anyone, propose(e, fsm.RootKeyRemove)),
		local(e, admin.KeyringStatusGet, e.RootKeys.Status),
		call(e, admin.AutopilotHealth, anyone, status.health),
		read(e, admin.AutopilotConfigGet, anyone, status.autopilotConfig),
		write(e, admin.AutopilotConfigSet, anyone, status.setAutopilotConfig),

		// register checks the secret of its row.
		mostlyUnchanged(write(e, structs.NodeRegister, anyone, nodes.Register)),
		write(e, structs.NodeDeregister, anyone, nodes.Deregister),
		e.quick(mostlyUnchanged(nodeWrite(e, structs.NodeHeartbeat, nodeOnly, nodes.Heartbeat))),
		nodeWrite(e, structs.NodeUpdateCSI, nodeOnly, nodes.UpdateCSI),
		write(e, structs.NodeEligibility, anyone, nodes.Eligibility),
		write(e, nodeloss.NodeExtendLease, anyone, nodes.ExtendLease),
		write(e, structs.NodeDrain, anyone, nodes.Drain),
		write(e, structs.NodeLeave, nodeOnly, nodes.Leave),
		shed(read(e, structs.NodeDrainStatus, anyone, nodes.DrainStatus)),
		mostlyUnchanged(write(e, structs.NodeUpdateAllocs, nodeOnly, nodes.UpdateAllocs)),
		shed(e.quick(read(e, structs.NodeGet, anyone, nodes.Get))),
		shed(read(e, structs.NodeList, anyone, nodes.List)),
		shed(call(e, nodeloss.NodeForeignList, anyone, nodes.ListForeign)),
		shed(read(e, structs.NodeAllocs, anyone, allocs.OfNode)),
		call(e, structs.NodeClientAllocs, nodeOnly, nodes.ClientAllocs),
		write(e, structs.NodeEvaluate, anyone, nodes.Evaluate),
		slow(nodeWrite(e, structs.NodeDeriveSIToken, nodeOnly, nodes.DeriveSIToken)),

		// These release volumes, or run programs of the servers.
		write(e, nodeloss.NodeFence, e.socketOnly, lost.Fence),
		write(e, nodeloss.NodeConfirmLost, e.socketOnly, lost.Confirm),
		slow(call(e, nodeloss.NodeFenceTest, e.socketOnly, lost.Test)),
		shed(read(e, nodeloss.NodeFenceStatus, anyone, lost.Status)),

		shed(read(e, admin.NodePoolList, anyone, pools.List)),
		shed(read(e, admin.NodePoolGet, anyone, pools.Get)),
		shed(read(e, admin.NodePoolNodes, anyone, pools.ListNodes)),
		shed(read(e, admin.NodePoolJobs, anyone, jobs.OfPool)),
		write(e, admin.NodePoolApply, anyone, pools.Apply),
		write(e, admin.NodePoolDelete, anyone, propose(e, fsm.NodePoolDelete)),

		shed(read(e, admin.NamespaceList, anyone, space.list)),
		shed(read(e, admin.NamespaceGet, anyone, space.get)),
		write(e, admin.NamespaceApply, anyone, space.apply),
		write(e, admin.NamespaceDelete, anyone, propose(e, fsm.NamespaceDelete)),

		write(e, structs.JobRegister, anyone, jobs.Register),
		write(e, structs.JobDeregister, anyone, jobs.Deregister),
		write(e, structs.JobEvaluate, anyone, jobs.Evaluate),
		slow(call(e, inquiry.JobValidate, anyone, jobs.Validate)),
		shed(read(e, inquiry.JobPlan, anyone, jobs.Plan)),
		write(e, structs.JobRevert, anyone, jobs.Revert),
		write(e, structs.JobDispatch, anyone, jobs.Dispatch),
		write(e, structs.PeriodicForce, anyone, jobs.ForcePeriodic),
		write(e, structs.JobScale, anyone, jobs.Scale),
		shed(read(e, structs.JobScaleStatus, anyone, jobs.ScaleStatus)),
		shed(e.quick(read(e, structs.JobGet, anyone, jobs.Get))),
		shed(read(e, structs.JobList, anyone, jobs.List)),
		shed(read(e, structs.JobVersions, anyone, jobs.Versions)),
		shed(read(e, structs.JobSubmissionGet, anyone, jobs.Submission)),
		shed(read(e, structs.JobSummaryGet, anyone, jobs.Summary)),
		shed(read(e, inquiry.JobWhy, anyone, jobs.Why)),
		shed(read(e, structs.JobAllocations, anyone, jobs.Allocations)),
		shed(read(e, structs.JobEvaluations, anyone, jobs.Evaluations)),
		shed(read(e, structs.JobDeployments, anyone, deploys.OfJob)),
		shed(read(e, structs.JobLatestDeployment, anyone, deploys.Latest)),
		write(e, structs.JobStable, anyone, jobs.SetStable),

		shed(read(e, structs.ScalingPolicyList, anyone, jobs.ScalingPolicies)),
		shed(e.quick(read(e, structs.ScalingPolicyGet, anyone, jobs.ScalingPolicy))),

		shed(read(e, structs.ServiceList, anyone, offer.List)),
		shed(read(e, structs.ServiceGet, anyone, offer.Get)),
		shed(read(e, structs.AllocOffers, anyone, allocs.Services)),
		shed(read(e, structs.JobOffers, anyone, jobs.Services)),

		shed(read(e, structs.DeploymentList, anyone, deploys.List)),
		shed(e.quick(read(e, structs.DeploymentGet, anyone, deploys.Get))),
		shed(read(e, structs.DeploymentAllocations, anyone, deploys.Allocations)),
		write(e, structs.DeploymentFail, anyone, deploys.Fail),
		write(e, structs.DeploymentPause, anyone, deploys.Pause),
		write(e, structs.DeploymentPromote, anyone, deploys.Promote),
		write(e, structs.DeploymentSetHealth, anyone, deploys.SetHealth),
		write(e, structs.DeploymentUnblock, anyone, deploys.Unblock),

		shed(e.quick(read(e, structs.AllocGet, anyone, allocs.Get))),
		read(e, structs.AllocsGet, anyone, allocs.GetMany),
		shed(read(e, structs.AllocList, anyone, allocs.List)),
		write(e, structs.AllocStop, anyone, allocs.Stop),
		slow(call(e, nodecalls.AllocData, nodeOnly, allocs.Data)),
		read(e, nodecalls.AllocDataWaits, nodeOnly, allocs.DataWaits),

		shed(e.quick(read(e, structs.EvalGet, anyone, evals.Get))),
		shed(read(e, structs.EvalList, anyone, evals.List)),
		shed(read(e, structs.EvalCount, anyone, evals.Count)),
		write(e, structs.EvalDelete, anyone, evals.Delete),
		shed(read(e, structs.EvalAllocs, anyone, evals.Allocations)),

		shed(read(e, structs.CSIPluginGet, anyone, plugins.Get)),
		shed(read(e, structs.CSIPluginList, anyone, plugins.List)),
		write(e, structs.CSIPluginDelete, anyone, propose(e, fsm.PluginDelete)),
		read(e, structs.CSIPluginSettingsGet, anyone, plugins.Config),
		write(e, structs.CSIPluginSettingsSet, anyone, propose(e, fsm.PluginConfigSet)),

		shed(quickIf(e.quick(read(e, structs.CSIVolumeGet, anyone, volumes.Get)), volumes.IsSmall)),
		shed(read(e, inquiry.VolumeWhy, anyone, volumes.Why)),
		shed(read(e, structs.CSIVolumeList, anyone, volumes.List)),
		slow(call(e, structs.CSIVolumeExternal, anyone, volumes.External)),
		slow(write(e, structs.CSIVolumeRegister, anyone, change.Register)),
		slow(write(e, structs.CSIVolumeCreate, anyone, change.Create)),
		write(e, structs.CSIVolumeDeregister, anyone, change.Deregister),
		slow(write(e, structs.CSIVolumeDelete, anyone, change.Remove)),

		write(e, structs.CSIVolumeClaim, nodeOnly, claims.Claim),
		write(e, structs.CSIVolumeUnpublish, nodeOnly, claims.Unpublish),
		slow(write(e, structs.CSIVolumeDetach, anyone, free.Detach)),
		write(e, structs.CSIVolumeNodeExpanded, nodeOnly, claims.NodeExpanded),
		write(e, structs.CSIVolumeRetry, anyone, propose(e, fsm.VolumeRetry)),
		e.quick(call(e, structs.CSIClaimGet, nodeOnly, claims.Get)),
		read(e, structs.CSIClaimList, anyone, claims.List),
		shed(read(e, structs.VolumeClaimList, anyone, claims.ListAll)),
		slow(write(e, structs.VolumeClaimRelease, anyone, free.Claim)),
		slow(write(e, structs.VolumeClaimForce, e.socketOnly, free.ForceClaim)),

		shed(read(e, variable.VariableList, anyone, vars.List)),
		read(e, variable.VariableGet, anyone, vars.Get),
		write(e, variable.VariableApply, anyone, vars.Apply),
		write(e, variable.VariableRenew, anyone, vars.Renew),

		write(e, admin.JoinTokenCreate, anyone, sign.CreateToken),
		write(e, admin.JoinTokenDelete, anyone, propose(e, fsm.JoinTokenDelete)),
		read(e, admin.JoinTokenList, anyone, sign.ListTokens),
		write(e, admin.CertificateSign, anyone, sign.Sign),
		write(e, admin.CertificateRenew, anyone, sign.Renew),
		write(e, admin.OperatorCertificate, anyone, sign.SignOperator),
		write(e, admin.CertificateRevoke, anyone, sign.Revoke),
		write(e, admin.CertificateUnrevoke, anyone, propose(e, fsm.Unrevoke)),
		read(e, admin.CertificateRevocations, anyone, sign.ListRevocations),
		write(e, admin.AuthorityReplace, anyone, sign.ReplaceAuthority),
		read(e, admin.AuthorityList, anyone, sign.ListAuthorities),
		write(e, admin.AuthorityRemove, anyone, sign.RemoveAuthority),

		shed(read(e, inquiry.SearchPrefix, anyone, search.prefix)),
		shed(read(e, inquiry.SearchFuzzy, anyone, search.fuzzy)),
	}
}
