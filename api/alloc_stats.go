package api

import (
	"context"
	"net/url"

	"berth/structs/access"
	"berth/structs/nodecalls"
)

var allocStats = NewEndpoint[*nodecalls.AllocResourceUsage](Get, "/v1/client/allocation/{id}/stats",
	serveAllocStats, Needs(access.NeedsReadJob))

// serveAllocStats measures an allocation on the node of this agent. It forwards the request to the agent of
// another node, over one hop.
func serveAllocStats(c *Call) (any, error) {
	usage, err := c.Agent.AllocStats(c.Ctx(), c.ID(), c.Param("task"))
	if err != nil {
		return nil, c.forwardIfFar(err)
	}
	return usage, nil
}

// AllocStats returns the resource usage of an allocation's running tasks, or of one of them if task is not
// "".
func (c *Client) AllocStats(ctx context.Context, id, task string) (*nodecalls.AllocResourceUsage, error) {
	query := url.Values{}
	setGiven(query, "task", task)
	return allocStats.Send(ctx, c, Request{ID: id, Query: query})
}
