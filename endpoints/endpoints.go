package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/foreign"
	"berth/endpoints/join"
	"berth/endpoints/query"
	"berth/endpoints/release"
	"berth/endpoints/vars"
	"berth/fsm"
	"berth/internal/coalesce"
	"berth/internal/keylock"
	"berth/internal/keyring"
	"berth/internal/loadshed"
	"berth/rpc"
	"berth/server/authority"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// Raft is the membership of this server in the cluster, as the procedures use it.
type Raft interface {
	fsm.Proposer
	// Leader names the leader. isMe is true once this server has applied all entries that were committed
	// before its term began. known is false while there is no leader. lastContact is the time since the last
	// contact of a follower with its leader.
	Leader() (addr string, isMe bool, known bool, lastContact time.Duration)
	// Leads returns a context that ends when the server at an address has lost its leadership, as far as this
	// server knows.
	Leads(addr string) context.Context
	// VerifyLeader confirms with a quorum that this server still leads. If it does not, the error is
	// unavailable.
	VerifyLeader() error
	// Alone reports whether this server leads and is a quorum by itself.
	Alone() bool
	// LostLeadership is closed while this server does not lead.
	LostLeadership() <-chan struct{}
	// Configuration is the Raft configuration as this server knows it.
	Configuration() []*structs.RaftServer
	// RemovePeer removes a server that is not alive from the Raft configuration, and its vote with it.
	RemovePeer(id, address string) (index uint64, err error)
	// TransferLeadership makes another server lead, and waits until it does. Only the leader can do it.
	TransferLeadership(ctx context.Context, id, address string) error
	// Forward calls a method at another server.
	Forward(ctx context.Context, addr, method string, req, resp any) error
	// Servers are the RPC addresses of the servers, the leader's first.
	Servers() []string
}

// Leases are the nodes' heartbeats, kept by the leader.
type Leases interface {
	// Admit returns an error if another agent has the lease of the node, or its volumes. row is nil for a new
	// node.
	Admit(row *structs.Node, hasVolumes bool, agent *structs.AgentProof) error
	// NoteSecond notes an agent that Admit has rejected.
	NoteSecond(nodeID string, agent *structs.AgentProof, s structs.SecondAgent)
	// Second returns the agent of a node that was rejected last, nil if there is none.
	Second(nodeID string) *structs.SecondAgent
	// Renew restarts the lease of a node for an agent, nil for one of level 1. The error is unavailable if this
	// server does not lead, or not yet, or if another agent was faster.
	Renew(nodeID string, agent *structs.AgentProof) (structs.LeaseGrant, error)
	// Forget ends the lease of a node that was deleted.
	Forget(nodeID string)
	// Length returns the length, with the grace, of a lease that an operator orders.
	Length(ordered time.Duration) (time.Duration, error)
	// Extend grants a lease of a length that the log has. The error is unavailable if this server does not lead.
	Extend(nodeID string, length time.Duration) error
}

// Autopilot is the view of the leader on the servers.
type Autopilot interface {
	// Stats returns how far this server has followed the log.
	Stats() structs.RaftStats
	// Health returns the health of all servers. The error is unavailable if this server does not lead.
	Health() (*structs.AutopilotHealthResponse, error)
}

const (
	callTimeout   = 2 * time.Minute // of one call to a node
	writePatience = time.Second     // how long a request waits until it may write
)

// Deps are the parts that the procedures use.
type Deps struct {
	Store  *state.Store
	Raft   Raft
	Leases Leases
	Locks  vars.Locks // of variables
	// Autopilot knows the health of the servers.
	Autopilot Autopilot
	Nodes     *nodeconn.Sessions // over which this server can call nodes
	Logger    hclog.Logger
	Region    string
	Name      string // of this server
	Socket    string // the path of its operator socket
	// Roles says that the certificates of callers decide on their rights. Without it a caller without a
	// certificate may do everything, and so may each other.
	Roles  bool
	Now    func() time.Time
	Consul Consul // nil: the servers use no Consul
	// Fencing has the fence devices of this server.
	Fencing Fencing
	// JobSource bounds the source of a job that is stored, with its variables, in bytes. 0 stores none.
	JobSource int
	// CollectGarbage deletes every row that has ended and is not needed, of any age.
	CollectGarbage func(context.Context, fsm.Proposer) (index uint64, err error)
	// RaftMultiplier scales how long a request waits for an election, as it scales the timeouts of Raft. 0 is 1.
	RaftMultiplier int
	// Level returns the least level of the servers.
	Level func() int
	// Drains is held while a request changes the drain of a node: see control.Deps.
	Drains sync.Locker
	// Keys encrypt the secrets of the cluster before they enter the log. nil: none.
	Keys *keyring.Ring
	// RootKeys serve the methods of the keyring. nil: nobody calls them.
	RootKeys RootKeys
}

// Endpoints serve the procedures of one server.
type Endpoints struct {
	nodes   *nodeconn.Sessions
	consul  Consul // nil: the servers use no Consul
	fencing Fencing
	store   *state.Store
	queries *query.Engine
	raft    Raft
	writes  *loadshed.Queue // of raft
	leases  Leases
	locks   vars.Locks
	pilot   Autopilot
	collect func(context.Context, fsm.Proposer) (uint64, error) // see Deps.CollectGarbage
	logger  hclog.Logger
	region  string
	name    string // see Deps
	socket  string
	source  int  // see Deps.JobSource
	roles   bool // see Deps.Roles
	now     func() time.Time
	config  settings
	level   func() int // see Deps.Level
	drains  sync.Locker
	keys    *keyring.Ring // see Deps.Keys
	root    RootKeys      // see Deps.RootKeys

	foreign foreign.Nodes // that this server has rejected while it led

	volumeLocks keylock.Map      // held while a volume is recorded, by namespace and ID
	jobLocks    keylock.Map      // held while a job is registered, by namespace and ID
	dataPages   loadshed.Permits // of pages of data that go from node to node

	// statusBatch merges nodes by the change that their heartbeats make. So 10,000 nodes that come back at
	// once make some 300 log entries. Without it the bound on writes rejects two thirds of them.
	statusBatch coalesce.Batcher[statusChange, string]
}

