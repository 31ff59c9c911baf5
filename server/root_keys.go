package server

import (
	"context"

	"github.com/hashicorp/serf/serf"

	"berth/rpc"
	"berth/server/keys"
	"berth/structs"
)

// keyDeps gives package keys its view of this server. The gossip starts after it.
func (s *Server) keyDeps() keys.Deps {
	return keys.Deps{
		Settings: s.cfg.Keyring,
		Ring:     s.keys,
		Store:    s.store,
		Proposer: s,
		Servers:  s.keyServers,
		Ask: func(ctx context.Context, address string) (*structs.KeyringStatus, error) {
			return rpc.Call(ctx, s.pool.At(address), structs.KeyringStatusGet, &structs.QueryRequest{})
		},
		Announce: func(kek string) { s.members.setTag(tagKEK, kek) },
		Logger:   s.logger.Named("keyring"),
	}
}

// keyServers lists the servers that are alive.
func (s *Server) keyServers() (servers []keys.Server) {
	for _, p := range s.members.peers() {
		if p.status == serf.StatusAlive {
			servers = append(servers, keys.Server{
				Name:    p.name,
				Address: p.rpcAddr,
				KEK:     p.kek,
				Self:    p.id == s.id,
			})
		}
	}
	return servers
}
