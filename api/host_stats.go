package api

import (
	"context"
	"net/http"
	"net/url"

	"berth/rpc"
	"berth/structs"
)

// hostStats answers for the node that ?node_id names, or for the agent's own. Another node's agent is asked,
// one hop away.
func hostStats(c *call) (any, error) {
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
	stats := &structs.HostStats{}
	query := url.Values{}
	if id != "" {
		query.Set("node_id", id)
	}
	_, err := c.do(ctx, request{method: http.MethodGet, path: []string{"v1", "client", "stats"},
		query: query}, stats)
	return stats, err
}
