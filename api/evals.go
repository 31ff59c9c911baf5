package api

import (
	"context"

	"berth/structs"
)

var evalList = route(get, "/v1/evaluations",
	serveList(structs.EvalList, bindEvalList, evaluations))

func bindEvalList(c *call, q *structs.EvalListRequest) error {
	q.JobID = c.param("job")
	q.Status = c.param("status")
	return nil
}

func evaluations(a *structs.EvalListResponse) []*structs.Evaluation {
	return a.Evaluations
}

// Evaluations lists evaluations.
func (c *Client) Evaluations(ctx context.Context, q *Query) (
	[]*structs.Evaluation, *Meta, error,
) {
	return evalList.fetch(ctx, c, "", q)
}

var evalGet = route(get, "/v1/evaluation/{id}",
	serveMethod(structs.EvalGet, bindEval,
		func(a *structs.EvalGetResponse) *structs.Evaluation {
			return a.Eval
		}))

var bindEval = withID(func(q *structs.EvalGetRequest, id string) { q.EvalID = id })

// Evaluation reads one evaluation.
func (c *Client) Evaluation(ctx context.Context, id string, q *Query) (
	*structs.Evaluation, *Meta, error,
) {
	return evalGet.fetch(ctx, c, id, q)
}

var evalAllocations = route(get, "/v1/evaluation/{id}/allocations",
	serveList(structs.EvalAllocs, bindEval, allocStubs))

// EvalAllocations lists the allocations that an evaluation created or changed.
func (c *Client) EvalAllocations(ctx context.Context, id string, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return evalAllocations.fetch(ctx, c, id, q)
}
