package operator

import (
	"berth/structs/access"
	"context"

	"berth/api"
	"berth/structs/cluster"
)

// gossipKeyring has the route of each operation on the keys of the gossip.
var gossipKeyring = map[cluster.GossipKeyOperation]*api.Endpoint[*cluster.GossipKeyrings]{
	cluster.GossipKeyList: api.NewEndpoint(&table,
		api.Get, "/v1/agent/keyring/list", serveGossip(cluster.GossipKeyList), gossipRight),
	cluster.GossipKeyInstall: api.NewEndpoint(&table, api.Put, "/v1/agent/keyring/install",
		serveGossip(cluster.GossipKeyInstall), gossipRight),
	cluster.GossipKeyUse: api.NewEndpoint(&table,
		api.Put, "/v1/agent/keyring/use", serveGossip(cluster.GossipKeyUse), gossipRight),
	cluster.GossipKeyRemove: api.NewEndpoint(&table,
		api.Put, "/v1/agent/keyring/remove", serveGossip(cluster.GossipKeyRemove), gossipRight),
}

// gossipRight is the dialect's right for the keys of the gossip.
var gossipRight = api.Needs(access.NeedsAgentWrite)

func serveGossip(op cluster.GossipKeyOperation) api.ServeFunc[*cluster.GossipKeyrings] {
	return func(c *api.Call) (any, error) {
		var req cluster.GossipKeyRequest
		if op != cluster.GossipKeyList {
			err := c.DecodeBody(&req)
			if err != nil {
				return nil, err
			}
		}
		return c.Agent.GossipKeyring(c.Ctx(), op, req.Key)
	}
}

// GossipKeyring shows or changes the keys with which all servers encrypt their gossip. key is in base64, and
// "" for List. The address of the client has to be the operator socket of a server.
func GossipKeyring(ctx context.Context, c *api.Client, op cluster.GossipKeyOperation, key string) (
	*cluster.GossipKeyrings, error,
) {
	var r api.Request
	if op != cluster.GossipKeyList {
		r.Body = cluster.GossipKeyRequest{Key: key}
	}
	return gossipKeyring[op].Send(ctx, c, r)
}
