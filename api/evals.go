package api

import (
	"context"

	"berth/structs"
)

var evalList = NewEndpoint(Get, "/v1/evaluations",
	ServeList(structs.EvalList, bindEvalList, evaluations))

func bindEvalList(c *Call, q *structs.EvalListRequest) error {
	q.JobID = c.Param("job")
	q.Status = c.Param("status")
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
	params := QueryValues(q)
	setGiven(params, "job", f.JobID)
	setGiven(params, "status", f.Status)
	return evalList.call(ctx, c, Request{Query: params})
}

// Evaluations lists evaluations.
func (c *Client) Evaluations(ctx context.Context, q *Query) (
	[]*structs.Evaluation, *Meta, error,
) {
	return evalList.Fetch(ctx, c, "", q)
}

var evalCount = NewEndpoint(Get, "/v1/evaluations/count",
	ServeMethod(structs.EvalCount, bindEvalList,
		func(a *structs.EvalCountResponse) evalNumber {
			return evalNumber{a.Count}
		}))

// evalNumber is a number of evaluations.
type evalNumber struct{ Count int }

// EvaluationCount counts the evaluations that Evaluations would list.
func (c *Client) EvaluationCount(ctx context.Context, q *Query) (int, *Meta, error) {
	answer, meta, err := evalCount.Fetch(ctx, c, "", q)
	return answer.Count, meta, err
}

var evalDelete = NewEndpoint(Remove, "/v1/evaluations",
	ServeMethod(structs.EvalDelete, bindEvalDelete,
		func(a *structs.EvalDeleteResponse) evalNumber {
			return evalNumber{a.Count}
		}))

// EvalDelete names ended evaluations: by their IDs, or by a filter over the evaluations of the namespace.
type EvalDelete struct {
	EvalIDs []string
	Filter  string
}

func bindEvalDelete(c *Call, req *structs.EvalDeleteRequest) error {
	var b struct {
		EvalDelete
		DialectOptions
	}
	err := c.DecodeBody(&b)
	req.EvalIDs = b.EvalIDs
	req.Filter = b.Filter
	return err
}

// EvaluationsDelete deletes evaluations and returns their number.
func (c *Client) EvaluationsDelete(ctx context.Context, which EvalDelete) (int, error) {
	answer, err := evalDelete.Send(ctx, c, Request{Body: which})
	return answer.Count, err
}

var evalGet = NewEndpoint(Get, "/v1/evaluation/{id}",
	ServeMethod(structs.EvalGet, bindEval,
		func(a *structs.EvalGetResponse) *structs.Evaluation {
			return a.Eval
		}))

var bindEval = WithID(func(q *structs.EvalGetRequest, id string) { q.EvalID = id })

// Evaluation reads one evaluation.
func (c *Client) Evaluation(ctx context.Context, id string, q *Query) (
	*structs.Evaluation, *Meta, error,
) {
	return evalGet.Fetch(ctx, c, id, q)
}

var evalAllocations = NewEndpoint(Get, "/v1/evaluation/{id}/allocations",
	ServeList(structs.EvalAllocs, bindEval, allocStubs))

// EvalAllocations lists the allocations that an evaluation created or changed.
func (c *Client) EvalAllocations(ctx context.Context, id string, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return evalAllocations.Fetch(ctx, c, id, q)
}
