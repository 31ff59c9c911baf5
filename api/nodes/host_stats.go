package nodes

import (
	"context"
	"net/url"

	"berth/api"
	"berth/structs/access"
	"berth/structs/nodecalls"
)

var hostStats = api.NewEndpoint[*nodecalls.HostStats](&table, api.Get, "/v1/client/stats",
	serveHostStats, api.Needs(access.NeedsNodeRead))

// serveHostStats answers for the node of ?node_id, or for the node of this agent. It forwards the request to
// the agent of another node, over one hop.
func serveHostStats(c *api.Call) (any, error) {
	id := c.Param("node_id")
	stats, err := c.Agent.HostStats(c.Ctx(), id)
	if err != nil {
		return nil, c.ForwardToNode(id, err)
	}
	return stats, nil
}

// HostStats returns the resource usage of a node's machine. The id "" is the node of the called agent.
func HostStats(ctx context.Context, c *api.Client, id string) (*nodecalls.HostStats, error) {
	query := url.Values{}
	api.SetGiven(query, "node_id", id)
	return hostStats.Send(ctx, c, api.Request{Query: query})
}
