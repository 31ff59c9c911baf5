package endpoints

import (
	"context"

	"berth/rpc"
	"berth/structs"
)

// keepsNode is the endpoint of a request for a lease, on a server that passes it on to the leader: once that
// has accepted the node, the connection of the request is the one over which this server calls the node.
func keepsNode(e *Endpoints, endpoint rpc.Endpoint) rpc.Endpoint {
	serve := endpoint.Serve
	endpoint.Serve = func(ctx context.Context, req any) (any, error) {
		session := rpc.SessionFrom(ctx)
		node := requestingNode(req)
		if session == nil || node == "" {
			return serve(ctx, req)
		}

		resp, err := serve(ctx, req)
		if err == nil {
			e.Nodes.Bind(node, session)
		}
		return resp, err
	}
	return endpoint
}

// requestingNode returns the node that asks for a lease, "" if another server has passed the request on.
func requestingNode(req any) string {
	switch r := req.(type) {
	case *structs.NodeHeartbeatRequest:
		if !r.Forwarded {
			return r.NodeID
		}
	case *structs.NodeRegisterRequest:
		if !r.Forwarded && r.Node != nil {
			return r.Node.ID
		}
	}
	return ""
}
