package node

import (
	"cmp"
	"context"
	"net"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/coalesce"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/validate/report"
)

// Nodes serve Node.
type Nodes struct {
	*core.Server
	// It is of the leader alone and of no row: a new leader begins with an empty list.
	rejected *rejectedNodes // that this server has rejected while it led
	// statusBatch merges nodes by the change that their heartbeats make. So 10,000 nodes that come back at
	// once make some 300 log entries. Without it the bound on writes rejects two thirds of them.
	statusBatch *coalesce.Batcher[statusChange, string]
}

// statusBatchMost bounds the nodes whose status one log entry changes. It keeps an entry small: its IDs have
// 36 bytes each.
const statusBatchMost = 4096

// NewNodes makes the procedures of nodes.
func NewNodes(s *core.Server) Nodes {
	n := Nodes{
		Server:      s,
		rejected:    &rejectedNodes{},
		statusBatch: &coalesce.Batcher[statusChange, string]{Most: statusBatchMost},
	}
	n.statusBatch.Propose = n.recordStatus
	return n
}

// renewLease renews the lease of a node. It also keeps the connection of a request that the node made itself,
// over which the leader calls the node. A forwarded request came over the connection of another server, which
// keeps it: see Endpoints.keepsNode.
//
// The check of the leadership begins after the request has arrived. Without it, a leader that was frozen
// would grant a lease of which its successor does not know. In the meantime the new leader may have counted
// the node as lost and given its volumes to others.
func (n Nodes) renewLease(
	ctx context.Context, nodeID string, agent *structs.AgentProof, w *structs.WriteOptions,
) (structs.LeaseGrant, error) {
	session := rpc.SessionFrom(ctx)
	switch {
	case w.Forwarded:
		n.Nodes.NoteElsewhere(nodeID)
	case session != nil:
		n.Nodes.Bind(nodeID, session)
	}

	// The loop covers the first moments of a leader, before its loop of leases has begun. The node would
	// otherwise try another server.
	deadline := time.Now().Add(n.Settings.HoldTimeout)
	for {
		err := n.Raft.VerifyLeader()
		if err != nil {
			return structs.LeaseGrant{}, err
		}

		grant, err := n.Leases.Renew(nodeID, agent) // an error: this server has just begun to lead
		// The row is read after the renewal, so it shows an entry that has had the node down since the
		// request began.
		row := state.Node(n.Store.Read(), nodeID)
		if err == nil && row != nil && row.Lost() {
			// No lease may go to such a node: it would keep its volumes mounted.
			return structs.LeaseGrant{}, errLostMeanwhile
		}

		if row != nil {
			// A node without a row gets the lease alone. It was deleted after the request began, and its next
			// request finds that out.
			grant.Epoch = row.Epoch
			grant.Returning = row.Returning
		}

		// An error with a cause is about this agent, so it does not pass with time.
		final := err == nil || structs.CauseOf(err) != "" || !time.Now().Before(deadline)
		if final || !backoff.Sleep(ctx, core.HoldPoll) {
			return grant, err
		}
	}
}

// errLostMeanwhile is the error of a request that began before the log had its node down. The next
// request of the node brings it back, in a new epoch.
var errLostMeanwhile = structs.Unavailablef(
	"the servers have just taken this node for lost: repeat the request")

// Register creates or updates a node. A registration without changes needs no log entry, like a heartbeat.
func (n Nodes) Register(
	ctx context.Context,
	req *structs.NodeRegisterRequest,
	resp *structs.NodeRegisterResponse,
) (uint64, error) {
	var old *structs.Node
	if req.Node != nil {
		old = state.Node(n.Store.Read(), req.Node.ID)
	}

	node, err := completeNode(req, old)
	if err == nil && old != nil {
		// Otherwise another machine could take the ID of the node.
		err = n.CheckNode(old, node.SecretID)
	}
	if err == nil {
		err = n.admitRegistration(old, node, req.Agent)
	}
	if err != nil {
		return 0, err
	}

	// This precedes the entry: a node of another cluster must leave no row.
	cluster, err := n.joinCluster(ctx, req, node, old != nil)
	if err != nil {
		return 0, err
	}

	// The rows of plugins that the node may not report are left out, and its registration goes on.
	row := *req
	row.Agent = nil // the log does not need it
	row.CSI, _ = n.keepOwn(req.CSI)
	index, err := n.recordRegistration(ctx, &row, old, node)
	if err != nil {
		return 0, err
	}

	resp.ClusterID = cluster
	resp.Servers = n.Raft.Servers()
	resp.Left = old != nil && state.HasLeft(old)
	resp.LeaseGrant, err = n.renewLease(ctx, node.ID, req.Agent, &req.WriteOptions)
	return index, err
}

