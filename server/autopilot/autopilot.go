// Package autopilot lets the leader decide which servers vote, and which dead ones are removed. It gives the
// library raft-autopilot the view of this server, and the rules for redundancy zones and for servers that
// never vote.
//
// One owner has each decision:
//
//   - The members loop of package server adds a live server without a vote, follows its address, and removes
//     a server that has left, was replaced, or was dropped by the gossip.
//   - This package gives and takes votes, and declares dead servers as having left. The members loop then
//     removes them.
package autopilot

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
)

// Raft is the part of Raft that autopilot uses. Its calls end with the leadership.
type Raft interface {
	library.Raft
	LastContact() time.Time
}

// Member is a server as the gossip sees it.
type Member struct {
	ID        string
	Name      string // in the gossip
	Address   string // host:port of Raft and RPC
	Status    string // alive, leaving, left or failed
	Version   string
	Zone      string // its redundancy_zone, "" for none
	NonVoting bool   // it never votes
}

// Deps are the dependencies of autopilot.
type Deps struct {
	ID       string // of this server
	Raft     Raft
	Members  func() []Member // the servers of the region, this one included
	Store    *state.Store
	Proposer fsm.Proposer
	// Ask asks another server how far it has followed the log.
	Ask func(ctx context.Context, address string) (*cluster.RaftStats, error)
	// ForceLeave declares a failed server, by its name in the gossip, as one that has left.
	ForceLeave func(name string) error
	First      cluster.AutopilotConfig // stored if none is
	// Settings returns the settings of this server that all servers should have alike, by their names. nil:
	// the server tells none.
	Settings func() map[string]string
	Logger   hclog.Logger
	// Slowness scales the threshold of the last contact with the leader: Raft's timeouts are so many times
	// its own defaults. Values below 1 count as 1.
	Slowness float64
	// Interval is the time between two checks of the servers. 0 stands for the library's own: two seconds for
	// their health, ten for decisions.
	Interval time.Duration
}

// Autopilot serves one server. Run runs while it leads.
type Autopilot struct {
	Deps
	running  atomic.Pointer[library.Autopilot] // nil while Run does not run
	removals sync.WaitGroup                    // calls of ForceLeave
	told     settings                          // by the servers that answer
}

// New returns the autopilot of a server.
func New(d Deps) *Autopilot {
	return &Autopilot{Deps: d}
}

// Run checks the servers until ctx ends.
func (a *Autopilot) Run(ctx context.Context) {
	var stored sync.WaitGroup
	stored.Go(func() { a.storeFirst(ctx) })
	defer stored.Wait()

	pilot := library.New(a.Raft, delegate{Autopilot: a, runs: ctx},
		library.WithLogger(a.Logger),
		library.WithPromoter(promoter{time.Now}),
		library.WithUpdateInterval(a.Interval),
		library.WithReconcileInterval(a.Interval))
	a.running.Store(pilot)
	pilot.Start(ctx)
	<-ctx.Done()
	a.running.Store(nil)
	<-pilot.Stop()
	a.removals.Wait()
}

// retryDelay is the pause between two attempts to store the first configuration.
var retryDelay = backoff.Backoff{
	Min: 250 * time.Millisecond,
	Max: 30 * time.Second,
}

// storeFirst stores the configuration that the server's own configuration has, if none is stored. It
// repeats an attempt that fails. The default counts meanwhile.
func (a *Autopilot) storeFirst(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if state.AutopilotConfig(a.Store.Read()).ModifyIndex != 0 {
			return
		}

		request := &cluster.AutopilotConfigRequest{
			Config: a.First,
			CAS:    true, // another may be stored meanwhile
		}

		_, err := fsm.Propose(ctx, a.Proposer, fsm.AutopilotConfigSet, request)
		if err == nil || structs.IsKind(err, structs.KindConflict) {
			return
		}

		a.Logger.Warn("failed to store the configuration of autopilot, retrying", "error", err)
		backoff.Sleep(ctx, retryDelay.Delay(failures))
	}
}

// Stats returns how far this server has followed the log. The caller adds the time since the last contact.
func (a *Autopilot) Stats() cluster.RaftStats {
	return cluster.RaftStats{
		LastTerm:  lastTerm(a.Raft),
		LastIndex: a.Raft.LastIndex(),
		Settings:  a.ownSettings(),
	}
}

func (a *Autopilot) ownSettings() map[string]string {
	if a.Settings == nil {
		return nil
	}
	return a.Settings()
}

// Health returns the health of all servers. The error is unavailable at a server that does not lead, or has
// just begun to.
func (a *Autopilot) Health() (*cluster.AutopilotHealthResponse, error) {
	pilot := a.running.Load()
	if pilot == nil {
		return nil, structs.NotServedf("this server does not know the health of the servers: it does not lead")
	}

	seen := pilot.GetState()
	if seen.Leader == "" {
		return nil, structs.NotServedf(
			"this server does not know the health of the servers yet: it has just begun to lead")
	}

	health := healthOf(seen)
	health.Differences = a.told.differences()
	clocks := ofClocks(clustertime.Wrong(a.Store.Read()))
	if clocks != nil {
		health.Differences = append(health.Differences, clocks)
	}
	return health, nil
}

// healthOf translates the library's view of the servers.
func healthOf(seen *library.State) *cluster.AutopilotHealthResponse {
	resp := &cluster.AutopilotHealthResponse{
		Healthy:          seen.Healthy,
		FailureTolerance: seen.FailureTolerance,
		Leader:           string(seen.Leader),
	}

	for _, id := range seen.Voters {
		resp.Voters = append(resp.Voters, string(id))
	}

	for _, id := range sortedIDs(seen) {
		s := seen.Servers[id]
		resp.Servers = append(resp.Servers, &cluster.ServerHealth{
			ID:          string(id),
			Name:        s.Server.Name,
			Address:     string(s.Server.Address),
			SerfStatus:  string(s.Server.NodeStatus),
			Version:     s.Server.Version,
			Leader:      id == seen.Leader,
			LastContact: s.Stats.LastContact,
			LastTerm:    s.Stats.LastTerm,
			LastIndex:   s.Stats.LastIndex,
			Healthy:     s.Health.Healthy,
			Voter:       s.HasVotingRights(),
			StableSince: s.Health.StableSince,
		})
	}

	return resp
}

// sortedIDs returns the IDs of all servers: the leader, then the voters, the healthy and the longest
// stable ones first.
func sortedIDs(seen *library.State) []raft.ServerID {
	var ids []raft.ServerID
	for id := range seen.Servers {
		ids = append(ids, id)
	}
	library.SortServers(ids, seen)
	return ids
}

// measure reports the health of the cluster as metrics.
func measure(seen *library.State) {
	healthy := float32(0)
	if seen.Healthy {
		healthy = 1
	}
	metrics.SetGauge([]string{"autopilot", "healthy"}, healthy)
	metrics.SetGauge([]string{"autopilot", "failure_tolerance"}, float32(seen.FailureTolerance))
}
