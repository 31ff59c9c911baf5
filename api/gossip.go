package api

import (
	"berth/structs/access"
	"context"

	"berth/structs/gossipkey"
)

// gossipKeyring has the route of each operation on the keys of the gossip.
var gossipKeyring = map[gossipkey.Operation]*Endpoint[*gossipkey.Keyrings]{
	gossipkey.List: NewEndpoint(Get, "/v1/agent/keyring/list", serveGossip(gossipkey.List), gossipRight),
	gossipkey.Install: NewEndpoint(Put, "/v1/agent/keyring/install",
		serveGossip(gossipkey.Install), gossipRight),
	gossipkey.Use:    NewEndpoint(Put, "/v1/agent/keyring/use", serveGossip(gossipkey.Use), gossipRight),
	gossipkey.Remove: NewEndpoint(Put, "/v1/agent/keyring/remove", serveGossip(gossipkey.Remove), gossipRight),
}

// gossipRight is that of the dialect for the keys of the gossip.
var gossipRight = Needs(access.NeedsAgentWrite)

func serveGossip(op gossipkey.Operation) ServeFunc[*gossipkey.Keyrings] {
	return func(c *Call) (any, error) {
		var req gossipkey.Request
		if op != gossipkey.List {
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
func GossipKeyring(ctx context.Context, c *Client, op gossipkey.Operation, key string) (
	*gossipkey.Keyrings, error,
) {
	var r Request
	if op != gossipkey.List {
		r.Body = gossipkey.Request{Key: key}
	}
	return gossipKeyring[op].Send(ctx, c, r)
}
