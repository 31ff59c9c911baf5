// Package allocs has the routes about allocations, each with the call of the client: their rows and stops,
// the restarts, signals and use of their tasks, their files and logs, and what they offer as services. The
// agent of another node answers for its allocations, over one hop.
package allocs

import (
	"context"
	"net/url"
	"strconv"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

var allocList = api.NewEndpoint(&table, api.Get, "/v1/allocations",
	api.ServeList(structs.AllocList, nil, Stubs))

func Stubs(a *structs.AllocListResponse) []*structs.AllocListStub {
	return a.Allocations
}

// List lists allocations.
func List(ctx context.Context, c *api.Client, q *api.Query) (
	[]*structs.AllocListStub, *api.Meta, error,
) {
	return allocList.Fetch(ctx, c, "", q)
}

var allocGet = api.NewEndpoint(&table, api.Get, "/v1/allocation/{id}",
	api.ServeMethod(structs.AllocGet, bindAlloc,
		func(a *structs.AllocGetResponse) *structs.Allocation {
			return a.Alloc.WithResources()
		}))

// Get reads one allocation with its job.
func Get(ctx context.Context, c *api.Client, id string, q *api.Query) (
	*structs.Allocation, *api.Meta, error,
) {
	return allocGet.Fetch(ctx, c, id, q)
}

var allocStop = api.NewEndpoint(&table, api.Put, "/v1/allocation/{id}/stop",
	api.ServeMethod(structs.AllocStop, bindAllocStop, api.Whole))

func bindAllocStop(c *api.Call, req *structs.AllocStopRequest) error {
	undelayed, err := c.Flag("no_shutdown_delay")
	if err != nil {
		return err
	}
	req.AllocID = c.ID()
	req.NoShutdownDelay = undelayed
	return c.DecodeOptionalBody(&api.DialectOptions{})
}

// StopOptions has the parameters of a stop. NoShutdownDelay ends the tasks without their shutdown_delay.
type StopOptions struct {
	NoShutdownDelay bool
}

// Stop stops an allocation. The scheduler then replaces it.
func Stop(ctx context.Context, c *api.Client, id string, o StopOptions) (
	*structs.AllocStopResponse, error,
) {
	return allocStop.Send(ctx, c, api.Request{
		ID:    id,
		Query: url.Values{"no_shutdown_delay": {strconv.FormatBool(o.NoShutdownDelay)}},
	})
}

var allocServices = api.NewEndpoint(&table, api.Get, "/v1/allocation/{id}/services",
	api.ServeList(structs.AllocOffers, bindAlloc, Instances))

// ListServices lists the instances of services of an allocation.
func ListServices(ctx context.Context, c *api.Client, id string, q *api.Query) (
	[]*structs.ServiceRegistration, *api.Meta, error,
) {
	return allocServices.Fetch(ctx, c, id, q)
}

var bindAlloc = api.WithID(func(q *structs.AllocGetRequest, id string) { q.AllocID = id })

var allocChecks = api.NewEndpoint[map[string]*structs.CheckResult](&table,
	api.Get, "/v1/client/allocation/{id}/checks", serveAllocChecks, api.Needs(access.NeedsReadJob))

// serveAllocChecks returns the results of an allocation on the node of this agent. It forwards the request to
// the agent of another node, over one hop.
func serveAllocChecks(c *api.Call) (any, error) {
	checks, err := c.Agent.AllocChecks(c.ID())
	if err != nil {
		return nil, c.ForwardIfFar(err)
	}
	return checks, nil
}

// ListChecks returns the last results of an allocation's checks by their IDs.
func ListChecks(ctx context.Context, c *api.Client, id string) (map[string]*structs.CheckResult, error) {
	return allocChecks.Send(ctx, c, api.Request{ID: id})
}

func Instances(a *structs.ServiceGetResponse) []*structs.ServiceRegistration { return a.Services }
