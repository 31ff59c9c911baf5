package endpoints

import (
	"path/filepath"

	accesses "berth/endpoints/access"
	"berth/endpoints/audit"
	clusters "berth/endpoints/cluster"
	"berth/endpoints/core"
	"berth/endpoints/csi"
	events "berth/endpoints/event"
	"berth/endpoints/job"
	"berth/endpoints/join"
	"berth/endpoints/node"
	"berth/endpoints/release"
	"berth/endpoints/rights"
	"berth/fsm"
	"berth/rpc"
	"berth/server/authority"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/cluster"
	"berth/structs/event"
	"berth/structs/nodecalls"
	"berth/structs/quota"
	"berth/structs/storage"
)

// Endpoints serve the procedures of one server.
type Endpoints struct {
	*core.Server
	// These six have state of their own (batches, locks, permits, keys), so each server has one of each. List
	// makes the others, which have none, when it is called.
	nodes  node.Nodes
	jobs   job.Jobs
	allocs job.Allocs
	change csi.VolumeWrites
	ids    accesses.Identities
	audits *audit.Recorder
	logins accesses.Logins
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
		ids:    newIdentities(s),
		audits: &audit.Recorder{Log: s.Audit, Gate: s.Gate, Store: s.Store},
		logins: accesses.NewLogins(s),
	}
}

func newIdentities(s *core.Server) accesses.Identities {
	return accesses.NewIdentities(accesses.Identities{
		Store:     s.Store,
		Raft:      s.Raft,
		Region:    s.Region,
		Issuer:    s.Issuer,
		Algorithm: s.Identities.Algorithm,
		Now:       s.Now,
	}, s.Keys)
}

// quick marks a procedure that mostly answers from memory. It has many callers, and a goroutine would be a
// large part of the cost of a request. A request that is forwarded or waits for others is not quick. A write
// of this kind goes through the log now and then, and delays its own connection meanwhile.
func (e *Endpoints) quick(endpoint rpc.Endpoint) rpc.Endpoint {
	endpoint.Inline = func(req any) bool {
		// A write is served here only by the leader. Elsewhere it goes over the network.
		o := optionsOf(req, endpoint.Write)
		if o.write {
			_, isMe, _, _ := e.Raft.Leader()
			return isMe
		}

		// A read of the leader first asks a quorum whether it still leads, unless it is a quorum by itself.
		return o.stale || e.Raft.Alone()
	}

	return endpoint
}

// quickIf marks a procedure of which some requests are quick. A large answer would delay the next request of
// the stream.
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

// The rights of methods that need no token.
var (
	public        = rights.None("it tells the addresses of servers, or nothing")
	byCertificate = rights.Machine("a machine acts by its certificate")
	byJoinToken   = rights.None("the join token of a machine decides")
	publicKeys    = rights.None("public keys are no secret")
	openMode      = rights.None("it tells whether requests need tokens, as each denial does")
	byReset       = rights.None("it works once, or after root on the leader has allowed it").Forced()
)

// checked answers an agent that asks for the rights of a caller: the middleware has decided.
func (e *Endpoints) checked(tx *state.ReadTx, req *access.CheckRequest, resp *access.CheckResponse) error {
	resp.Open = !e.Gate.Enforces()
	resp.Caller = e.Gate.Sender(tx, req)
	return nil
}

