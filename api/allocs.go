package api

import (
	"context"
	"strings"

	"berth/structs"
)

var (
	allocList = route[[]*structs.AllocListStub](get, "/v1/allocations",
		list(structs.AllocList, nil,
			func(a *structs.AllocListResponse) []*structs.AllocListStub { return a.Allocations }))
	allocGet = route[*structs.Allocation](get, "/v1/allocation/{id}",
		read(structs.AllocGet, bindAlloc, func(a *structs.AllocGetResponse) any { return a.Alloc }))
	allocStop = route[*structs.AllocStopResponse](put, "/v1/allocation/{id}/stop",
		write(structs.AllocStop, bindAllocStop, same[structs.AllocStopResponse]))
)

func bindAlloc(c *call, q *structs.AllocGetRequest) error {
	q.AllocID = c.id()
	return nil
}

func bindAllocStop(c *call, req *structs.AllocStopRequest) error {
	req.AllocID = c.id()
	return c.optionalBody(&dialectOptions{})
}

// lines are the lines of a text that are not empty.
func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
}

// Allocations lists allocations.
func (c *Client) Allocations(ctx context.Context, q *Query) (
	[]*structs.AllocListStub, *structs.QueryMeta, error,
) {
	return allocList.fetch(ctx, c, "", q)
}

// Allocation reads one allocation with its job.
func (c *Client) Allocation(ctx context.Context, id string, q *Query) (
	*structs.Allocation, *structs.QueryMeta, error,
) {
	return allocGet.fetch(ctx, c, id, q)
}

// AllocStop stops an allocation and lets the scheduler place it anew.
func (c *Client) AllocStop(ctx context.Context, id string) (*structs.AllocStopResponse, error) {
	return allocStop.send(ctx, c, request{id: id})
}
