package node

import (
	"cmp"
	"context"
	"maps"

	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/validate/report"
)

// ClientAllocs returns the allocations that a node should have. It waits for changes of them that the servers
// make. Changes that the node reports itself, and other nodes' allocations, do not end the wait.
func (n Nodes) ClientAllocs(
	ctx context.Context,
	req *structs.NodeGetRequest,
) (*structs.NodeClientAllocsResponse, error) {
	// It keeps the answer of the last run, and so tells changes that the indexes do not: an allocation that
	// is gone has no index.
	var before map[string]uint64
	asked := query.Request{
		Method: structs.NodeClientAllocs.Name,
		Body:   req,
	}

	type answer = structs.NodeClientAllocsResponse
	read := func(tx *state.ReadTx) (*answer, bool, error) {
		resp := &answer{Allocs: map[string]uint64{}}
		// At least 1, see query.Watch.
		resp.Index = 1
		for a := range state.AllocsByNode(tx, req.NodeID) {
			// This index grows only by changes of the servers, so a node's own reports end no wait.
			resp.Allocs[a.ID] = a.AllocModifyIndex
			resp.Index = max(resp.Index, a.AllocModifyIndex)
		}

		// The first run has nothing to compare with. The index decides then.
		changed := before != nil && !maps.Equal(before, resp.Allocs)
		before = resp.Allocs
		return resp, changed, nil
	}

	return query.Wait(ctx, n.Queries, asked, read)
}

// UpdateAllocs records the reports of a node on its own allocations. It ignores an allocation that is not the
// node's, for example a deleted one, so that the other reports are recorded. It ignores reports without
// changes, because a restarted agent reports all allocations. It rejects an unknown state after the other
// reports are recorded.
func (n Nodes) UpdateAllocs(
	ctx context.Context,
	req *structs.AllocsClientUpdateRequest,
	_ *structs.Empty,
) (uint64, error) {
	tx := n.Store.Read()
	own := *req
	own.Allocs = nil
	var unknown error
	for _, u := range req.Allocs {
		if u == nil {
			continue
		}

		a := state.Alloc(tx, u.ID)
		if a == nil || a.NodeID != req.NodeID {
			continue
		}

		// Unknown tasks are dropped and long texts cut, because a node repeats a rejected report for ever.
		u = withKnownTasks(tx, a, u).Bounded()
		if allocUpdateUnchanged(a, u) {
			continue
		}

		err := report.AllocUpdate(u)
		if err != nil {
			unknown = cmp.Or(unknown, err)
			continue
		}

		own.Allocs = append(own.Allocs, u)
	}

	if len(own.Allocs) == 0 {
		return n.Store.Index(), unknown
	}

	// The node gets the error of a report only after the others are stored, so a bad one does not hold them
	// up.
	index, err := fsm.Propose(ctx, n.Raft, fsm.AllocsClientUpdate, &own)
	return index, cmp.Or(err, unknown)
}

// withKnownTasks returns the report without tasks that the allocation does not have. The version of the job
// is kept as long as an allocation uses it.
func withKnownTasks(
	tx *state.ReadTx,
	a *structs.Allocation,
	u *structs.AllocClientUpdate,
) *structs.AllocClientUpdate {
	// Without the version nobody knows its tasks, so all are kept.
	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return u
	}

	group := job.Group(a.TaskGroup)
	unknown := func(task string, _ *structs.TaskState) bool {
		return group.Task(task) == nil
	}

	// The copy leaves the report of the caller as it was.
	own := *u
	own.TaskStates = maps.Clone(u.TaskStates)
	maps.DeleteFunc(own.TaskStates, unknown)
	return &own
}
