package server

import (
	"context"

	"github.com/hashicorp/serf/serf"

	"berth/rpc"
	"berth/structs/nodecalls"
)

// peerServers are the other servers, for calls of nodes that have connections to them.
type peerServers struct{ s *Server }

// Self implements nodeconn.Peers.
func (p peerServers) Self() string {
	for _, m := range p.s.members.peers() {
		if m.id == p.s.id {
			return m.rpcAddr
		}
	}
	return ""
}

// Others implements nodeconn.Peers.
func (p peerServers) Others() (addrs []string) {
	for _, other := range p.s.members.peers() {
		if other.status == serf.StatusAlive && other.id != p.s.id {
			addrs = append(addrs, other.rpcAddr)
		}
	}
	return addrs
}

// Relay implements nodeconn.Peers.
func (p peerServers) Relay(
	ctx context.Context, addr string, req *nodecalls.RelayRequest,
) (*nodecalls.RelayResponse, error) {
	return rpc.Call(ctx, p.s.pool.At(addr), nodecalls.Relay, req)
}
