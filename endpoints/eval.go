package endpoints

import (
	"cmp"
	"strings"

	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// evals serve Eval.
type evals struct{ *Endpoints }

func evalKey(e *structs.Evaluation) []string {
	return []string{e.ID}
}

func compareEvals(a, b *structs.Evaluation) int {
	return cmp.Compare(a.ID, b.ID)
}

// evalList lists whole evaluations.
var evalList = query.List[structs.Evaluation, structs.Evaluation]{
	Key:  evalKey,
	Stub: query.Whole[structs.Evaluation],
}

func (e evals) get(
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

func (e evals) list(
	tx *state.ReadTx,
	req *structs.EvalListRequest,
	resp *structs.EvalListResponse,
) (err error) {
	ns := req.RequestNamespace()
	rows := state.EvalsFrom(tx, ns, req.Prefix, query.Start(req))
	if req.JobID != "" && ns != structs.AllNamespaces {
		rows = query.Sorted(state.EvalsByJob(tx, ns, req.JobID), compareEvals, req)
	}
	l := evalList
	l.Keep = func(e *structs.Evaluation) bool {
		return strings.HasPrefix(e.ID, req.Prefix) &&
			(req.JobID == "" || e.JobID == req.JobID) &&
			(req.Status == "" || e.Status == req.Status)
	}
	resp.Evaluations, err = l.Page(rows, req, resp)
	return err
}

func (e evals) allocations(
	tx *state.ReadTx,
	req *structs.EvalGetRequest,
	resp *structs.AllocListResponse,
) (err error) {
	rows := state.AllocsByEvalFrom(tx, req.EvalID, query.Start(req))
	resp.Allocations, err = newAllocStubList(tx).Page(rows, req, resp)
	return err
}