// recordRegistration writes the changes of a registration: the whole node, only its plugin instances, or
// nothing.
func (n Nodes) recordRegistration(
	ctx context.Context,
	req *structs.NodeRegisterRequest,
	old, node *structs.Node,
) (index uint64, err error) {
	// With Unsure an earlier request is in flight, and may change the row after this comparison. The entry of
	// this request then comes later.
	if old == nil || req.Unsure ||
		!nodeUnchanged(old, node) {
		req.Node = node
		return fsm.Propose(ctx, n.Raft, fsm.NodeRegister, req)
	}

	// This entry is small: it has the instances alone.
	report := &structs.NodeUpdateCSIRequest{
		NodeID:       node.ID,
		SecretID:     node.SecretID,
		Upserts:      req.CSI,
		Full:         true,
		WriteOptions: req.WriteOptions,
	}

	if instancesUnchanged(n.Store.Read(), report) {
		return old.ModifyIndex, nil
	}

	return fsm.Propose(ctx, n.Raft, fsm.NodeUpdateCSI, report)
}

// Heartbeat renews the lease of the calling node. Only a changed status goes through the log.
func (n Nodes) Heartbeat(
	ctx context.Context,
	node *structs.Node,
	req *structs.NodeHeartbeatRequest,
	resp *structs.NodeHeartbeatResponse,
) (uint64, error) {
	switch req.Status {
	case "", structs.NodeInit, structs.NodeReady:
	default:
		return 0, structs.Invalidf("a node cannot report the status %q; expected %q or %q",
			req.Status, structs.NodeInit, structs.NodeReady)
	}

	var err error
	if req.Inventory != nil {
		err = report.Inventory(req.Inventory, node.ID)
	}
	if err == nil {
		// Each heartbeat is checked: a second agent may have the ID and the secret of the node, too.
		err = n.admitHeartbeat(node, req.Agent)
	}
	if err != nil {
		return 0, err
	}

	index := node.ModifyIndex
	status := cmp.Or(req.Status, node.Status)
	accounted := node.Unaccounted && n.accountFor(ctx, node, req.Inventory)
	// The epoch is compared, because a node may send this late, after it was lost again.
	clean := node.Returning && req.CleanFor == node.Epoch
	if status != node.Status || accounted || clean {
		change := statusChange{
			status:    status,
			accounted: accounted,
			wasDown:   node.Status == structs.NodeDown,
		}

		if clean {
			change.cleanFor = node.Epoch
		}

		index, err = n.statusBatch.Do(ctx, change, req.NodeID)
		// The batch waits for its entry, so the lease is renewed only when the log has the node up.
		if err != nil {
			return 0, err
		}
	}

	resp.Servers = n.Raft.Servers()
	// It asks for the inventory in the next heartbeat.
	resp.Unaccounted = node.Unaccounted && !accounted
	resp.LeaseGrant, err = n.renewLease(ctx, req.NodeID, req.Agent, &req.WriteOptions)
	return index, err
}

// statusChange is the change that a heartbeat may make to its node. It is the key of the batch, so all of it
// has to be the same for the nodes of an entry.
type statusChange struct {
	status    string
	accounted bool // see NodeStatusUpdate
	cleanFor  uint64
	wasDown   bool
}

// recordStatus records one change that the heartbeats of many nodes make, for example after the servers were
// unreachable.
func (n Nodes) recordStatus(
	ctx context.Context,
	change statusChange,
	ids []string,
) (uint64, error) {
	// The time is of the batch, because it is one entry for many requests.
	now := n.Clock.Now()
	update := &structs.NodeStatusUpdate{
		NodeIDs:   ids,
		Status:    change.status,
		Accounted: change.accounted,
		CleanFor:  change.cleanFor,
	}

	update.Now = now.UnixNano()
	if change.wasDown {
		update.Event = &structs.NodeEvent{
			Message:   "Node reregistered by heartbeat",
			Subsystem: "Cluster",
			Timestamp: now,
		}
	}
	return fsm.Propose(ctx, n.Raft, fsm.NodeStatus, update)
}

// Deregister deletes nodes. It rejects an unknown ID, because the ID may have any size and form. Either all
// nodes of a request are known, or none is deleted.
func (n Nodes) Deregister(
	ctx context.Context,
	req *structs.NodeDeregisterRequest,
	_ *structs.Empty,
) (uint64, error) {
	if n := len(req.NodeIDs); n > structs.MaxListed {
		return 0, structs.Invalidf(
			"%d nodes are too many for one request; at most %d are allowed",
			n, structs.MaxListed)
	}

	tx := n.Store.Read()
	for _, id := range req.NodeIDs {
		if state.Node(tx, id) == nil {
			return 0, noNode(structs.Cut(id, structs.MaxQuoted))
		}
	}

	index, err := fsm.Propose(ctx, n.Raft, fsm.NodeDeregister, req)
	if err != nil {
		return 0, err
	}

	// The entry has happened. A heartbeat of such a node finds no row, and its agent registers again.
	for _, id := range req.NodeIDs {
		n.Nodes.Drop(id)
		n.Leases.Forget(id)
	}

	return index, nil
}

