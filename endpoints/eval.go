package endpoints

import (
	"cmp"

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
	req *structs.QueryRequest,
	resp *structs.EvalListResponse,
) (err error) {
	rows := state.EvalsFrom(tx,
		req.RequestNamespace(),
		req.Prefix,
		query.Start(req))
	resp.Evaluations, err = evalList.Page(rows, req, resp)
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
