package api

import (
	"strings"

	"berth/structs"
)

var (
	allocList = list(structs.AllocList, nil, func(a *structs.AllocListResponse) []*structs.AllocListStub { return a.Allocations })
	allocGet  = read(structs.AllocGet, bindAlloc, func(a *structs.AllocGetResponse) any { return a.Alloc })
	allocStop = write(structs.AllocStop, bindAllocStop, same[structs.AllocStopResponse])

	evalList        = list(structs.EvalList, nil, func(a *structs.EvalListResponse) []*structs.Evaluation { return a.Evaluations })
	evalGet         = read(structs.EvalGet, bindEval, func(a *structs.EvalGetResponse) any { return a.Eval })
	evalAllocations = list(structs.EvalAllocs, bindEval, func(a *structs.AllocListResponse) []*structs.AllocListStub { return a.Allocations })
)

func bindAlloc(c *call, q *structs.AllocGetRequest) error {
	q.AllocID = c.id()
	return nil
}

func bindAllocStop(c *call, req *structs.AllocStopRequest) error {
	req.AllocID = c.id()
	return c.optionalBody(&dialectOptions{})
}

func bindEval(c *call, q *structs.EvalGetRequest) error {
	q.EvalID = c.id()
	return nil
}

// lines are the lines of a text that are not empty.
func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
}
