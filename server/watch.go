package server

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// leaderWatch keeps a context with the lifetime of one leader.
type leaderWatch struct {
	mu    sync.Mutex
	addr  string // of the leader
	leads context.Context
	end   context.CancelFunc
}

// setLeader ends the context of one leader and begins another leader's. The caller holds w.mu.
func (w *leaderWatch) setLeader(addr string) {
	if w.end != nil {
		w.end()
	}
	w.addr = addr
	w.leads, w.end = context.WithCancel(context.Background())
}

// watchLeader ends the context of each leader that loses its leadership, until ctx ends.
func (s *Server) watchLeader(ctx context.Context) {
	// One element is enough: an event that finds it full belongs to a change that will still be read.
	changes := make(chan raft.Observation, 1)
	observer := raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	})
	s.consensus.RegisterObserver(observer)
	defer s.consensus.DeregisterObserver(observer)
	for {
		s.followLeader()
		select {
		case <-changes:
		case <-ctx.Done():
			s.watch.mu.Lock()
			s.watch.setLeader("")
			s.watch.mu.Unlock()
			return
		}
	}
}

// followLeader returns the address of the present leader and the context that ends with its leadership.
func (s *Server) followLeader() (addr string, leads context.Context) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	leader, _ := s.consensus.LeaderWithID()
	addr = string(leader)
	if s.watch.leads == nil || s.watch.addr != addr {
		s.watch.setLeader(addr)
	}
	return addr, s.watch.leads
}

// Leads returns a context that ends when the server at an address no longer leads, as far as this server
// knows (core.Raft).
func (s *Server) Leads(addr string) context.Context {
	leader, leads := s.followLeader()
	if leader != addr {
		ended, end := context.WithCancel(context.Background())
		end()
		return ended
	}
	return leads
}
