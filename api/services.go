package api

import (
	"context"

	"berth/structs"
	"berth/structs/access"
)

var serviceList = NewEndpoint(Get, "/v1/services",
	ServeList(structs.ServiceList, nil,
		func(a *structs.ServiceListResponse) []*structs.ServiceListStub { return a.Services }))

// Services lists the services that allocations offer, by namespace.
func (c *Client) Services(ctx context.Context, q *Query) ([]*structs.ServiceListStub, *Meta, error) {
	return serviceList.Fetch(ctx, c, "", q)
}

func instances(a *structs.ServiceGetResponse) []*structs.ServiceRegistration { return a.Services }

func bindService(c *Call, q *structs.ServiceGetRequest) error {
	q.ServiceName = c.ID()
	q.Choose = c.Param("choose")
	return nil
}

var serviceGet = NewEndpoint(Get, "/v1/service/{id}", ServeList(structs.ServiceGet, bindService, instances))

// Service lists the instances of a service, none if nothing offers it.
func (c *Client) Service(ctx context.Context, name string, q *Query) (
	[]*structs.ServiceRegistration, *Meta, error,
) {
	return serviceGet.Fetch(ctx, c, name, q)
}

var allocServices = NewEndpoint(Get, "/v1/allocation/{id}/services",
	ServeList(structs.AllocOffers, bindAlloc, instances))

// AllocServices lists the instances of services of an allocation.
func (c *Client) AllocServices(ctx context.Context, id string, q *Query) (
	[]*structs.ServiceRegistration, *Meta, error,
) {
	return allocServices.Fetch(ctx, c, id, q)
}

var jobServices = NewEndpoint(Get, "/v1/job/{id}/services",
	ServeList(structs.JobOffers, bindJob, instances))

// JobServices lists the instances of services of a job's allocations.
func (c *Client) JobServices(ctx context.Context, id string, q *Query) (
	[]*structs.ServiceRegistration, *Meta, error,
) {
	return jobServices.Fetch(ctx, c, id, q)
}

var bindAlloc = WithID(func(q *structs.AllocGetRequest, id string) { q.AllocID = id })

var allocChecks = NewEndpoint[map[string]*structs.CheckResult](
	Get, "/v1/client/allocation/{id}/checks", serveAllocChecks, Needs(access.NeedsReadJob))

// serveAllocChecks returns the results of an allocation on the node of this agent. It forwards the request to
// the agent of another node, over one hop.
func serveAllocChecks(c *Call) (any, error) {
	checks, err := c.Agent.AllocChecks(c.ID())
	if err != nil {
		return nil, c.forwardIfFar(err)
	}
	return checks, nil
}

// AllocChecks returns the last results of an allocation's checks by their IDs.
func (c *Client) AllocChecks(ctx context.Context, id string) (map[string]*structs.CheckResult, error) {
	return allocChecks.Send(ctx, c, Request{ID: id})
}
