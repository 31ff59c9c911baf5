package server

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/server/timekeeper"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/admin"
)

// keeper returns the keeper of the cluster time, which works while this server leads.
func (s *Server) keeper() timekeeper.Keeper {
	return timekeeper.Keeper{
		Store:      s.store,
		Clock:      s.clock,
		Proposer:   s,
		Wall:       time.Now,
		Agree:      s.clocksAgree,
		Quarantine: s.cfg.ClockQuarantine,
		Logger:     s.logger.Named("clock"),
	}
}

// lookEvery is the time between two looks of a server at the row of the cluster time.
const lookEvery = 5 * time.Second

// followClock counts the time that passes on this server since each entry about the cluster time. A new
// leader goes on from there: it loses no time in which there was no leader.
func (s *Server) followClock(ctx context.Context) {
	for backoff.Sleep(ctx, lookEvery) {
		s.clock.Look()
	}
}

// clocksAgree reports whether most servers with a vote have the wall clock of this one. One that does not
// answer does not agree.
func (s *Server) clocksAgree(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	var mu sync.Mutex
	voters, agree := 0, 0
	for _, peer := range s.consensus.GetConfiguration().Configuration().Servers {
		if peer.Suffrage != raft.Voter {
			continue
		}
		voters++
		calls.Go(func() {
			if string(peer.ID) == s.id || s.hasClock(ctx, string(peer.Address)) {
				mu.Lock()
				defer mu.Unlock()
				agree++
			}
		})
	}
	calls.Wait()
	return 2*agree > voters
}

// hasClock reports whether the server at an address has the wall clock of this one.
func (s *Server) hasClock(ctx context.Context, address string) bool {
	asked := time.Now()
	stats, err := rpc.Call(ctx, s.pool.At(address), admin.StatusRaftStats, &structs.QueryRequest{})
	if err != nil || stats.Wall == 0 {
		return false
	}
	return time.Unix(0, stats.Wall).Sub(asked).Abs() <= clustertime.Tolerance
}
