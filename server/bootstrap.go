package server

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"

	"berth/internal/backoff"
)

// bootstrapInterval is the time between two checks of the gossip by a server that waits for others. An event
// of the gossip also triggers a check.
const bootstrapInterval = time.Second

// A server that waits for a cluster says so in the third round, and then each half minute.
const (
	firstWaitingRound = 3
	waitingRounds     = 30
)

// bootstrap forms the cluster the first time, once as many servers as expected see each other. Each server
// computes the same configuration and gives it to its own Raft, so any of them may be first. A server that
// finds a cluster forms none: the leader of that cluster adds it.
//
// Once its log has an entry, a server announces that in the gossip permanently. So a cluster is known while
// one of its servers runs, and servers that lost their data form no other in its place.
func (s *Server) bootstrap(ctx context.Context) {
	if !s.consensus.fresh {
		return
	}

	if s.cfg.BootstrapExpect == 1 {
		// The servers of retry_join may be a cluster already, and two clusters cannot be merged.
		select {
		case <-s.members.joined:
		case <-ctx.Done():
			return
		}
	}

	tried := s.cfg.BootstrapExpect == 0
	for round := 1; ; round++ {
		tried = tried || s.tryBootstrap()
		if s.consensus.LastIndex() > 0 {
			s.members.markBootstrapped()
			return
		}

		// A server without space on its disk waits for that, and watchSpace tells it.
		if round%waitingRounds == firstWaitingRound && s.Waits() == nil {
			s.tellWait()
		}

		if !backoff.Sleep(ctx, bootstrapInterval) {
			return
		}
	}
}

// tellWait names what a server without a cluster waits for, and the addresses at which the others try to
// reach it: they see a wrong one in no other place.
func (s *Server) tellWait() {
	own := s.members.serf.LocalMember()
	var seen []string
	for _, p := range s.members.peers() {
		if p.id != s.id {
			seen = append(seen, p.name+" at "+p.rpcAddr)
		}
	}
	s.logger.Warn("waiting for a cluster; the other servers must reach this one at its two addresses (advertise, -bind)",
		"rpc", s.addr,
		"gossip", net.JoinHostPort(own.Addr.String(), strconv.Itoa(int(own.Port))),
		"bootstrap_expect", s.cfg.BootstrapExpect,
		"other_servers", seen)
}

// tryBootstrap reports whether there is nothing left to do.
func (s *Server) tryBootstrap() bool {
	var servers []raft.Server
	for _, p := range s.members.peers() {
		if p.bootstrapped {
			s.logger.Info("cluster exists, waiting to be added", "seen_at", p.name)
			return true
		}

		// A server that expects another number would give another configuration to its Raft.
		if p.status != serf.StatusAlive ||
			p.expect != s.cfg.BootstrapExpect {
			continue
		}

		servers = append(servers, raft.Server{
			ID:      raft.ServerID(p.id),
			Address: raft.ServerAddress(p.rpcAddr),
		})
	}

	if len(servers) < s.cfg.BootstrapExpect {
		return false
	}

	if len(servers) > s.cfg.BootstrapExpect {
		s.logger.Error("found more servers than bootstrap_expect, not forming the cluster",
			"expected", s.cfg.BootstrapExpect,
			"seen", len(servers))
		return false
	}

	// Raft stores its first term before the first entry, and forms no cluster once it has a term.
	err := s.consensus.files.Log.TakeSpace()
	if err != nil {
		return false // watchSpace tells why
	}

	err = s.consensus.BootstrapCluster(raft.Configuration{Servers: servers}).Error()
	if err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
		s.logger.Error("failed to form the cluster", "error", err)
		return false
	}

	s.logger.Info("formed the cluster", "servers", len(servers))
	err = s.consensus.electAlone()
	if err != nil { // Raft's timer comes later
		s.logger.Warn("failed to begin an election", "error", err)
	}

	return true
}
