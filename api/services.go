package api

import (
	"context"

	"berth/structs"
	"berth/structs/access"
)

var serviceList = route(get, "/v1/services",
	serveList(structs.ServiceList, nil,
		func(a *structs.ServiceListResponse) []*structs.ServiceListStub { return a.Services }))

// Services lists the services that allocations offer, by namespace.
func (c *Client) Services(ctx context.Context, q *Query) ([]*structs.ServiceListStub, *Meta, error) {
	return serviceList.fetch(ctx, c, "", q)
}

func instances(a *structs.ServiceGetResponse) []*structs.ServiceRegistration { return a.Services }

func bindService(c *call, q *structs.ServiceGetRequest) error {
	q.ServiceName = c.id()
	q.Choose = c.param("choose")
	return nil
}

var serviceGet = route(get, "/v1/service/{id}", serveList(structs.ServiceGet, bindService, instances))

// Service lists the instances of a service, none if nothing offers it.
func (c *Client) Service(ctx context.Context, name string, q *Query) (
	[]*structs.ServiceRegistration, *Meta, error,
) {
	return serviceGet.fetch(ctx, c, name, q)
}

// An instance goes with its allocation, so there is never one to delete.
var _ = handle(remove, "/v1/service/{id}/{instance}", func(c *call) (any, error) {
	return nil, structs.Preconditionf(
		"an instance of a service belongs to its allocation and ends with it: stop the allocation, "+
			"or register the job without the service (instance %q)",
		structs.Cut(c.r.PathValue("instance"), structs.MaxQuoted))
}, needs(access.NeedsNothing))

var allocServices = route(get, "/v1/allocation/{id}/services",
	serveList(structs.AllocOffers, bindAlloc, instances))

// AllocServices lists the instances of services of an allocation.
func (c *Client) AllocServices(ctx context.Context, id string, q *Query) (
	[]*structs.ServiceRegistration, *Meta, error,
) {
	return allocServices.fetch(ctx, c, id, q)
}

var jobServices = route(get, "/v1/job/{id}/services",
	serveList(structs.JobOffers, bindJob, instances))

// JobServices lists the instances of services of a job's allocations.
func (c *Client) JobServices(ctx context.Context, id string, q *Query) (
	[]*structs.ServiceRegistration, *Meta, error,
) {
	return jobServices.fetch(ctx, c, id, q)
}

var bindAlloc = withID(func(q *structs.AllocGetRequest, id string) { q.AllocID = id })

var allocChecks = route[map[string]*structs.CheckResult](
	get, "/v1/client/allocation/{id}/checks", serveAllocChecks, needs(access.NeedsReadJob))

// serveAllocChecks returns the results of an allocation on the node of this agent. It forwards the request to
// the agent of another node, over one hop.
func serveAllocChecks(c *call) (any, error) {
	checks, err := c.Agent.AllocChecks(c.id())
	if err != nil {
		return nil, c.forwardIfFar(err)
	}
	return checks, nil
}

// AllocChecks returns the last results of an allocation's checks by their IDs.
func (c *Client) AllocChecks(ctx context.Context, id string) (map[string]*structs.CheckResult, error) {
	return allocChecks.send(ctx, c, request{id: id})
}