// statusBatchMost bounds the nodes whose status one log entry changes.
const statusBatchMost = 4096

// New makes the procedures.
func New(d Deps) *Endpoints {
	return newEndpoints(d, defaultSettings())
}

func newEndpoints(d Deps, config settings) *Endpoints {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Drains == nil {
		d.Drains = &sync.Mutex{}
	}
	if d.Keys == nil {
		d.Keys = &keyring.Ring{}
	}
	if d.RootKeys == nil {
		d.RootKeys = noRootKeys{}
	}

	slowness := time.Duration(max(d.RaftMultiplier, 1))
	config.holdTimeout *= slowness
	config.answerTimeout *= slowness
	d.Region = cmp.Or(d.Region, structs.DefaultRegion)
	writes := newWrites(config)
	e := &Endpoints{
		nodes:       d.Nodes,
		consul:      d.Consul,
		fencing:     d.Fencing,
		store:       d.Store,
		queries:     query.NewEngine(d.Store, d.Raft),
		raft:        boundedRaft{d.Raft, writes},
		writes:      writes,
		leases:      d.Leases,
		locks:       d.Locks,
		pilot:       d.Autopilot,
		collect:     d.CollectGarbage,
		logger:      d.Logger,
		region:      d.Region,
		name:        d.Name,
		socket:      d.Socket,
		source:      d.JobSource,
		roles:       d.Roles,
		now:         d.Now,
		config:      config,
		level:       d.Level,
		drains:      d.Drains,
		keys:        d.Keys,
		root:        d.RootKeys,
		volumeLocks: keylock.Map{MaxUsers: 1 + config.turnQueue},
		jobLocks:    keylock.Map{MaxUsers: 1 + config.turnQueue},
		dataPages:   make(loadshed.Permits, maxDataPages),
	}

	e.statusBatch.Most = statusBatchMost
	e.statusBatch.Propose = e.recordStatus
	return e
}

// quick marks a procedure that mostly answers from memory. It has many callers, and a goroutine would be a
// large part of the cost of a request. A request that is forwarded or waits for others is not quick. A write
// of this kind goes through the log now and then, and delays its own connection meanwhile.
func (e *Endpoints) quick(endpoint rpc.Endpoint) rpc.Endpoint {
	endpoint.Inline = func(req any) bool {
		o := optionsOf(req, endpoint.Write)
		if o.write {
			_, isMe, _, _ := e.raft.Leader()
			return isMe
		}
		return o.stale || e.raft.Alone()
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

// boundedRaft is a Raft that admits a bounded number of entries at the same time.
type boundedRaft struct {
	Raft
	writes *loadshed.Queue
}

// newWrites returns the bound on the log entries of requests.
func newWrites(c settings) *loadshed.Queue {
	return loadshed.NewQueue(loadshed.QueueConfig{
		Limit:    "writes",
		Permits:  c.writes,
		Waiting:  c.writeQueue,
		Patience: writePatience,
		Soonest:  50 * time.Millisecond,
		Latest:   5 * time.Second,
		Text: fmt.Sprintf(
			"the log entry was not written: %d writes are in flight and others wait",
			c.writes),
	})
}

// Propose proposes an entry when the queue admits it.
func (r boundedRaft) Propose(
	ctx context.Context,
	entry []byte,
) (uint64, any, error) {
	leave, err := r.writes.Enter(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	return r.Raft.Propose(ctx, entry)
}

// List is every procedure that a server serves, wrapped in the middleware.
func (e *Endpoints) List() []rpc.Endpoint {
	var (
		status = statuses{e}
		node   = nodes{e}
		lost   = lostNodes{e}
		pool   = nodePools{e}
		space  = namespaces{e}
		job    = jobs{e}
		alloc  = allocs{e}
		eval   = evals{e}
		plugin = plugins{e}
		volume = volumes{e}
		claim  = claims{e}
		free   = release.Releaser{
			Store:     e.store,
			Raft:      e.raft,
			Nodes:     e.nodes,
			Logger:    e.logger,
			MayAssert: e.mayAssert,
		}
		change = volumeWrites{e}
		search = searches{e}
		deploy = deployments{e}
		offer  = services{e}
		vars   = vars.Variables{
			Store: e.store,
			Raft:  e.raft,
			Keys:  e.keys,
			Locks: e.locks,
		}
		sign = join.Signing{
			Signer: authority.Signer{Rows: authority.RowsOf(e.store), Keys: e.keys, Now: e.now},
			Store:  e.store,
			Leader: e.raft,
			Region: e.region,
			Logger: e.logger,
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
		call(e, structs.KeyringList, anyone, e.root.List),
		write(e, structs.KeyringRotate, anyone, e.root.Serve),
		write(e, structs.KeyringDelete, anyone, propose(e, fsm.RootKeyRemove)),
		local(e, structs.KeyringStatusGet, e.root.Status),
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
		shed(read(e, structs.NodeAllocs, anyone, node.allocs)),
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
		shed(read(e, structs.NodePoolJobs, anyone, pool.jobs)),
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
