package endpoints

import (
	"cmp"

	"berth/endpoints/query"
	"berth/state"
	"berth/structs"
)

// evals serve Eval.
type evals struct{ *Endpoints }

func evalKey(e *structs.Evaluation) []string { return []string{e.ID} }

func compareEvals(a, b *structs.Evaluation) int { return cmp.Compare(a.ID, b.ID) }

// evalListing shows evaluations whole.
var evalListing = query.List[structs.Evaluation, structs.Evaluation]{
	Key:  evalKey,
	Stub: query.Whole[structs.Evaluation],
}

func (e evals) get(
	tx *state.ReadTx, req *structs.EvalGetRequest, resp *structs.EvalGetResponse,
) error {
	resp.Eval = state.Eval(tx, req.EvalID)
	if resp.Eval == nil {
		return structs.NotFoundf("there is no evaluation %q", req.EvalID)
	}
	return nil
}

func (e evals) list(
	tx *state.ReadTx, req *structs.QueryRequest, resp *structs.EvalListResponse,
) (err error) {
	rows := state.EvalsFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(&req.QueryOptions))
	resp.Evaluations, err = evalListing.Page(rows, &req.QueryOptions, &resp.QueryMeta)
	return err
}

func (e evals) allocations(
	tx *state.ReadTx, req *structs.EvalGetRequest, resp *structs.AllocListResponse,
) (err error) {
	rows := state.AllocsByEvalFrom(tx, req.EvalID, query.Start(&req.QueryOptions))
	resp.Allocations, err = allocListing(tx).Page(rows, &req.QueryOptions, &resp.QueryMeta)
	return err
}
