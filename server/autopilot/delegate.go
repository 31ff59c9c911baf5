package autopilot

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"

	"berth/state"
	"berth/structs/cluster"
)

// unvoting is the type of a server without a vote. A server with a vote has library.NodeVoter.
const unvoting library.NodeType = "non-voter"

// traits are the settings of a server that the rules for votes use.
type traits struct {
	zone      string // its redundancy_zone, "" for none
	nonVoting bool
}

// rules are the settings of the configuration that the library does not have.
type rules struct{ zones bool }

// delegate is this server as the library sees it.
type delegate struct {
	*Autopilot
	runs context.Context // ends with Run
}

// AutopilotConfig returns the stored configuration.
func (d delegate) AutopilotConfig() *library.Config {
	c := state.AutopilotConfig(d.Store.Read())
	slowness := max(d.Slowness, 1)
	return &library.Config{
		CleanupDeadServers:      c.CleanupDeadServers,
		LastContactThreshold:    time.Duration(float64(c.LastContactThreshold) * slowness),
		MaxTrailingLogs:         c.MaxTrailingLogs,
		MinQuorum:               max(uint(c.MinQuorum), uint(d.LeastVoters())),
		ServerStabilizationTime: c.ServerStabilizationTime,
		Ext:                     rules{zones: c.EnableRedundancyZones},
	}
}

// NotifyState receives each new view of the servers.
func (d delegate) NotifyState(seen *library.State) {
	measure(seen)
	d.told.report(d.Logger)
	d.noteVoters(d.runs)
}

// KnownServers returns the servers that the gossip knows. After a change of its name a server is in it twice:
// the live entry counts. The library counts the voters of the type NodeVoter when it bounds removals. So
// these are the servers that vote now, and not servers that may vote later.
func (d delegate) KnownServers() map[raft.ServerID]*library.Server {
	votes := map[raft.ServerID]bool{}
	for _, s := range d.Raft.GetConfiguration().Configuration().Servers {
		votes[s.ID] = s.Suffrage == raft.Voter
	}

	known := map[raft.ServerID]*library.Server{}
	for _, m := range d.Members() {
		id := raft.ServerID(m.ID)
		before := known[id]
		if m.ID == "" || before != nil && before.NodeStatus == library.NodeAlive {
			continue
		}

		known[id] = &library.Server{
			ID:         id,
			Name:       m.Name,
			Address:    raft.ServerAddress(m.Address),
			NodeStatus: library.NodeStatus(m.Status), // the library names them as the gossip does
			Version:    m.Version,
			IsLeader:   m.ID == d.ID,
			NodeType:   unvoting,
			Ext:        traits{m.Zone, m.NonVoting},
		}

		if votes[id] {
			known[id].NodeType = library.NodeVoter
		}
	}

	return known
}

// FetchServerStats asks all live servers at the same time. A server that does not answer has had no contact:
// the library would keep the statistics of its last answer, and call it healthy for ever.
func (d delegate) FetchServerStats(
	ctx context.Context,
	servers map[raft.ServerID]*library.Server,
) map[raft.ServerID]*library.ServerStats {
	var mu sync.Mutex
	var calls sync.WaitGroup
	all := map[raft.ServerID]*library.ServerStats{}
	told := map[string]map[string]string{}
	for id, s := range servers {
		switch {
		case s.NodeStatus != library.NodeAlive:
			continue
		case string(id) == d.ID:
			mu.Lock()
			all[id] = d.ownStats()
			told[s.Name] = d.ownSettings()
			mu.Unlock()
			continue
		}

		calls.Go(func() {
			answer, err := d.Ask(ctx, string(s.Address))
			stats := d.silentStats(id)
			if err == nil {
				stats = statsOf(answer)
			} else {
				d.Logger.Debug("failed to ask a server for its statistics", "name", s.Name, "error", err)
			}

			mu.Lock()
			defer mu.Unlock()
			all[id] = stats
			if err == nil && answer.Settings != nil {
				told[s.Name] = answer.Settings
			}
		})
	}

	calls.Wait()
	d.told.set(told)
	return all
}

// silentStats returns the statistics of a server that does not answer: the last known ones, without contact.
func (d delegate) silentStats(id raft.ServerID) *library.ServerStats {
	stats := library.ServerStats{}
	pilot := d.running.Load()
	if pilot != nil {
		before := pilot.GetState().Servers[id]
		if before != nil {
			stats = before.Stats
		}
	}
	stats.LastContact = -1
	return &stats
}

func (d delegate) ownStats() *library.ServerStats {
	own := d.Stats()
	return &library.ServerStats{
		LastTerm:  own.LastTerm,
		LastIndex: own.LastIndex,
	}
}

// statsOf translates the answer of a server. One that knows no leader has had no contact.
func statsOf(r *cluster.RaftStats) *library.ServerStats {
	stats := &library.ServerStats{
		LastContact: r.LastContact,
		LastTerm:    r.LastTerm,
		LastIndex:   r.LastIndex,
	}
	if !r.KnownLeader {
		stats.LastContact = -1
	}
	return stats
}

// lastTerm returns the term of the last entry of the log.
func lastTerm(r Raft) uint64 {
	term, _ := strconv.ParseUint(r.Stats()["last_log_term"], 10, 64) // Raft writes a number
	return term
}

// RemoveFailedServer declares a dead server as one that has left. The members loop then removes it. The call
// waits until others have heard of it, so the library does not wait for it.
func (d delegate) RemoveFailedServer(s *library.Server) {
	d.Logger.Info("removing a dead server", "name", s.Name, "server_id", s.ID)
	d.removals.Go(func() {
		err := d.ForceLeave(s.Name)
		if err != nil {
			d.Logger.Warn("failed to remove a dead server", "name", s.Name, "error", err)
		}
	})
}
