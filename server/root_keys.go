package server

import (
	"context"
	"time"

	"github.com/hashicorp/serf/serf"

	"berth/rpc"
	"berth/server/keys"
	"berth/server/signing"
	"berth/structs"
	"berth/structs/cluster"
)

// openState opens the key-encryption key and Raft, and notes when it did.
func openState(s *Server) (err error) {
	s.digests = newDigests(s.logger)
	s.began = time.Now()
	s.pool = rpc.NewPool(s.cfg.Dial, s.logger.Named("rpc"), nil)
	s.rootKeys, err = keys.New(keys.Deps{
		Settings: s.cfg.Keyring,
		Ring:     s.keys,
		Store:    s.store,
		Proposer: s,
		Servers:  func() []keys.Server { return keyServers(s) },
		Ask: func(ctx context.Context, address string) (*cluster.KeyringStatus, error) {
			return rpc.Call(ctx, s.pool.At(address), cluster.KeyringStatusGet, &structs.QueryRequest{})
		},
		Announce: func(kek string) { s.members.setTag(tagKEK, kek) },
		Logger:   s.logger.Named("keyring"),
	})
	s.Signing = signing.New(signing.Deps{
		Dir:     s.cfg.DataDir,
		Store:   s.store,
		Keys:    s.keys,
		Keyring: &s.cfg.Keyring,
		Logger:  s.logger,
	})
	if err == nil {
		s.accessMode, err = openAccessMode(s.cfg.DataDir, s.store)
	}
	if err == nil {
		s.consensus, err = s.openRaft()
	}

	return err
}

// keyServers lists the servers that are alive.
func keyServers(s *Server) (servers []keys.Server) {
	for _, p := range s.members.peers() {
		if p.status == serf.StatusAlive {
			found := keys.Server{Name: p.name, Address: p.rpcAddr, KEK: p.kek, Self: p.id == s.id}
			servers = append(servers, found)
		}
	}
	return servers
}
