package server

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control"
	"berth/server/control/cluster"
	"berth/server/control/garbage"
	"berth/server/control/loop"
	"berth/structs"
)

// lead starts the leader's loops when this server gains leadership and ends them, waiting, when it loses
// it or ctx ends.
func (s *Server) lead(ctx context.Context) {
	stop := func() {}
	defer func() { stop() }()
	defer close(s.leadEnded)
	for {
		select {
		case leads := <-s.consensus.LeaderCh():
			stop()
			stop = s.startLeading(ctx, leads)
		case f := <-s.between:
			stop()
			f()
			stop = s.startLeading(ctx, s.consensus.State() == raft.Leader)
		case <-ctx.Done():
			return
		}
	}
}

// betweenLoops calls f while none of the leader loops runs, and waits for it. The loops then start again,
// also after an error: they may hold rows of the state that f has replaced.
func (s *Server) betweenLoops(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	select {
	case s.between <- func() { done <- f() }:
		return <-done
	case <-ctx.Done():
		return structs.Unavailablef("the request was not executed: %w", ctx.Err())
	case <-s.leadEnded:
		return structs.Unavailablef("the request was not executed: this server is shutting down")
	}
}

// startLeading runs the loops in the background if this server leads. The function that it returns ends them
// and waits.
func (s *Server) startLeading(ctx context.Context, leads bool) (stop func()) {
	if !leads {
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		term := s.consensus.CurrentTerm()
		if !s.caughtUp(ctx) {
			return
		}

		s.rootKeys.AwaitActive(ctx)
		s.keeper().Begin(ctx)

		s.logger.Info("leadership gained", "term", term)
		s.leading.Store(&leadership{term, make(chan struct{})})
		for _, loop := range s.loops() {
			wg.Go(func() { loop.Run(ctx) })
		}
	})

	return func() {
		s.endLeadership()
		cancel()
		wg.Wait()
		s.endLeadership() // it may have begun after the first call
		s.logger.Info("leadership ended")
	}
}

// leadership is the time in which a server leads.
type leadership struct {
	term uint64
	lost chan struct{} // closed at the end
}

func (s *Server) endLeadership() {
	l := s.leading.Swap(nil)
	if l != nil {
		close(l.lost)
	}
}

// notLeading is a closed channel.
var notLeading = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// LostLeadership is closed while this server does not lead (core.Raft).
func (s *Server) LostLeadership() <-chan struct{} {
	if l := s.leading.Load(); l != nil {
		return l.lost
	}
	return notLeading
}

// barrierPause is the time between two barriers: Raft rejects them at once during a transfer of leadership.
const barrierPause = 100 * time.Millisecond

// caughtUp waits until everything that earlier leaders committed is applied here: before that the loops
// would decide on old rows.
func (s *Server) caughtUp(ctx context.Context) bool {
	for ctx.Err() == nil {
		err := s.consensus.Barrier(0).Error()
		if err == nil {
			return true
		}
		if s.consensus.State() != raft.Leader {
			return false
		}
		s.logger.Warn("failed to apply the barrier of a new leader, retrying", "error", err)
		backoff.Sleep(ctx, barrierPause)
	}
	return false
}

// term returns the term in which this server leads, or 0.
func (s *Server) term() uint64 {
	l := s.leading.Load()
	if l == nil {
		return 0
	}
	return l.term
}

// leaderLoops returns all loops that a leader runs.
func (s *Server) leaderLoops() []control.Loop {
	loops := control.Loops(control.Deps{
		Common: loop.Common{
			Store:    s.store,
			Proposer: s,
			Nodes:    s.nodes,
			Clock:    s.clock,
			Logger:   s.logger.Named("control"),
			Keys:     s.keys,
		},
		Leases:  s.leases,
		Calls:   s.calls,
		Term:    s.term(),
		Consul:  s.cfg.Consul,
		Fencers: s.cfg.fencers(),
		Config:  s.cfg.control(),
		Drains:  &s.drains,
	})
	return append([]control.Loop{
		{Name: "cluster_time", Run: s.keeper().Run},
		{Name: "members", Run: s.reconcileMembers},
		{Name: "autopilot", Run: s.autopilot.Run},
		{Name: "root keys", Run: s.rootKeys.Lead},
		{Name: "acl_mode", Run: s.tightenMode},
		{Name: "variable_locks", Run: s.locks.Run},
		{Name: "token_ends", Run: s.tokenEnds().Run},
		{Name: "snapshots", Run: s.Backup.Run},
	}, loops...)
}

// tokenEnds returns the loop that deletes ended tokens.
func (s *Server) tokenEnds() cluster.TokenExpirer {
	return cluster.TokenExpirer{
		Common: loop.Common{
			Store:    s.store,
			Proposer: s,
			Clock:    s.clock,
			Logger:   s.logger.Named("acl"),
		},
		Now: time.Now,
	}
}

// collectGarbage deletes every row that has ended and is not needed, of any age (core.Deps).
func (s *Server) collectGarbage(ctx context.Context, p fsm.Proposer) (index uint64, err error) {
	return garbage.Collection{Now: s.clock.Now()}.Run(ctx, s.store.Read(), p)
}
