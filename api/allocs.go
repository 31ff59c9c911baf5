package api

import (
	"context"
	"net/url"
	"strconv"

	"berth/structs"
)

var allocList = NewEndpoint(Get, "/v1/allocations",
	ServeList(structs.AllocList, nil, allocStubs))

func allocStubs(a *structs.AllocListResponse) []*structs.AllocListStub {
	return a.Allocations
}

// Allocations lists allocations.
func (c *Client) Allocations(ctx context.Context, q *Query) (
	[]*structs.AllocListStub, *Meta, error,
) {
	return allocList.Fetch(ctx, c, "", q)
}

var allocGet = NewEndpoint(Get, "/v1/allocation/{id}",
	ServeMethod(structs.AllocGet, bindAlloc,
		func(a *structs.AllocGetResponse) *structs.Allocation {
			return a.Alloc.WithResources()
		}))

// Allocation reads one allocation with its job.
func (c *Client) Allocation(ctx context.Context, id string, q *Query) (
	*structs.Allocation, *Meta, error,
) {
	return allocGet.Fetch(ctx, c, id, q)
}

var allocStop = NewEndpoint(Put, "/v1/allocation/{id}/stop",
	ServeMethod(structs.AllocStop, bindAllocStop, Whole))

func bindAllocStop(c *Call, req *structs.AllocStopRequest) error {
	undelayed, err := c.Flag("no_shutdown_delay")
	if err != nil {
		return err
	}
	req.AllocID = c.ID()
	req.NoShutdownDelay = undelayed
	return c.DecodeOptionalBody(&DialectOptions{})
}

// AllocStopOptions has the parameters of a stop. NoShutdownDelay ends the tasks without their shutdown_delay.
type AllocStopOptions struct {
	NoShutdownDelay bool
}

// AllocStop stops an allocation. The scheduler then replaces it.
func (c *Client) AllocStop(ctx context.Context, id string, o AllocStopOptions) (
	*structs.AllocStopResponse, error,
) {
	return allocStop.Send(ctx, c, Request{
		ID:    id,
		Query: url.Values{"no_shutdown_delay": {strconv.FormatBool(o.NoShutdownDelay)}},
	})
}

// withResources adds the resources of each allocation of a list (Allocation.WithResources).
func withResources(serve ServeFunc[[]*structs.Allocation]) ServeFunc[[]*structs.Allocation] {
	return func(c *Call) (any, error) {
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
