package api

import (
	"context"
	"net/url"
	"strconv"

	"berth/structs"
)

var allocList = route(get, "/v1/allocations",
	serveList(structs.AllocList, nil, allocStubs))

func allocStubs(a *structs.AllocListResponse) []*structs.AllocListStub {
	return a.Allocations
}

// Allocations lists allocations.
func (c *Client) Allocations(ctx context.Context, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return allocList.fetch(ctx, c, "", q)
}

var allocGet = route(get, "/v1/allocation/{id}",
	serveMethod(structs.AllocGet, bindAlloc,
		func(a *structs.AllocGetResponse) *structs.Allocation {
			return a.Alloc.WithResources()
		}))

// Allocation reads one allocation with its job.
func (c *Client) Allocation(ctx context.Context, id string, q *Query) (
	*structs.Allocation, *Meta, error,
) {
	return allocGet.fetch(ctx, c, id, q)
}

var allocStop = route(put, "/v1/allocation/{id}/stop",
	serveMethod(structs.AllocStop, bindAllocStop, whole))

func bindAllocStop(c *call, req *structs.AllocStopRequest) error {
	undelayed, err := c.flag("no_shutdown_delay")
	if err != nil {
		return err
	}
	req.AllocID = c.id()
	req.NoShutdownDelay = undelayed
	return c.decodeOptionalBody(&dialectOptions{})
}

// AllocStopOptions has the parameters of a stop. NoShutdownDelay ends the tasks without their shutdown_delay.
type AllocStopOptions struct {
	NoShutdownDelay bool
}

// AllocStop stops an allocation. The scheduler then replaces it.
func (c *Client) AllocStop(ctx context.Context, id string, o AllocStopOptions) (
	*structs.AllocStopResponse, error,
) {
	return allocStop.send(ctx, c, request{
		id:    id,
		query: url.Values{"no_shutdown_delay": {strconv.FormatBool(o.NoShutdownDelay)}},
	})
}

// withResources adds the resources of each allocation of a list (Allocation.WithResources).
func withResources(serve serveFunc[[]*structs.Allocation]) serveFunc[[]*structs.Allocation] {
	return func(c *call) (any, error) {
		answer, err := serve(c)
		switch list := answer.(type) {
		case []*structs.Allocation:
			for i, a := range list {
				list[i] = a.WithResources()
			}
		case rowStream:
			return rowStream(func(do func(any) error) error {
				return list(func(row any) error {
					return do(row.(*structs.Allocation).WithResources())
				})
			}), err
		}
		return answer, err
	}
}
