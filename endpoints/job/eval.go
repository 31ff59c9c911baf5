package job

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// Evals serve Eval.
type Evals struct{ *core.Server }

// evalKey is the position of an evaluation in a page, as allocKey is of an allocation.
func evalKey(e *structs.Evaluation) []string {
	return []string{e.ID}
}

func compareEvals(a, b *structs.Evaluation) int {
	return cmp.Compare(a.ID, b.ID)
}

// evalList lists whole evaluations. An evaluation is small, so a list has no stubs of it.
var evalList = query.List[structs.Evaluation, structs.Evaluation]{
	Key:  evalKey,
	Stub: query.Whole[structs.Evaluation],
}

// Get reads an evaluation. The error is not-found.
func (e Evals) Get(
	tx *state.ReadTx,
	req *structs.EvalGetRequest,
	resp *structs.EvalGetResponse,
) error {
	resp.Eval = state.Eval(tx, req.EvalID)
	if resp.Eval == nil {
		return structs.NotFoundf("there is no evaluation %q", req.EvalID)
	}
	return nil
}

// selectEvals returns the evaluations that a request selects, and their list. The index by job is the shorter
// way if there is one job, and its rows have no order of IDs.
func selectEvals(tx *state.ReadTx, req *structs.EvalListRequest) (
	l query.List[structs.Evaluation, structs.Evaluation], rows iter.Seq[*structs.Evaluation],
) {
	ns := req.RequestNamespace()
	rows = state.EvalsFrom(tx, ns, req.Prefix, query.Start(req))
	if req.JobID != "" && ns != structs.AllNamespaces {
		rows = query.Sorted(state.EvalsByJob(tx, ns, req.JobID), compareEvals, req)
	}

	l = evalList
	// It repeats what an index has selected already, because the two ways select by different parts.
	l.Keep = func(e *structs.Evaluation) bool {
		return strings.HasPrefix(e.ID, req.Prefix) &&
			(req.JobID == "" || e.JobID == req.JobID) &&
			(req.Status == "" || e.Status == req.Status)
	}
	return l, rows
}

// List lists evaluations, as the namespaces, the prefix and the filters of a request choose.
func (e Evals) List(
	tx *state.ReadTx,
	req *structs.EvalListRequest,
	resp *structs.EvalListResponse,
) (err error) {
	l, rows := selectEvals(tx, req)
	resp.Evaluations, err = l.Page(rows, req, resp)
	return err
}

// Allocations lists the allocations that an evaluation placed or stopped, as stubs.
func (e Evals) Allocations(
	tx *state.ReadTx,
	req *structs.EvalGetRequest,
	resp *structs.AllocListResponse,
) (err error) {
	rows := state.AllocsByEvalFrom(tx, req.EvalID, query.Start(req))
	resp.Allocations, err = newAllocStubList(tx).Page(rows, req, resp)
	return err
}

// Count counts the evaluations that a filter keeps. It makes no page, so it needs no memory for the
// evaluations that it counts.
func (e Evals) Count(
	tx *state.ReadTx,
	req *structs.EvalListRequest,
	resp *structs.EvalCountResponse,
) error {
	l, rows := selectEvals(tx, req)
	return l.Each(rows, req.Query(), func(*structs.Evaluation) error {
		resp.Count++
		return nil
	})
}

// deleteBatch is the most evaluations that one log entry deletes. Entries behind a large one would wait for
// it, heartbeats among them.
const deleteBatch = 512

// Delete deletes evaluations in several log entries. An evaluation that ended stays as it is, so the later
// entries delete no more than was asked for.
func (e Evals) Delete(
	ctx context.Context,
	req *structs.EvalDeleteRequest,
	resp *structs.EvalDeleteResponse,
) (index uint64, err error) {
	var ids []string
	switch {
	// A request with neither would delete all.
	case (len(req.EvalIDs) == 0) == (req.Filter == ""):
		return 0, structs.Invalidf("deleting evaluations: expected either their IDs or a filter")
	case len(req.EvalIDs) > structs.MaxEvalIDs:
		return 0, structs.Invalidf("deleting %d evaluations: at most %d are allowed in one request; use a filter",
			len(req.EvalIDs), structs.MaxEvalIDs)
	case req.Filter != "":
		ids, err = e.deletableEvals(req)
	default:
		ids, err = e.checkDeletable(req)
	}
	if err != nil {
		return 0, err
	}

	// The state function checks each evaluation again, as the state may have changed since.
	for batch := range slices.Chunk(ids, deleteBatch) {
		reap := &structs.ReapRequest{Evals: batch}
		reap.Now = e.Clock.Now().UnixNano()
		index, err = fsm.Propose(ctx, e.Raft, fsm.Reap, reap)
		if err != nil {
			// The entries before have happened. The answer is lost with the error, so the caller counts anew.
			return index, err
		}

		resp.Count += len(batch)
	}

	// Without a row to delete there is no entry.
	return max(index, e.Store.Index()), nil
}

// checkDeletable returns the IDs of a request, each once, if all these evaluations may be deleted. All are
// checked before the first entry, because the error promises that nothing was deleted.
func (e Evals) checkDeletable(req *structs.EvalDeleteRequest) ([]string, error) {
	tx := e.Store.Read()

	ids := slices.Compact(slices.Sorted(slices.Values(req.EvalIDs)))
	for _, id := range ids {
		row := state.Eval(tx, id)
		switch {
		case row == nil:
			return nil, structs.NotFoundf("there is no evaluation %q; nothing was deleted",
				structs.Cut(id, structs.MaxQuoted))
		case !row.Terminal():
			return nil, structs.Conflictf("evaluation %s is %s: only one that has ended may be deleted; nothing was deleted", id, row.Status)
		case row.Placed:
			return nil, structs.Conflictf("evaluation %s has allocations that are not deleted yet: "+
				"they show it as their cause; nothing was deleted", id)
		}
	}

	return ids, nil
}

// deletableEvals returns the evaluations that a filter accepts and that may be deleted. Others that the
// filter accepts are left out.
func (e Evals) deletableEvals(req *structs.EvalDeleteRequest) (ids []string, err error) {
	rows := state.EvalsFrom(e.Store.Read(), req.RequestNamespace(), "", state.Page{})
	err = evalList.Each(rows, &structs.QueryOptions{Filter: req.Filter}, func(row *structs.Evaluation) error {
		if row.Terminal() && !row.Placed {
			ids = append(ids, row.ID)
		}
		return nil
	})
	return ids, err
}
