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

// EvalFilter selects the evaluations of a job and those with a status. "" selects all.
type EvalFilter struct {
	JobID  string
	Status string
}

// EvaluationsOf lists the evaluations that a filter selects.
func (c *Client) EvaluationsOf(ctx context.Context, f EvalFilter, q *Query) (
	[]*structs.Evaluation, *Meta, error,
) {
	params := queryValues(q)
	setGiven(params, "job", f.JobID)
	setGiven(params, "status", f.Status)
	return evalList.call(ctx, c, request{query: params})
}

// Evaluations lists evaluations.
func (c *Client) Evaluations(ctx context.Context, q *Query) (
	[]*structs.Evaluation, *Meta, error,
) {
	return evalList.fetch(ctx, c, "", q)
}

var evalCount = route(get, "/v1/evaluations/count",
	serveMethod(structs.EvalCount, bindEvalList,
		func(a *structs.EvalCountResponse) evalNumber {
			return evalNumber{a.Count}
		}))

// evalNumber is a number of evaluations.
type evalNumber struct{ Count int }

// EvaluationCount counts the evaluations that Evaluations would list.
func (c *Client) EvaluationCount(ctx context.Context, q *Query) (int, *Meta, error) {
	answer, meta, err := evalCount.fetch(ctx, c, "", q)
	return answer.Count, meta, err
}

var evalDelete = route(remove, "/v1/evaluations",
	serveMethod(structs.EvalDelete, bindEvalDelete,
		func(a *structs.EvalDeleteResponse) evalNumber {
			return evalNumber{a.Count}
		}))

// EvalDelete names ended evaluations: by their IDs, or by a filter over the evaluations of the namespace.
type EvalDelete struct {
	EvalIDs []string
	Filter  string
}

func bindEvalDelete(c *call, req *structs.EvalDeleteRequest) error {
	var b struct {
		EvalDelete
		dialectOptions
	}
	err := c.decodeBody(&b)
	req.EvalIDs = b.EvalIDs
	req.Filter = b.Filter
	return err
}

// EvaluationsDelete deletes evaluations and returns their number.
func (c *Client) EvaluationsDelete(ctx context.Context, which EvalDelete) (int, error) {
	answer, err := evalDelete.send(ctx, c, request{body: which})
	return answer.Count, err
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
