package jobs

import (
	"context"

	"berth/api"
	"berth/api/allocs"
	"berth/structs"
)

var serviceList = api.NewEndpoint(&table, api.Get, "/v1/services",
	api.ServeList(structs.ServiceList, nil,
		func(a *structs.ServiceListResponse) []*structs.ServiceListStub { return a.Services }))

// ListServices lists the services that allocations offer, by namespace.
func ListServices(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.ServiceListStub, *api.Meta, error,
) {
	return serviceList.Fetch(ctx, c, "", q)
}

func bindService(c *api.Call, q *structs.ServiceGetRequest) error {
	q.ServiceName = c.ID()
	q.Choose = c.Param("choose")
	return nil
}

var serviceGet = api.NewEndpoint(&table, api.Get, "/v1/service/{id}",
	api.ServeList(structs.ServiceGet, bindService, allocs.Instances))

// GetService lists the instances of a service, none if nothing offers it.
func GetService(ctx context.Context, c *api.Client, name string, q *api.Query) (
	[]*structs.ServiceRegistration, *api.Meta, error,
) {
	return serviceGet.Fetch(ctx, c, name, q)
}

var jobServices = api.NewEndpoint(&table, api.Get, "/v1/job/{id}/services",
	api.ServeList(structs.JobOffers, bindJob, allocs.Instances))

// ServicesOf lists the instances of services of a job's allocations.
func ServicesOf(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.ServiceRegistration, *api.Meta, error,
) {
	return jobServices.Fetch(ctx, c, id, q)
}
