package allocs

import (
	"context"
	"net/url"

	"berth/api"
	"berth/structs/access"
	"berth/structs/nodecalls"
)

var allocStats = api.NewEndpoint[*nodecalls.AllocResourceUsage](&table,
	api.Get, "/v1/client/allocation/{id}/stats", serveAllocStats, api.Needs(access.NeedsReadJob))

// serveAllocStats measures an allocation on the node of this agent. It forwards the request to the agent of
// another node, over one hop.
func serveAllocStats(c *api.Call) (any, error) {
	usage, err := c.Agent.AllocStats(c.Ctx(), c.ID(), c.Param("task"))
	if err != nil {
		return nil, c.ForwardIfFar(err)
	}
	return usage, nil
}

// Stats returns the resource usage of an allocation's running tasks, or of one of them if task is not
// "".
func Stats(ctx context.Context, c *api.Client, id, task string) (*nodecalls.AllocResourceUsage, error) {
	query := url.Values{}
	api.SetGiven(query, "task", task)
	return allocStats.Send(ctx, c, api.Request{ID: id, Query: query})
}