// List is every procedure that a server serves, wrapped in the middleware.
func (e *Endpoints) List() []rpc.Endpoint {
	var (
		status         = clusters.Status{Server: e.Server}
		nodes          = e.nodes
		lost           = node.Lost{Server: e.Server}
		pools          = node.Pools{Server: e.Server}
		namespaces     = clusters.Namespaces{Server: e.Server}
		quotas         = accesses.Quotas{Server: e.Server}
		jobs           = e.jobs
		allocs         = e.allocs
		evals          = job.Evals{Server: e.Server}
		plugins        = csi.Plugins{Server: e.Server}
		volumes        = csi.Volumes{Server: e.Server}
		claims         = csi.Claims{Server: e.Server}
		snapshots      = csi.Snapshots{Server: e.Server}
		snapshotGroups = csi.SnapshotGroups{Server: e.Server}
		schedules      = csi.SnapshotSchedules{Server: e.Server}
		hostVolumes    = csi.HostVolumes{VolumeWrites: e.change}
		feed           = events.Procedures{Server: e.Server}
		releaser       = release.Releaser{
			Store:     e.Store,
			Raft:      e.Raft,
			Nodes:     e.Nodes,
			Logger:    e.Logger,
			MayAssert: e.mayAssert,
		}

		change      = e.change
		search      = clusters.Searches{Server: e.Server}
		deployments = job.Deployments{Server: e.Server}
		services    = job.Services{Server: e.Server}
		variables   = accesses.Variables{
			Store: e.Store,
			Raft:  e.Raft,
			Keys:  e.Keys,
			Locks: e.Locks,
		}

		tokens = accesses.Tokens{
			Store:       e.Store,
			Raft:        e.Raft,
			Gate:        e.Gate,
			Name:        e.Name,
			Servers:     e.AccessModes,
			ResetFile:   filepath.Join(e.DataDir, "acl-bootstrap-reset"),
			KeepDeleted: e.KeepDeleted,
			Logger:      e.Logger,
		}

		rules = accesses.AdmissionRules{
			Server: e.Server,
			Job:    jobs.AsStored,
			Volume: change.AsStored,
		}

		certificates = join.Signing{
			Signer: authority.Signer{
				Rows:   authority.RowsOf(e.Store),
				Keys:   e.Keys,
				Now:    e.Now,
				Agreed: authority.AgreedOf(e.Store, e.Now),
			},
			Store:  e.Store,
			Leader: e.Raft,
			Region: e.Region,
			Logger: e.Logger,
		}
	)

	// The order follows the areas. For each method it says the way to serve it and the right that its
	// caller needs.
	return []rpc.Endpoint{
		local(e, cluster.StatusPing, public, status.Ping),
		local(e, cluster.StatusLeader, public, status.Leader),
		local(e, cluster.StatusPeers, public, status.Peers),
		local(e, cluster.StatusRaftStats, rights.OperatorRead, status.RaftStats),
		read(e, cluster.OperatorRaft, rights.OperatorRead, status.RaftConfiguration),
		write(e, cluster.OperatorRemove, rights.OperatorWrite, status.RemovePeer),
		write(e, cluster.OperatorTransfer, rights.OperatorWrite, status.TransferLeadership),
		write(e, cluster.SystemGC, rights.Management, status.Collect),
		read(e, cluster.SchedulerConfigGet, rights.OperatorRead, status.SchedulerConfig),
		write(e, cluster.SchedulerConfigSet, rights.OperatorWrite, status.SetSchedulerConfig),
		call(e, cluster.KeyringList, rights.Management, e.RootKeys.List),
		write(e, cluster.KeyringRotate, rights.Management, e.RootKeys.Serve),
		write(e, cluster.KeyringDelete, rights.Management, e.ids.RemoveKey),
		read(e, access.SigningKeys, publicKeys, e.ids.Keys),
		local(e, cluster.KeyringStatusGet, rights.OperatorRead, e.RootKeys.Status),
		call(e, cluster.AutopilotHealth, rights.OperatorRead, status.Health),
		call(e, cluster.ClockGet, rights.OperatorRead, status.ReadClocks),
		write(e, cluster.ClockAccept, rights.OperatorWrite, status.AcceptClock),
		read(e, cluster.AutopilotConfigGet, rights.OperatorRead, status.AutopilotConfig),
		write(e, cluster.AutopilotConfigSet, rights.OperatorWrite, status.SetAutopilotConfig),

		// register checks the secret of its row.
		keepsNode(e, mostlyUnchanged(write(e, structs.NodeRegister, byCertificate, nodes.Register))),
		write(e, structs.NodeDeregister, rights.NodeWrite, nodes.Deregister),
		keepsNode(e, e.quick(mostlyUnchanged(nodeWrite(e, structs.NodeHeartbeat, rights.Node, nodes.Heartbeat)))),
		slow(call(e, nodecalls.Relay, byCertificate, e.Nodes.Relay)),
		nodeWrite(e, structs.NodeUpdateCSI, rights.Node, nodes.UpdateCSI),
		write(e, structs.NodeEligibility, rights.NodeWrite, nodes.Eligibility),
		write(e, cluster.NodeExtendLease, rights.NodeWrite, nodes.ExtendLease),
		write(e, structs.NodeDrain, rights.NodeWrite, nodes.Drain),
		write(e, structs.NodeLeave, rights.Node, nodes.Leave),
		shed(read(e, structs.NodeDrainStatus, rights.DrainStatus, nodes.DrainStatus)),
		mostlyUnchanged(write(e, structs.NodeUpdateAllocs, rights.Node, nodes.UpdateAllocs)),
		shed(e.quick(read(e, structs.NodeGet, rights.NodeRead, nodes.Get))),
		shed(read(e, structs.NodeList, rights.NodeRead, nodes.List)),
		shed(call(e, cluster.NodeForeignList, rights.NodeRead, nodes.ListForeign)),
		shed(read(e, structs.NodeAllocs, rights.NodeAllocs, allocs.OfNode)),
		// It has its own way to wait: changes that the node itself has reported do not end the wait.
		call(e, structs.NodeClientAllocs, rights.Node, nodes.ClientAllocs),
		write(e, structs.NodeEvaluate, rights.NodeWrite, nodes.Evaluate),
		slow(nodeWrite(e, access.NodeDeriveSIToken, rights.Node, nodes.DeriveSIToken)),

		// These release volumes, or run programs of the servers.
		write(e, cluster.NodeFence, rights.Socket, lost.Fence),
		write(e, cluster.NodeConfirmLost, rights.Socket, lost.Confirm),
		slow(call(e, cluster.NodeFenceTest, rights.Socket, lost.Test)),
		write(e, cluster.NodeFencePin, rights.Socket, lost.Pin),
		shed(read(e, cluster.NodeFencePins, rights.OperatorRead, lost.Pins)),
		shed(read(e, cluster.NodeFenceStatus, rights.NodeRead, lost.Status)),

		shed(read(e, cluster.NodePoolList, rights.NodePoolList, pools.List)),
		shed(read(e, cluster.NodePoolGet, rights.NodePoolGet, pools.Get)),
		shed(read(e, cluster.NodePoolNodes, rights.NodePoolNodes, pools.ListNodes)),
		shed(read(e, cluster.NodePoolJobs, rights.NodePoolJobs, jobs.OfPool)),
		write(e, cluster.NodePoolApply, rights.NodePoolApply, pools.Apply),
		write(e, cluster.NodePoolDelete, rights.NodePoolDelete, propose(e, fsm.NodePoolDelete)),

		shed(read(e, cluster.NamespaceList, rights.NamespaceList, namespaces.List)),
		shed(read(e, cluster.NamespaceGet, rights.NamespaceGet, namespaces.Get)),
		write(e, cluster.NamespaceApply, rights.Management, namespaces.Apply),
		write(e, cluster.NamespaceDelete, rights.Management, propose(e, fsm.NamespaceDelete)),

		write(e, structs.JobRegister, rights.JobSubmit, jobs.Register),
		write(e, structs.JobDeregister, rights.JobWrite, jobs.Deregister),
		write(e, structs.JobEvaluate, rights.JobRead, jobs.Evaluate),
		slow(call(e, structs.JobValidate, rights.JobValidate, jobs.Validate)),
		shed(readFor(e, structs.JobPlan, rights.JobPlan, jobs.Plan)),
		write(e, structs.JobRevert, rights.JobRevert, jobs.Revert),
		write(e, structs.JobDispatch, rights.JobDispatch, jobs.Dispatch),
		write(e, structs.PeriodicForce, rights.JobForce, jobs.ForcePeriodic),
		write(e, structs.JobScale, rights.JobScale, jobs.Scale),
		shed(read(e, structs.JobScaleStatus, rights.JobScaleStatus, jobs.ScaleStatus)),
		shed(e.quick(read(e, structs.JobGet, rights.JobRead, jobs.Get))),
		shed(read(e, structs.JobList, rights.JobList, jobs.List)),
		shed(read(e, structs.JobStatuses, rights.RowsList, job.Statuses{Server: e.Server}.List)),
		shed(read(e, structs.JobVersions, rights.JobRead, jobs.Versions)),
		shed(read(e, structs.JobSubmissionGet, rights.JobRead, jobs.Submission)),
		shed(read(e, structs.JobSummaryGet, rights.JobRead, jobs.Summary)),
		shed(read(e, structs.JobWhy, rights.JobWhy, jobs.Why)),
		shed(read(e, structs.JobAllocations, rights.JobRead, jobs.Allocations)),
		shed(read(e, structs.JobEvaluations, rights.JobRead, jobs.Evaluations)),
		shed(read(e, structs.JobDeployments, rights.JobRead, deployments.OfJob)),
		shed(read(e, structs.JobLatestDeployment, rights.JobRead, deployments.Latest)),
		write(e, structs.JobStable, rights.JobStable, jobs.SetStable),
		write(e, structs.JobTagApply, rights.JobWrite, job.Tags{Server: e.Server}.Apply),
		write(e, structs.JobTagRemove, rights.JobWrite, propose(e, fsm.JobUntag)),

		shed(read(e, structs.ScalingPolicyList, rights.ScalingList, jobs.ScalingPolicies)),
		shed(e.quick(read(e, structs.ScalingPolicyGet, rights.ScalingRead, jobs.ScalingPolicy))),

		shed(read(e, structs.ServiceList, rights.Services, services.List)),
		shed(read(e, structs.ServiceGet, rights.Services, services.Get)),
		write(e, structs.ServiceDelete, rights.JobWrite, propose(e, fsm.ServiceDelete)),
		shed(read(e, structs.AllocOffers, rights.AllocRead, allocs.Services)),
		shed(read(e, structs.JobOffers, rights.JobRead, jobs.Services)),

		shed(read(e, structs.DeploymentList, rights.RowsList, deployments.List)),
		shed(e.quick(read(e, structs.DeploymentGet, rights.DeploymentRead, deployments.Get))),
		shed(read(e, structs.DeploymentAllocations, rights.DeploymentRead, deployments.Allocations)),
		write(e, structs.DeploymentFail, rights.DeploymentFail, deployments.Fail),
		write(e, structs.DeploymentPause, rights.DeploymentPause, deployments.Pause),
		write(e, structs.DeploymentPromote, rights.DeploymentPromote, deployments.Promote),
		write(e, structs.DeploymentSetHealth, rights.DeploymentHealth, deployments.SetHealth),
		write(e, structs.DeploymentUnblock, rights.DeploymentFail, deployments.Unblock),

		shed(e.quick(read(e, structs.AllocGet, rights.AllocRead, allocs.Get))),
		read(e, structs.AllocsGet, rights.AllocsRead, allocs.GetMany),
		shed(read(e, structs.AllocList, rights.RowsList, allocs.List)),
		write(e, structs.AllocStop, rights.AllocStop, allocs.Stop),
		// The node of the ended allocation answers, so it takes as long as that node.
		slow(call(e, nodecalls.AllocData, rights.Node, allocs.Data)),
		read(e, nodecalls.AllocDataWaits, rights.Node, allocs.DataWaits),
		call(e, access.IdentitySign, rights.Node, e.ids.Sign),

		shed(e.quick(read(e, structs.EvalGet, rights.EvalRead, evals.Get))),
		shed(read(e, structs.EvalList, rights.RowsList, evals.List)),
		shed(read(e, structs.EvalCount, rights.RowsList, evals.Count)),
		write(e, structs.EvalDelete, rights.Management, evals.Delete),
		shed(read(e, structs.EvalAllocs, rights.EvalRead, evals.Allocations)),

		shed(read(e, structs.CSIPluginGet, rights.PluginGet, plugins.Get)),
		shed(read(e, structs.CSIPluginList, rights.PluginList, plugins.List)),
		write(e, structs.CSIPluginDelete, rights.Management, propose(e, fsm.PluginDelete)),
		read(e, storage.PluginSettingsGet, rights.PluginRead, plugins.Config),
		write(e, storage.PluginSettingsSet, rights.OperatorWrite, propose(e, fsm.PluginConfigSet)),
		read(e, storage.DriftSummaries, rights.PluginList, csi.ListDriftSummaries),
		read(e, storage.ClassList, rights.PluginList, csi.ListClasses),
		read(e, storage.ClassGet, rights.PluginList, csi.GetClass),
		read(e, storage.Spaces, rights.PluginList, csi.ClassSpaces),
		write(e, storage.ClassPut, rights.OperatorWrite, propose(e, fsm.VolumeClassPut)),
		write(e, storage.ClassDelete, rights.OperatorWrite, propose(e, fsm.VolumeClassDelete)),

		shed(quickIf(e.quick(read(e, structs.CSIVolumeGet, rights.VolumeRead, volumes.Get)), volumes.IsSmall)),
		shed(read(e, structs.VolumeWhy, rights.VolumeRead, volumes.Why)),
		shed(read(e, structs.CSIVolumeList, rights.VolumeList, volumes.List)),
		shed(read(e, storage.DriftList, rights.VolumeList, csi.ListDrift)),
		slow(call(e, structs.CSIVolumeExternal, rights.VolumeExternal, volumes.External)),
		slow(readFor(e, storage.UsageList, rights.ClaimList, csi.Usages{Server: e.Server}.List)),
		// These wait for the row that a leader loop changes after its calls of a plugin.
		slow(write(e, structs.CSIVolumeRegister, rights.VolumeWrite, change.Register)),
		slow(write(e, structs.CSIVolumeCreate, rights.VolumeWrite, change.Create)),
		write(e, structs.CSIVolumeDeregister, rights.VolumeDeregister, change.Deregister),
		slow(write(e, storage.SnapshotCreate, rights.SnapshotCreate, snapshots.Create)),
		slow(write(e, storage.SnapshotDelete, rights.SnapshotDelete, snapshots.Delete)),
		slow(call(e, storage.SnapshotExternal, rights.VolumeExternal, snapshots.External)),
		shed(read(e, storage.SnapshotList, rights.SnapshotList, snapshots.List)),
		shed(read(e, storage.SnapshotGet, rights.SnapshotRead, snapshots.Get)),
		slow(write(e, storage.SnapshotGroupCreate, rights.SnapshotGroupCreate, snapshotGroups.Create)),
		slow(write(e, storage.SnapshotGroupDelete, rights.SnapshotGroupDelete, snapshotGroups.Delete)),
		shed(read(e, storage.SnapshotGroupList, rights.SnapshotGroupList, snapshotGroups.List)),
		shed(read(e, storage.SnapshotGroupGet, rights.SnapshotGroupRead, snapshotGroups.Get)),
		shed(read(e, storage.ScheduleList, rights.ScheduleList, schedules.List)),
		shed(read(e, storage.ScheduleGet, rights.ScheduleRead, schedules.Get)),
		write(e, storage.SchedulePut, rights.SchedulePut, schedules.Put),
		write(e, storage.SchedulePause, rights.SchedulePause, propose(e, fsm.SnapshotSchedulePause)),
		write(e, storage.ScheduleDelete, rights.ScheduleDelete, propose(e, fsm.SnapshotScheduleDelete)),
		slow(write(e, structs.CSIVolumeDelete, rights.VolumeDelete, change.Remove)),
		slow(write(e, storage.HostVolumeCreate, rights.HostVolumeCreate, hostVolumes.Create)),
		write(e, storage.HostVolumeRegister, rights.HostVolumeRegister, hostVolumes.Register),
		shed(read(e, storage.HostVolumeGet, rights.HostVolumeRead, hostVolumes.Get)),
		shed(read(e, storage.HostVolumeList, rights.HostVolumeList, hostVolumes.List)),
		slow(write(e, storage.HostVolumeDelete, rights.HostVolumeDelete, hostVolumes.Remove)),
		shed(read(e, storage.HostVolumeClaimList, rights.HostVolumeList, hostVolumes.ListClaims)),
		write(e, storage.HostVolumeClaimDelete, rights.HostVolumeDelete, propose(e, fsm.HostVolumeClaimDelete)),

		write(e, structs.CSIVolumeClaim, rights.Node, claims.Claim),
		write(e, structs.CSIVolumeUnpublish, rights.Node, claims.Unpublish),
		slow(write(e, structs.CSIVolumeDetach, rights.VolumeDetach, releaser.Detach)),
		write(e, structs.CSIVolumeNodeExpanded, rights.Node, claims.NodeExpanded),
		write(e, structs.CSIVolumeLabel, rights.VolumeLabel, e.change.Label),
		slow(write(e, structs.CSIVolumeRetry, rights.VolumeRetry, csi.Retries{Server: e.Server}.Retry)),
		write(e, storage.VolumeUndelete, rights.VolumeUndelete, propose(e, fsm.VolumeUndelete)),
		e.quick(call(e, structs.CSIClaimGet, rights.Node, claims.Get)),
		read(e, structs.CSIClaimList, rights.ClaimList, claims.List),
		shed(read(e, structs.VolumeClaimList, rights.ClaimList, claims.ListAll)),
		slow(write(e, structs.VolumeClaimRelease, rights.ClaimRelease, releaser.Claim)),
		slow(write(e, structs.VolumeClaimForce, rights.Socket, releaser.ForceClaim)),

		shed(read(e, access.VariableList, rights.VariableList, variables.List)),
		read(e, access.VariableGet, rights.VariableRead, variables.Get),
		write(e, access.VariableApply, rights.VariableApply, variables.Apply),
		write(e, access.VariableRenew, rights.VariableRenew, variables.Renew),

		write(e, cluster.JoinTokenCreate, rights.Management, certificates.CreateToken),
		write(e, cluster.JoinTokenDelete, rights.Management, propose(e, fsm.JoinTokenDelete)),
		read(e, cluster.JoinTokenList, rights.Management, certificates.ListTokens),
		write(e, cluster.CertificateSign, byJoinToken, certificates.Sign),
		write(e, cluster.CertificateRenew, byCertificate, certificates.Renew),
		write(e, cluster.OperatorCertificate, rights.Management, certificates.SignOperator),
		write(e, cluster.CertificateRevoke, rights.Management, certificates.Revoke),
		write(e, cluster.CertificateUnrevoke, rights.Management, propose(e, fsm.Unrevoke)),
		read(e, cluster.CertificateRevocations, rights.OperatorRead, certificates.ListRevocations),
		write(e, cluster.AuthorityReplace, rights.Management, certificates.ReplaceAuthority),
		read(e, cluster.AuthorityList, rights.OperatorRead, certificates.ListAuthorities),
		write(e, cluster.AuthorityRemove, rights.Management, certificates.RemoveAuthority),

		shed(read(e, quota.SpecList, accesses.QuotaSeen, quotas.List)),
		read(e, quota.SpecGet, accesses.QuotaRead, quotas.Read),
		write(e, quota.SpecPut, rights.QuotaWrite, quotas.Apply),
		write(e, quota.SpecDelete, rights.QuotaWrite, propose(e, fsm.QuotaDelete)),
		shed(read(e, quota.UsageList, accesses.QuotaSeen, quotas.Usages)),
		read(e, quota.UsageGet, accesses.QuotaRead, quotas.Usage),

		write(e, access.Bootstrap, byReset, tokens.Bootstrap),
		read(e, access.ModeGet, openMode, tokens.Mode),
		write(e, access.ModeSet, rights.Socket, tokens.SetMode),
		read(e, access.AuthMethodList, accesses.ToFindMethod, e.logins.Methods),
		read(e, access.AuthMethodGet, rights.Management, e.logins.Method),
		write(e, access.AuthMethodPut, rights.Management, e.logins.PutMethod),
		write(e, access.AuthMethodDelete, rights.Management, propose(e, fsm.ACLAuthMethodDelete)),
		read(e, access.BindingRuleList, rights.Management, e.logins.Rules),
		read(e, access.BindingRuleGet, rights.Management, e.logins.Rule),
		write(e, access.BindingRulePut, rights.Management, e.logins.PutRule),
		write(e, access.BindingRuleDelete, rights.Management, propose(e, fsm.ACLBindingRuleDelete)),
		// These wait for a provider.
		slow(write(e, access.TokenLogin, accesses.ToLogIn, e.logins.TokenLogin)),
		slow(write(e, access.AuthURL, accesses.ToLogIn, e.logins.AuthURL)),
		slow(write(e, access.CompleteAuth, accesses.ToLogIn, e.logins.CompleteAuth)),
		write(e, access.OneTimeMake, accesses.AnyToken, e.logins.MakeOneTime),
		write(e, access.OneTimeExchange, accesses.ToLogIn, e.logins.ExchangeOneTime),

		read(e, access.PolicyList, accesses.OwnRows, tokens.Policies),
		read(e, access.PolicyGet, accesses.OwnPolicy, tokens.Policy),
		write(e, access.PolicyPut, rights.Management, tokens.PutPolicy),
		write(e, access.PolicyDelete, rights.Management, propose(e, fsm.ACLPolicyDelete)),
		read(e, access.RoleList, accesses.OwnRows, tokens.Roles),
		read(e, access.RoleGet, accesses.OwnRole, tokens.Role),
		write(e, access.RolePut, rights.Management, tokens.PutRole),
		write(e, access.RoleDelete, rights.Management, propose(e, fsm.ACLRoleDelete)),
		read(e, access.TokenList, rights.Management, tokens.Tokens),
		read(e, access.TokenGet, accesses.OwnToken, tokens.Token),
		write(e, access.TokenPut, rights.Management, tokens.PutToken),
		write(e, access.TokenDelete, accesses.OwnLogin, tokens.DeleteToken),
		e.quick(read(e, access.Check, rights.Check, e.checked)),

		read(e, admission.RuleList, rights.OperatorRead, rules.List),
		read(e, admission.RuleGet, rights.OperatorRead, rules.Rule),
		write(e, admission.RulePut, rights.OperatorWrite, rules.Put),
		write(e, admission.RuleDelete, rights.OperatorWrite, propose(e, fsm.AdmissionRuleDelete)),
		call(e, admission.RuleTest, rights.RuleTest, rules.Test),

		slow(call(e, event.List, events.Right.Deferred(), feed.List)),
		shed(read(e, structs.SearchPrefix, rights.Search, search.Prefix)),
		shed(read(e, structs.SearchFuzzy, rights.Search, search.Fuzzy)),
	}
}
