package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/server/clock"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
)

// clockInterval is the time between two entries about the cluster time. The next leader continues from the
// last one.
const clockInterval = 20 * time.Second

// Keeper advances the cluster time while this server leads, by the rule of package clustertime.
type Keeper struct {
	Store    *state.Store
	Clock    *clock.Cluster
	Proposer fsm.Proposer
	Wall     func() time.Time
	// Clocks compares the wall clocks of all servers with this one's.
	Clocks func(ctx context.Context) []*cluster.ServerClock
	// Stored returns what the servers have stored.
	Stored     func() []cluster.StoredIndex
	Quarantine time.Duration
	Logger     hclog.Logger
}

// Run advances the time until ctx ends. Begin comes before.
func (k Keeper) Run(ctx context.Context) {
	for backoff.Sleep(ctx, clockInterval) {
		k.Step(ctx)
	}
}

// Step advances the time by what has passed. It is due each clockInterval.
func (k Keeper) Step(ctx context.Context) { k.advance(ctx, false) }

// Begin takes over the time from the former leader, before anything acts by it.
func (k Keeper) Begin(ctx context.Context) { k.advance(ctx, true) }

func (k Keeper) advance(ctx context.Context, first bool) {
	var clocks []*cluster.ServerClock
	if !first { // nothing acts while the first entry waits
		clocks = k.Clocks(ctx) // before the look: the answers take time
	}
	old, passed := k.Clock.Look()
	r := clustertime.Reading{
		Wall:       k.Wall().UnixNano(),
		Passed:     passed,
		First:      first,
		Agreed:     mostAgree(clocks),
		Quarantine: k.Quarantine,
	}
	if old == nil {
		r.Newest = clustertime.Newest(k.Store.Read(), r.Wall)
	}
	row := clustertime.Advance(old, r)
	if first && old == nil && clustertime.Far(row.Ahead) { // a new cluster time begins by the word of most
		r.Agreed = mostAgree(k.Clocks(ctx))
		row = clustertime.Advance(old, r)
	}
	row.Stored = k.Stored()
	before := clustertime.Wrong(k.Store.Read())
	p := &cluster.ClusterTimeRequest{
		Clock: row,
		Wrong: before,
	}
	if !first {
		p.Wrong = clustertime.Differing(before, clocks, row.Ahead)
	}
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
	k.tellServers(before, p.Wrong)
}

// tell names a change of the difference of the clocks. old is nil for a new cluster time.
func (k Keeper) tell(old, row *cluster.ClusterTime) {
	metrics.SetGauge([]string{"cluster_time", "ahead_seconds"}, float32(row.Ahead.Seconds()))
	if old == nil {
		return
	}
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
	}
}

// tellServers names the servers whose clocks begin to differ from the cluster time, and servers whose clocks
// no longer do.
func (k Keeper) tellServers(before, now []cluster.WrongClock) {
	metrics.SetGauge([]string{"cluster_time", "wrong_clocks"}, float32(len(now)))
	has := func(all []cluster.WrongClock, id string) bool {
		return slices.ContainsFunc(all, func(c cluster.WrongClock) bool { return c.ServerID == id })
	}
	for _, c := range now {
		if !has(before, c.ServerID) {
			k.Logger.Error("the clock of a server differs from the cluster time: set it right",
				"server", c.Server, "server_id", c.ServerID, "ahead", c.Ahead.Round(time.Second))
		}
	}
	for _, c := range before {
		if !has(now, c.ServerID) {
			k.Logger.Info("the clock of a server is right again, or the server is gone",
				"server", c.Server, "server_id", c.ServerID)
		}
	}
}

// keeper returns the keeper of the cluster time, which works while this server leads.
func (s *Server) keeper() Keeper {
	return Keeper{
		Store:      s.store,
		Clock:      s.clock,
		Proposer:   s,
		Wall:       time.Now,
		Clocks:     s.readClocks,
		Stored:     s.stored,
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

// readClocks compares the wall clocks of the servers with this one's.
func (s *Server) readClocks(ctx context.Context) []*cluster.ServerClock {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	var clocks []*cluster.ServerClock
	for _, server := range s.Configuration() {
		c := &cluster.ServerClock{
			ID:      server.ID,
			Name:    server.Node,
			Address: server.Address,
			Leader:  server.ID == s.id,
			Voter:   server.Voter,
		}
		clocks = append(clocks, c)
		if !c.Leader {
			calls.Go(func() { s.readClock(ctx, c) })
		}
	}
	calls.Wait()
	return clocks
}

// readClock compares the wall clock of a server with this one's.
func (s *Server) readClock(ctx context.Context, c *cluster.ServerClock) {
	asked := time.Now()
	stats, err := rpc.Call(ctx, s.pool.At(c.Address), cluster.StatusRaftStats, &structs.QueryRequest{})
	switch {
	case err != nil:
		c.Fault = structs.Cut(err.Error(), structs.MaxText)
	case stats.Wall == 0:
		c.Fault = "the server is too old to tell it"
	default:
		c.Ahead = time.Unix(0, stats.Wall).Sub(asked)
	}
}

// mostAgree reports whether most servers with a vote have the wall clock of the leader. One that does not
// answer does not agree.
func mostAgree(clocks []*cluster.ServerClock) bool {
	voters := 0
	agree := 0
	for _, c := range clocks {
		if !c.Voter {
			continue
		}
		voters++
		if c.Right(clustertime.Tolerance) {
			agree++
		}
	}
	return 2*agree > voters
}

// ReadClocks returns the clocks of the servers while this one leads.
func (s *Server) ReadClocks(ctx context.Context) *cluster.ClockResponse {
	row, _ := s.clock.Look()
	return &cluster.ClockResponse{
		ClusterTime: row,
		Now:         s.clock.Now().UnixNano(),
		Wall:        time.Now().UnixNano(),
		Quarantine:  s.cfg.ClockQuarantine,
		Servers:     s.readClocks(ctx),
	}
}

// AcceptClock sets the cluster time to the wall clock of this server. The error is precondition if most
// servers have another one, and conflict if the cluster time was advanced meanwhile.
func (s *Server) AcceptClock(ctx context.Context) (index uint64, err error) {
	clocks := s.readClocks(ctx)
	if !mostAgree(clocks) {
		return 0, structs.Preconditionf("most servers do not have the clock of the leader within %s: set the "+
			"clocks right, and see `berth operator clock status`", clustertime.Tolerance)
	}
	old, passed := s.clock.Look()
	if old == nil {
		return 0, structs.Preconditionf("there is no cluster time yet: update all servers first")
	}
	row := clustertime.Accept(old, clustertime.Reading{Wall: time.Now().UnixNano(), Passed: passed})
	index, err = fsm.Propose(ctx, s, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{
		Clock:    row,
		RowIndex: old.ModifyIndex,
		Wrong:    clustertime.Differing(clustertime.Wrong(s.store.Read()), clocks, 0),
	})
	if err != nil {
		return index, err
	}
	if now, _ := s.clock.Look(); now == nil || now.ModifyIndex < index {
		return index, structs.Conflictf("the cluster time was advanced meanwhile; accept the clock again")
	}
	s.logger.Warn("the cluster time is that of the clock by the word of an operator",
		"by", time.Duration(row.Time-old.Time).Round(time.Second))
	return index, nil
}