// Eligibility sets whether a node takes new allocations. The error is invalid for an unknown value.
func (n Nodes) Eligibility(
	ctx context.Context,
	req *structs.NodeEligibilityRequest,
	_ *structs.Empty,
) (uint64, error) {
	switch req.Eligibility {
	case structs.NodeEligible, structs.NodeIneligible:
	default:
		return 0, structs.Invalidf("the eligibility is %q; expected %q or %q",
			req.Eligibility, structs.NodeEligible, structs.NodeIneligible)
	}
	return fsm.Propose(ctx, n.Raft, fsm.NodeEligibility, req)
}

// ExtendLease grants a node a longer lease. The log has its length before: a new leader counts it too.
func (n Nodes) ExtendLease(
	ctx context.Context,
	req *cluster.NodeExtendLeaseRequest,
	resp *cluster.NodeExtendLeaseResponse,
) (uint64, error) {
	length, err := n.Leases.Length(req.For)
	if err != nil {
		return 0, err
	}

	longer := &cluster.NodeLeaseRequest{
		NodeID: req.NodeID,
		Length: length,
	}

	index, err := fsm.Propose(ctx, n.Raft, fsm.NodeLeaseSet, longer)
	if err != nil {
		return 0, err
	}

	resp.DownAfter = length
	return index, n.Leases.Extend(req.NodeID, length)
}

// Evaluate requests an evaluation of each job that has or may have an allocation on the node.
func (n Nodes) Evaluate(
	ctx context.Context,
	req *structs.NodeGetWriteRequest,
	resp *structs.NodeEvaluateResponse,
) (uint64, error) {
	tx := n.Store.Read()
	node := state.Node(tx, req.NodeID)
	if node == nil {
		return 0, noNode(req.NodeID)
	}

	resp.NodeModifyIndex = node.ModifyIndex
	update := &structs.EvalUpdateRequest{WriteOptions: req.WriteOptions}
	// The IDs are made here, because a state function has no random source.
	for _, e := range state.NodeEvals(tx, node.ID, true, req.Now) {
		e.ID = structs.NewID()
		update.Evals = append(update.Evals, e)
		resp.EvalIDs = append(resp.EvalIDs, e.ID)
	}

	if len(update.Evals) == 0 {
		return n.Store.Index(), nil
	}

	index, err := fsm.Propose(ctx, n.Raft, fsm.EvalUpdate, update)
	resp.EvalCreateIndex = index
	return index, err
}

func noNode(id string) error {
	return structs.NotFoundf("there is no node %q", id)
}

// Get reads a node with its plugins and without its secret. The error is not-found.
func (n Nodes) Get(
	tx *state.ReadTx,
	req *structs.NodeGetRequest,
	resp *structs.NodeGetResponse,
) error {
	node := state.Node(tx, req.NodeID)
	if node == nil {
		return noNode(req.NodeID)
	}
	// A detail is a copy, so its secret can be emptied here.
	resp.Node = state.NodeDetail(tx, node)
	resp.Node.SecretID = ""
	resp.Node.Mark = ""
	// It is known to the leader alone, and to no row.
	resp.Node.SecondAgent = n.Leases.Second(node.ID)
	return nil
}

// List lists nodes by their IDs, as stubs.
func (n Nodes) List(
	tx *state.ReadTx,
	req *structs.QueryRequest,
	resp *structs.NodeListResponse,
) (err error) {
	l := query.List[structs.Node, structs.NodeListStub]{
		Key:  nodeKey,
		Stub: setNodeStub,
	}
	resp.Nodes, err = l.Page(state.NodesFrom(tx, req.Prefix, query.Start(req)), req, resp)
	return err
}

// nodeKey is the position of a node in a page: the next page begins after it.
func nodeKey(n *structs.Node) []string {
	return []string{n.ID}
}

// setNodeStub fills in what lists of nodes show. The address is without the port, as clients of the dialect
// expect it.
func setNodeStub(n *structs.Node, s *structs.NodeListStub) {
	host, _, err := net.SplitHostPort(n.HTTPAddr)
	if err != nil {
		host = n.HTTPAddr
	}

	*s = structs.NodeListStub{
		Address:               host,
		ID:                    n.ID,
		Datacenter:            n.Datacenter,
		Name:                  n.Name,
		NodeClass:             n.NodeClass,
		NodePool:              n.NodePool,
		Version:               n.Attributes["berth.version"],
		Drain:                 n.Drain,
		LastDrain:             n.LastDrain,
		SchedulingEligibility: n.SchedulingEligibility,
		Status:                n.Status,
		StatusDescription:     n.StatusDescription,
		Returning:             n.Returning,
		Drivers:               n.Drivers,
		NodeResources:         n.NodeResources,
		ReservedResources:     n.ReservedResources,
		Indexes:               n.Indexes,
	}
}
