package nodeconn

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/go-msgpack/v2/codec"

	own "berth/internal/codec"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Peers are the other servers.
type Peers interface {
	// Self is the address at which nodes reach this server.
	Self() string
	// Others returns the addresses of the other servers that are alive.
	Others() []string
	// Relay asks the server at an address to call a node.
	Relay(ctx context.Context, addr string, req *nodecalls.RelayRequest) (*nodecalls.RelayResponse, error)
}

// relay calls a node over the connection that another server has to it. It reports false, with an error that
// says so, if none has one.
func (s *Sessions) relay(
	ctx context.Context, nodeID, method string, req, resp any,
) (called bool, err error) {
	if s.peers == nil {
		return false, unconnected(nodeID, "", nil)
	}

	body, err := own.Encode(req)
	if err != nil {
		return false, err
	}

	var tried []string
	for _, addr := range s.peers.Others() {
		call := &nodecalls.RelayRequest{
			NodeID:       nodeID,
			Method:       method,
			Body:         string(body),
			QueryOptions: structs.QueryOptions{AllowStale: true},
		}

		answer, err := s.peers.Relay(ctx, addr, call)
		switch {
		case err == nil:
			return true, own.Decode([]byte(answer.Body), resp)
		case !isElsewhere(err):
			return true, fmt.Errorf("over the server %s: %w", addr, err)
		}
		tried = append(tried, addr)
	}
	return false, unconnected(nodeID, s.peers.Self(), tried)
}

// isElsewhere reports whether another server may have the connection: the asked one has none, or it was not
// reached.
func isElsewhere(err error) bool {
	return structs.IsNotServed(err) || structs.IsKind(err, structs.KindUnavailable) && rpc.IsTransport(err)
}

// unconnected is the error of a call to a node without a connection. It names the addresses that the node has
// to reach.
func unconnected(nodeID, leader string, others []string) error {
	text := "node " + structs.ShortID(nodeID) + " has no connection to a server now. It opens one with each " +
		"heartbeat: check that it reaches"
	if leader == "" {
		return structs.Unavailablef("%s the leader", text)
	}
	text += " the leader at " + leader
	if len(others) > 0 {
		text += ", or a server at " + strings.Join(others, " or ")
	}
	return structs.Unavailablef("%s", text)
}

// Relay calls a method of a node for another server, over the connection of this one.
func (s *Sessions) Relay(
	ctx context.Context, req *nodecalls.RelayRequest,
) (*nodecalls.RelayResponse, error) {
	session := s.Session(req.NodeID)
	if session == nil {
		return nil, structs.NotServedf("node %s has no connection to this server", structs.ShortID(req.NodeID))
	}

	var answer codec.Raw
	err := session.Call(ctx, req.Method, codec.Raw(req.Body), &answer)
	if err != nil {
		return nil, err
	}
	return &nodecalls.RelayResponse{Body: string(answer)}, nil
}
