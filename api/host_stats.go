package api

import (
	"context"
	"net/url"

	"berth/rpc"
	"berth/structs"
)

var hostStats = route[structs.HostStats](get, "/v1/client/stats", serveHostStats)

// serveHostStats answers for the node of ?node_id, or for the agent's own. Another node's agent is asked,
// one hop away.
func serveHostStats(c *call) (any, error) {
	id := c.param("node_id")
	stats, err := c.h.Agent.HostStats(c.ctx(), id)
	if id == "" || !structs.IsKind(err, structs.KindNotFound) || c.r.Header.Get(headerHops) != "" {
		return stats, err
	}
	node, err := rpc.Call(c.ctx(), c.h.Caller, structs.NodeGet, &structs.NodeGetRequest{
		NodeID: id, QueryOptions: structs.QueryOptions{Region: c.param("region"), AuthToken: c.token(),
			AllowStale: true},
	})
	if err != nil {
		return nil, err
	}
	c.passOnTo(node.Node.HTTPAddr)
	return nil, nil
}

// HostStats returns the use of a node's machine; id "" is the node of the agent that is asked.
func (c *Client) HostStats(ctx context.Context, id string) (*structs.HostStats, error) {
	query := url.Values{}
	if id != "" {
		query.Set("node_id", id)
	}
	stats, err := hostStats.send(ctx, c, request{query: query})
	return &stats, err
}
