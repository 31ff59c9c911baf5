package operator

import (
	"cmp"
	"context"
	"net/url"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/nodecalls"
)

const nodeMetaPath = "/v1/client/metadata"

var nodeMetaGet = api.NewEndpoint[*nodecalls.NodeMeta](&table, api.Get, nodeMetaPath, serveNodeMeta,
	api.Needs(access.NeedsNodeRead))

func serveNodeMeta(c *api.Call) (any, error) {
	id := c.Param("node_id")
	meta, err := c.Agent.NodeMeta(id, nil)
	if err != nil {
		return nil, c.ForwardToNode(id, err)
	}
	return meta, nil
}

// NodeMeta returns the metadata of a node. The ID "" is the node of the called agent.
func NodeMeta(ctx context.Context, c *api.Client, nodeID string) (*nodecalls.NodeMeta, error) {
	return nodeMetaGet.Send(ctx, c, api.Request{Query: nodeQuery(nodeID)})
}

var nodeMetaPut = api.NewEndpoint[*nodecalls.NodeMeta](&table, api.Put, nodeMetaPath, serveNodeMetaApply,
	api.Needs(access.NeedsNodeWrite))

func serveNodeMetaApply(c *api.Call) (any, error) {
	var body nodecalls.NodeMetaApply
	err := c.DecodeBody(&body)
	if err != nil {
		return nil, err
	}
	if len(body.Meta) == 0 {
		return nil, structs.Invalidf("Meta: expected a key, found none")
	}
	return atNode(c, body.NodeID, body, func(id string) (any, error) { return c.Agent.NodeMeta(id, body.Meta) })
}

// atNode answers a request about a node, which its parameter or its body names, or passes it on to its agent.
func atNode(c *api.Call, named string, body any, answer func(nodeID string) (any, error)) (any, error) {
	id := c.Param("node_id")
	if named != "" && id != "" && named != id {
		return nil, structs.Invalidf("the parameter node_id is node %q, the body names %q",
			structs.Cut(id, structs.MaxQuoted), structs.Cut(named, structs.MaxQuoted))
	}

	id = cmp.Or(id, named)
	found, err := answer(id)
	if err == nil {
		return found, nil
	}
	fault := api.Resend(c, body)
	if fault != nil {
		return nil, fault
	}
	return nil, c.ForwardToNode(id, err)
}

// ApplyNodeMeta changes the metadata of a node: it sets the keys with a value and removes those with nil. The
// ID "" is the node of the called agent.
func ApplyNodeMeta(
	ctx context.Context, c *api.Client, a nodecalls.NodeMetaApply,
) (*nodecalls.NodeMeta, error) {
	return nodeMetaPut.Send(ctx, c, api.Request{Query: nodeQuery(a.NodeID), Body: a})
}

func nodeQuery(nodeID string) url.Values {
	v := url.Values{}
	if nodeID != "" {
		v.Set("node_id", nodeID)
	}
	return v
}
