package server

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/server/clock"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/admin"
)

// clockInterval is the time between two entries about the cluster time. The next leader continues from the
// last one.
const clockInterval = 20 * time.Second

// keeper advances the cluster time while this server leads, by the rule of package clustertime.
type keeper struct {
	Store      *state.Store
	Clock      *clock.Cluster
	Proposer   fsm.Proposer
	Wall       func() time.Time
	Agree      func(ctx context.Context) bool // whether most servers have the wall clock of this one
	Quarantine time.Duration
	Logger     hclog.Logger
}

// run advances the time until ctx ends. begin comes before.
func (k keeper) run(ctx context.Context) {
	for backoff.Sleep(ctx, clockInterval) {
		k.advance(ctx, false)
	}
}

// begin takes over the time from the former leader, before anything acts by it.
func (k keeper) begin(ctx context.Context) { k.advance(ctx, true) }

func (k keeper) advance(ctx context.Context, first bool) {
	old, passed := k.Clock.Look()
	r := clustertime.Reading{
		Wall:       k.Wall().UnixNano(),
		Passed:     passed,
		First:      first,
		Quarantine: k.Quarantine,
	}
	if old == nil {
		r.Newest = clustertime.Newest(k.Store.Read(), r.Wall)
	}
	row := clustertime.Advance(old, r)
	if clustertime.Far(row.Ahead) && (!first || old == nil) { // the others are asked only then
		r.Agreed = k.Agree(ctx)
		row = clustertime.Advance(old, r)
	}
	p := &admin.ClusterTimeRequest{Clock: row}
	if old != nil {
		p.RowIndex = old.ModifyIndex
	}
	_, err := fsm.Propose(ctx, k.Proposer, fsm.ClusterTimeSet, p)
	k.Clock.Look() // the time until the next look counts from here
	if err != nil {
		// Precondition: a server is too old to know the cluster time, and the wall clock is the time.
		if ctx.Err() == nil && !structs.IsKind(err, structs.KindPrecondition) {
			k.Logger.Warn("failed to advance the cluster time, retrying", "error", err)
		}
		return
	}
	k.tell(old, &row)
}

// tell names a change of the difference of the clocks. old is nil for a new cluster time.
func (k keeper) tell(old, row *admin.ClusterTime) {
	metrics.SetGauge([]string{"cluster_time", "ahead_seconds"}, float32(row.Ahead.Seconds()))
	if old == nil {
		return
	}
	behind := row.Ahead < -clustertime.Tolerance
	switch {
	case row.Since != 0 && old.Since == 0:
		k.Logger.Error("the clock of this server was set, or the servers were off: nothing is deleted by it "+
			"until most servers have agreed for the quarantine",
			"ahead", row.Ahead, "quarantine", k.Quarantine)
	case row.Since == 0 && old.Since != 0 && len(row.Jumps) > 0 && row.Time-old.Time > int64(2*clockInterval):
		k.Logger.Warn("the cluster time follows the clocks of most servers",
			"by", time.Duration(row.Time-old.Time))
	case row.Since == 0 && old.Since != 0:
		k.Logger.Info("the clock of the leader is right again", "ahead", row.Ahead)
	case behind && old.Ahead >= -clustertime.Tolerance:
		k.Logger.Error("the clock of this server is behind the cluster time: set it right",
			"behind", -row.Ahead)
	}
}

// keeper returns the keeper of the cluster time, which works while this server leads.
func (s *Server) keeper() keeper {
	return keeper{
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
