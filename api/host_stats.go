package api

import (
	"context"
	"net/url"

	"berth/structs/access"
	"berth/structs/nodecalls"
)

var hostStats = NewEndpoint[*nodecalls.HostStats](Get, "/v1/client/stats",
	serveHostStats, Needs(access.NeedsNodeRead))

// serveHostStats answers for the node of ?node_id, or for the node of this agent. It forwards the request to
// the agent of another node, over one hop.
func serveHostStats(c *Call) (any, error) {
	id := c.Param("node_id")
	stats, err := c.Agent.HostStats(c.Ctx(), id)
	if err != nil {
		return nil, c.ForwardToNode(id, err)
	}
	return stats, nil
}

// HostStats returns the resource usage of a node's machine. The id "" is the node of the called agent.
func (c *Client) HostStats(ctx context.Context, id string) (*nodecalls.HostStats, error) {
	query := url.Values{}
	setGiven(query, "node_id", id)
	return hostStats.Send(ctx, c, Request{Query: query})
}
