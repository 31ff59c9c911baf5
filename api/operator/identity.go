package operator

import (
	"context"

	"berth/api"
	"berth/structs/access"
)

var identity = api.NewEndpoint[*api.NodeIdentity](&table, api.Get, "/v1/client/identity", serveIdentity,
	api.Needs(access.NeedsNodeRead))

func serveIdentity(c *api.Call) (any, error) {
	id := c.Param("node_id")
	found, err := c.Agent.Identity(c.Ctx(), id, false)
	if err != nil {
		return nil, c.ForwardToNode(id, err)
	}
	return found, nil
}

// NodeIdentity describes the certificate of the agent of a node. The ID "" is the node of the called agent.
func NodeIdentity(ctx context.Context, c *api.Client, nodeID string) (*api.NodeIdentity, error) {
	return identity.Send(ctx, c, api.Request{Query: nodeQuery(nodeID)})
}

// renewal is the body of a renewal, in the shape of the dialect. Any agent takes it.
type renewal struct {
	NodeID string // "" is the node of the called agent
}

var renew = api.NewEndpoint[*api.NodeIdentity](&table, api.Put, "/v1/client/identity/renew", serveRenewal,
	api.Needs(access.NeedsNodeWrite))

func serveRenewal(c *api.Call) (any, error) {
	var body renewal
	err := c.DecodeBody(&body)
	if err != nil {
		return nil, err
	}
	return atNode(c, body.NodeID, body, func(id string) (any, error) {
		return c.Agent.Identity(c.Ctx(), id, true)
	})
}

// RenewNodeIdentity renews the certificate of the agent of a node, and describes the new one. The ID "" is
// the node of the called agent.
func RenewNodeIdentity(ctx context.Context, c *api.Client, nodeID string) (*api.NodeIdentity, error) {
	return renew.Send(ctx, c, api.Request{Query: nodeQuery(nodeID), Body: renewal{NodeID: nodeID}})
}
