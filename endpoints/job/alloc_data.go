package job

import (
	"context"
	"time"

	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/structs/nodecalls"
)

// dataTimeout bounds the call to a node for a page of data. It is for one page, and not for all data: a large
// directory takes as many calls as it has pages.
const dataTimeout = time.Minute

// maxDataPages bounds the pages that a server passes on at a time: each takes nodecalls.AllocDataPage bytes
// of it. Others wait, so a drain of many nodes takes longer and the memory of the leader does not grow.
const maxDataPages = 64

// Data passes a page of the data of an ended allocation on to the node of its successor. The servers have a
// connection to each node, and nodes need none to each other.
func (a Allocs) Data(
	ctx context.Context, req *nodecalls.AllocDataRequest,
) (*nodecalls.AllocDataResponse, error) {
	tx := a.Store.Read()
	ended := state.Alloc(tx, req.AllocID)
	successor := state.Alloc(tx, req.Successor)
	// The caller has proved that it is req.NodeID. It gets data only for an allocation of its own.
	if successor == nil || successor.NodeID != req.NodeID {
		return nil, structs.Deniedf("allocation %q is not on node %s", req.Successor, req.NodeID)
	}

	if ended == nil {
		return nil, structs.Preconditionf("allocation %s is gone", req.AllocID)
	}

	err := checkPredecessor(tx, req, ended, successor)
	if err != nil {
		return nil, err
	}

	// The permit is for the whole call, because the page is in memory that long.
	if !a.dataPages.Enter(ctx, dataTimeout) {
		return nil, structs.Unavailablef("this server passes on %d pages of data, its most; retry", maxDataPages)
	}
	defer a.dataPages.Leave()

	// There is one node that has the data, so there is no other one to try.
	to := nodeconn.Target{
		Nodes: a.Nodes,
		IDs:   []string{ended.NodeID},
		Limit: dataTimeout,
	}

	// The credentials of the calling node stay here: the other node must not learn its secret.
	page := &nodecalls.AllocDataRequest{
		AllocID:   req.AllocID,
		Successor: req.Successor,
		After:     req.After,
		Offset:    req.Offset,
	}

	answer, err := nodeconn.Call(ctx, to, nodecalls.ClientAllocData, page)
	// An error that passes would let the successor ask for as long as the node is away.
	away := state.Node(a.Store.Read(), ended.NodeID).Lost() && ctx.Err() == nil
	if away && (structs.IsKind(err, structs.KindUnavailable) || structs.IsKind(err, structs.KindTimeout)) {
		return nil, structs.Preconditionf("it is down, or not registered any more: %w", err)
	}

	return answer, err
}

// checkPredecessor returns an error unless an allocation may take over the data of another one, which has
// ended. Without this it could read the data of any other by naming it.
func checkPredecessor(
	tx *state.ReadTx, req *nodecalls.AllocDataRequest, ended, successor *structs.Allocation,
) error {
	// The job says whether data moves: the rule comes from the successor's version.
	job := state.JobOf(tx, successor)
	switch {
	case job == nil:
		return structs.Preconditionf("the job of allocation %s is gone", req.Successor)
	case ended.Namespace != successor.Namespace,
		ended.JobID != successor.JobID,
		ended.TaskGroup != successor.TaskGroup,
		successor.ClientTerminal(),
		!state.TakesData(job, successor, ended):
		return structs.Deniedf("allocation %s is no predecessor of %s", req.AllocID, req.Successor)
	// The files may still change. The node of the successor asks again.
	case !ended.ClientTerminal():
		return structs.Unavailablef("allocation %s has not ended", req.AllocID)
	}
	return nil
}

// DataWaits tells a node which of its ended allocations it keeps for their replacements.
func (a Allocs) DataWaits(
	tx *state.ReadTx,
	req *nodecalls.AllocDataWaitsRequest,
	resp *nodecalls.AllocDataWaitsResponse,
) error {
	if n := len(req.AllocIDs); n > structs.MaxAllocIDs {
		return structs.Invalidf("the request names %d allocations; at most %d are allowed",
			n, structs.MaxAllocIDs)
	}
	var since int64
	if req.Keep > 0 {
		// The clock of the node does not count: it may be ahead.
		since = a.Clock.Now().Add(-req.Keep).UnixNano()
	}
	resp.Waits = state.DataWaits(tx, req.NodeID, req.AllocIDs, since)
	return nil
}
