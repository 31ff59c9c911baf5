package server

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"
)

// bootstrapInterval is how often a server that waits for others looks at the gossip; an event of the
// gossip makes it look at once.
const bootstrapInterval = time.Second

// bootstrap forms the cluster the first time, once as many servers as expected see each other. Each of
// them computes the same configuration and hands it to its own Raft, so it does not matter who is first.
// A server that finds a cluster already there forms none: that cluster's leader takes it in.
//
// Once there is anything in its log, a server says so in the gossip for ever: so a cluster is known as long
// as one of its servers is, and those that lost their data form no other in its place.
func (s *Server) bootstrap(ctx context.Context) {
	if !s.consensus.fresh {
		return
	}
	if s.cfg.BootstrapExpect == 1 {
		// Others that were named may be a cluster already, and two cannot be made one.
		select {
		case <-s.members.joined:
		case <-ctx.Done():
			return
		}
	}
	tried := s.cfg.BootstrapExpect == 0
	for {
		tried = tried || s.tryBootstrap()
		if s.consensus.LastIndex() > 0 {
			s.members.markBootstrapped()
			return
		}
		select {
		case <-time.After(bootstrapInterval):
		case <-ctx.Done():
			return
		}
	}
}

// tryBootstrap reports whether there is nothing left to do.
func (s *Server) tryBootstrap() bool {
	var servers []raft.Server
	for _, p := range s.members.peers() {
		if p.bootstrapped {
			s.logger.Info("there is a cluster already; waiting to be taken in", "seen_at", p.name)
			return true
		}
		if p.status != serf.StatusAlive || p.expect != s.cfg.BootstrapExpect {
			continue
		}
		servers = append(servers, raft.Server{ID: raft.ServerID(p.id), Address: raft.ServerAddress(p.rpcAddr)})
	}
	if len(servers) < s.cfg.BootstrapExpect {
		return false
	}
	if len(servers) > s.cfg.BootstrapExpect {
		s.logger.Error("more servers than bootstrap_expect say they form the cluster; stop the extra ones",
			"expected", s.cfg.BootstrapExpect, "seen", len(servers))
		return false
	}
	return s.form(servers)
}

func (s *Server) form(servers []raft.Server) bool {
	err := s.consensus.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		s.logger.Error("forming the cluster failed", "error", err)
		return false
	}
	s.logger.Info("formed the cluster", "servers", len(servers))
	return true
}
