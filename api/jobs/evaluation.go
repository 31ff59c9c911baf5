package jobs

import (
	"context"

	"berth/api"
	"berth/api/allocs"
	"berth/structs"
)

var evalList = api.NewEndpoint(&table, api.Get, "/v1/evaluations",
	api.ServeList(structs.EvalList, bindEvalList, listedEvaluations))

func bindEvalList(c *api.Call, q *structs.EvalListRequest) error {
	q.JobID = c.Param("job")
	q.Status = c.Param("status")
	return nil
}

func listedEvaluations(a *structs.EvalListResponse) []*structs.Evaluation {
	return a.Evaluations
}

// EvalFilter selects the evaluations of a job and those with a status. "" selects all.
type EvalFilter struct {
	JobID  string
	Status string
}

// FilterEvaluations lists the evaluations that a filter selects.
func FilterEvaluations(ctx context.Context, c *api.Client, f EvalFilter, q *api.Query) (
	[]*structs.Evaluation, *api.Meta, error,
) {
	params := api.QueryValues(q)
	api.SetGiven(params, "job", f.JobID)
	api.SetGiven(params, "status", f.Status)
	return evalList.Page(ctx, c, api.Request{Query: params})
}

// ListEvaluations lists evaluations.
func ListEvaluations(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.Evaluation, *api.Meta, error,
) {
	return evalList.Fetch(ctx, c, "", q)
}

var evalCount = api.NewEndpoint(&table, api.Get, "/v1/evaluations/count",
	api.ServeMethod(structs.EvalCount, bindEvalList,
		func(a *structs.EvalCountResponse) evalNumber {
			return evalNumber{a.Count}
		}))

// evalNumber is a number of evaluations.
type evalNumber struct{ Count int }

// CountEvaluations counts the evaluations that Evaluations would list.
func CountEvaluations(ctx context.Context, c *api.Client, q *api.Query) (int, *api.Meta, error) {
	answer, meta, err := evalCount.Fetch(ctx, c, "", q)
	return answer.Count, meta, err
}

var evalDelete = api.NewEndpoint(&table, api.Remove, "/v1/evaluations",
	api.ServeMethod(structs.EvalDelete, bindEvalDelete,
		func(a *structs.EvalDeleteResponse) evalNumber {
			return evalNumber{a.Count}
		}))

// EvalDelete names ended evaluations: by their IDs, or by a filter over the evaluations of the namespace.
type EvalDelete struct {
	EvalIDs []string
	Filter  string
}

func bindEvalDelete(c *api.Call, req *structs.EvalDeleteRequest) error {
	var b struct {
		EvalDelete
		api.DialectOptions
	}
	err := c.DecodeBody(&b)
	req.EvalIDs = b.EvalIDs
	req.Filter = b.Filter
	return err
}

// DeleteEvaluations deletes evaluations and returns their number.
func DeleteEvaluations(ctx context.Context, c *api.Client, which EvalDelete) (int, error) {
	answer, err := evalDelete.Send(ctx, c, api.Request{Body: which})
	return answer.Count, err
}

var evalGet = api.NewEndpoint(&table, api.Get, "/v1/evaluation/{id}",
	api.ServeMethod(structs.EvalGet, bindEval,
		func(a *structs.EvalGetResponse) *structs.Evaluation {
			return a.Eval
		}))

var bindEval = api.WithID(func(q *structs.EvalGetRequest, id string) { q.EvalID = id })

// GetEvaluation reads one evaluation.
func GetEvaluation(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.Evaluation, *api.Meta, error,
) {
	return evalGet.Fetch(ctx, c, id, q)
}

var evalAllocations = api.NewEndpoint(&table, api.Get, "/v1/evaluation/{id}/allocations",
	api.ServeList(structs.EvalAllocs, bindEval, allocs.Stubs))

// ListEvaluationAllocations lists the allocations that an evaluation created or changed.
func ListEvaluationAllocations(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.AllocListStub, *api.Meta, error,
) {
	return evalAllocations.Fetch(ctx, c, id, q)
}
