package api

import (
	"context"

	"berth/structs"
)

var (
	allocList = route(get, "/v1/allocations",
		serveList(structs.AllocList, nil, allocStubs))
	allocGet = route(get, "/v1/allocation/{id}",
		serveMethod(structs.AllocGet, bindAlloc,
			func(a *structs.AllocGetResponse) *structs.Allocation {
				return a.Alloc
			}))
	allocStop = route(put, "/v1/allocation/{id}/stop",
		serveMethod(structs.AllocStop, bindAllocStop, whole))
)

func allocStubs(a *structs.AllocListResponse) []*structs.AllocListStub {
	return a.Allocations
}

func bindAlloc(c *call, q *structs.AllocGetRequest) error {
	q.AllocID = c.id()
	return nil
}

func bindAllocStop(c *call, req *structs.AllocStopRequest) error {
	req.AllocID = c.id()
	return c.decodeOptionalBody(&dialectOptions{})
}

// Allocations lists allocations.
func (c *Client) Allocations(ctx context.Context, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return allocList.fetch(ctx, c, "", q)
}

// Allocation reads one allocation with its job.
func (c *Client) Allocation(ctx context.Context, id string, q *Query) (
	*structs.Allocation, *Meta, error,
) {
	return allocGet.fetch(ctx, c, id, q)
}

// AllocStop stops an allocation. The scheduler then replaces it.
func (c *Client) AllocStop(ctx context.Context, id string) (*structs.AllocStopResponse, error) {
	return allocStop.send(ctx, c, request{id: id})
}
