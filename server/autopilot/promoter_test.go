package autopilot

import (
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	library "github.com/hashicorp/raft-autopilot"
)

// The tests count from now. A server is stable after a minute.
var (
	now    = time.Unix(1_800_000_000, 0)
	stable = now.Add(-time.Minute)
	young  = now.Add(-time.Minute + time.Second)
)

func testPromoter() promoter {
	return promoter{func() time.Time { return now }}
}

func testRules(zones bool) *library.Config {
	return &library.Config{
		ServerStabilizationTime: time.Minute,
		Ext:                     rules{zones: zones},
	}
}

// look is a server as a test describes it.
type look struct {
	state     library.RaftState
	unhealthy bool
	since     time.Time // of its health; zero: stable
	status    library.NodeStatus
	of        traits
}

// seenOf returns the library's view of servers. The server l leads.
func seenOf(servers map[string]look) *library.State {
	seen := &library.State{Servers: map[raft.ServerID]*library.ServerState{}}
	for name, l := range servers {
		s := &library.ServerState{State: l.state}
		s.Server.ID = raft.ServerID(name)
		s.Server.NodeStatus = library.NodeAlive
		if l.status != "" {
			s.Server.NodeStatus = l.status
		}
		s.Server.Ext = l.of
		s.Health.Healthy = !l.unhealthy
		s.Health.StableSince = stable
		if !l.since.IsZero() {
			s.Health.StableSince = l.since
		}
		if s.State == library.RaftLeader {
			seen.Leader = s.Server.ID
		}
		seen.Servers[s.Server.ID] = s
	}
	for _, id := range sortedIDs(seen) {
		if seen.Servers[id].HasVotingRights() {
			seen.Voters = append(seen.Voters, id)
		}
	}
	return seen
}

const (
	leads = library.RaftLeader
	votes = library.RaftVoter
	waits = library.RaftNonVoter
)

var (
	zoneA    = traits{zone: "a"}
	zoneB    = traits{zone: "b"}
	neverHas = traits{nonVoting: true}
)

var promoterCases = []struct {
	name            string
	servers         map[string]look
	noZones         bool
	promote, demote []raft.ServerID
	leader          raft.ServerID
}{
	{
		name: "a stable server gets a vote, a younger and an unhealthy one do not",
		servers: map[string]look{
			"l":     {state: leads},
			"ready": {state: waits},
			"young": {state: waits, since: young},
			"sick":  {state: waits, unhealthy: true},
		},
		promote: []raft.ServerID{"ready"},
	},
	{
		name: "a voter without a zone keeps its vote while it is dead",
		servers: map[string]look{
			"l":    {state: leads},
			"dead": {state: votes, unhealthy: true, status: library.NodeFailed},
			"v":    {state: votes},
		},
	},
	{
		name: "one server of a zone votes",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"a2": {state: waits, of: zoneA},
			"b1": {state: waits, of: zoneB},
			"b2": {state: waits, of: zoneB},
		},
		promote: []raft.ServerID{"b1"},
	},
	{
		name: "of several voters of a zone the leader stays, or else one",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"a2": {state: votes, of: zoneA},
			"b1": {state: votes, of: zoneB},
			"b2": {state: votes, of: zoneB},
		},
		demote: []raft.ServerID{"a2", "b2"},
	},
	{
		name: "the voter of a zone dies",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"b1": {state: votes, of: zoneB, unhealthy: true, since: now, status: library.NodeFailed},
			"b2": {state: waits, of: zoneB, since: young},
			"b3": {state: waits, of: zoneB},
		},
		promote: []raft.ServerID{"b3"},
		demote:  []raft.ServerID{"b1"},
	},
	{
		name: "the voter of a zone dies, and no other of the zone is stable",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"b1": {state: votes, of: zoneB, unhealthy: true, since: now, status: library.NodeFailed},
			"b2": {state: waits, of: zoneB, since: young},
		},
	},
	{
		name: "the voter of a zone is unhealthy for a short time",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"b1": {state: votes, of: zoneB, unhealthy: true, since: young},
			"b2": {state: waits, of: zoneB},
		},
	},
	{
		name: "the voter of a zone is unhealthy for the stabilisation time",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"b1": {state: votes, of: zoneB, unhealthy: true},
			"b2": {state: waits, of: zoneB},
		},
		promote: []raft.ServerID{"b2"},
		demote:  []raft.ServerID{"b1"},
	},
	{
		name: "zones are turned off",
		servers: map[string]look{
			"l":  {state: leads, of: zoneA},
			"a2": {state: waits, of: zoneA},
		},
		noZones: true,
		promote: []raft.ServerID{"a2"},
	},
	{
		name: "a server that never votes loses a vote that it has",
		servers: map[string]look{
			"l":  {state: leads},
			"n1": {state: waits, of: neverHas},
			"n2": {state: votes, of: neverHas},
		},
		demote: []raft.ServerID{"n2"},
	},
	{
		name: "a server that never votes leads",
		servers: map[string]look{
			"l":    {state: leads, of: neverHas},
			"n":    {state: votes, of: neverHas},
			"sick": {state: votes, unhealthy: true},
			"v":    {state: votes},
		},
		demote: []raft.ServerID{"n"},
		leader: "v",
	},
	{
		name: "a server that never votes leads, and no other voter is healthy",
		servers: map[string]look{
			"l":    {state: leads, of: neverHas},
			"sick": {state: votes, unhealthy: true},
		},
	},
}

func TestPromoter_GivesAndTakesVotes(t *testing.T) {
	for _, c := range promoterCases {
		got := testPromoter().CalculatePromotionsAndDemotions(testRules(!c.noZones), seenOf(c.servers))
		if !slices.Equal(got.Promotions, c.promote) || !slices.Equal(got.Demotions, c.demote) ||
			got.Leader != c.leader {
			t.Errorf("%s: got %+v, want promotions %v, demotions %v, leader %q", c.name, got, c.promote, c.demote,
				c.leader)
		}
	}
}

func TestPromoter_LeavesOtherRemovalsToTheMembersLoop(t *testing.T) {
	servers := func(of ...library.NodeStatus) (all []*library.Server) {
		for _, status := range of {
			all = append(all, &library.Server{ID: raft.ServerID(status), NodeStatus: status})
		}
		return all
	}
	filtered := func(voters ...library.NodeStatus) *library.FailedServers {
		return promoter{}.FilterFailedServerRemovals(nil, nil, &library.FailedServers{
			StaleNonVoters:  []raft.ServerID{"s1"},
			StaleVoters:     []raft.ServerID{"s2"},
			FailedNonVoters: servers("left", "failed", "leaving"),
			FailedVoters:    servers(voters...),
		})
	}
	got := filtered("failed", "leaving")
	if len(got.StaleNonVoters)+len(got.StaleVoters) > 0 {
		t.Errorf("servers that the gossip does not know: %v, %v", got.StaleNonVoters, got.StaleVoters)
	}
	if len(got.FailedNonVoters) != 1 || got.FailedNonVoters[0].ID != "failed" ||
		len(got.FailedVoters) != 1 || got.FailedVoters[0].ID != "failed" {
		t.Errorf("got %+v", got)
	}
	if got := filtered("failed", "left"); len(got.FailedVoters) > 0 || len(got.FailedNonVoters) != 1 {
		t.Errorf("while another voter is about to be removed: got %+v", got)
	}
}
