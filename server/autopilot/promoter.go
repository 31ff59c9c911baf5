package autopilot

import (
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"
)

// promoter has the rules for votes. A server without a zone votes once it was healthy for the stabilisation
// time, also in the first seconds of a leader. One server of each zone votes. A server with NonVoting never
// does.
type promoter struct{ now func() time.Time }

// GetServerExt keeps the traits that the delegate has set.
func (promoter) GetServerExt(*library.Config, *library.ServerState) any { return nil }

// GetStateExt adds nothing.
func (promoter) GetStateExt(*library.Config, *library.State) any { return nil }

// GetNodeTypes keeps the types that the delegate has set.
func (promoter) GetNodeTypes(*library.Config, *library.State) map[raft.ServerID]library.NodeType {
	return nil
}

// IsPotentialVoter reports whether a server of a type counts among the voters.
func (promoter) IsPotentialVoter(t library.NodeType) bool { return t == library.NodeVoter }

// FilterFailedServerRemovals keeps the servers that the gossip takes for failed. The members loop removes
// servers that have left or that the gossip does not know. While it has not yet removed one that votes, no
// other voter is removed, so that together they are no majority.
func (promoter) FilterFailedServerRemovals(
	_ *library.Config,
	_ *library.State,
	dead *library.FailedServers,
) *library.FailedServers {
	hasFailed := func(s *library.Server) bool { return s.NodeStatus == library.NodeFailed }
	hasLeft := func(s *library.Server) bool { return s.NodeStatus == library.NodeLeft }
	kept := &library.FailedServers{FailedNonVoters: filter(dead.FailedNonVoters, hasFailed)}
	if !slices.ContainsFunc(dead.FailedVoters, hasLeft) {
		kept.FailedVoters = filter(dead.FailedVoters, hasFailed)
	}

	return kept
}

func filter(all []*library.Server, keep func(*library.Server) bool) (kept []*library.Server) {
	for _, s := range all {
		if keep(s) {
			kept = append(kept, s)
		}
	}
	return kept
}

// CalculatePromotionsAndDemotions returns the servers that get a vote and that lose theirs.
func (p promoter) CalculatePromotionsAndDemotions(
	c *library.Config,
	seen *library.State,
) (changes library.RaftChanges) {
	zones := map[string][]*library.ServerState{}
	for _, id := range sortedIDs(seen) {
		s := seen.Servers[id]
		of, _ := s.Server.Ext.(traits)
		switch {
		case of.nonVoting:
			demote(&changes, s)
		case of.zone != "" && zonesEnabled(c):
			zones[of.zone] = append(zones[of.zone], s)
		case p.isReady(c, s):
			changes.Promotions = append(changes.Promotions, id)
		}
	}

	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		p.assignZone(c, zones[zone], &changes)
	}

	leader := seen.Servers[seen.Leader]
	if leader != nil && isNonVoting(leader) {
		changes.Leader = successor(seen)
	}

	return changes
}

func zonesEnabled(c *library.Config) bool {
	r, _ := c.Ext.(rules)
	return r.zones
}

func isNonVoting(s *library.ServerState) bool {
	of, _ := s.Server.Ext.(traits)
	return of.nonVoting
}

// successor returns the server that is to lead in the place of one that never votes: the setting has changed,
// or an older leader has given it a vote. It is "" if there is none.
func successor(seen *library.State) raft.ServerID {
	for _, id := range seen.Voters {
		s := seen.Servers[id]
		if s.Health.Healthy && !isNonVoting(s) {
			return id
		}
	}
	return ""
}

// assignZone keeps or chooses the one server of a zone that votes. The servers come in the order of
// sortedIDs. A zone without a server that can vote keeps a dead voter: without it the cluster would have one
// vote less.
func (p promoter) assignZone(
	c *library.Config,
	servers []*library.ServerState,
	changes *library.RaftChanges,
) {
	at := slices.IndexFunc(servers, func(s *library.ServerState) bool {
		return s.HasVotingRights() && !p.isLost(c, s)
	})
	if at < 0 {
		at = slices.IndexFunc(servers, func(s *library.ServerState) bool { return p.isReady(c, s) })
		if at < 0 {
			return
		}

		changes.Promotions = append(changes.Promotions, servers[at].Server.ID)
	}

	for i, s := range servers {
		if i != at {
			demote(changes, s)
		}
	}
}

// demote takes the vote of a server that has one and does not lead.
func demote(changes *library.RaftChanges, s *library.ServerState) {
	if s.State == library.RaftVoter {
		changes.Demotions = append(changes.Demotions, s.Server.ID)
	}
}

// isReady reports whether a server without a vote may get one.
func (p promoter) isReady(c *library.Config, s *library.ServerState) bool {
	return s.State == library.RaftNonVoter &&
		s.Health.IsStable(p.now(), c.ServerStabilizationTime)
}

// isLost reports whether another server is to vote in the place of this one: the gossip does not take it for
// alive, or it was unhealthy for the stabilisation time.
func (p promoter) isLost(c *library.Config, s *library.ServerState) bool {
	if s.Server.NodeStatus != library.NodeAlive {
		return true
	}
	return !s.Health.Healthy && p.now().Sub(s.Health.StableSince) >= c.ServerStabilizationTime
}
