package autopilot

import (
	"context"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/state"
	"berth/structs/cluster"
)

// Each removal of a dead server makes the cluster smaller, and the next loss may be one too many: after one
// of three servers, both of the others are needed. So dead servers are removed by themselves only while
// enough voters stay, counted from the largest number of voters. An operator who makes the cluster smaller on
// purpose removes a server, which lowers that number.

// leastVoters returns the number of voters that stay when dead ones are removed: the majority of the largest
// number, and all of three.
func leastVoters(most int) int { return max(most/2+1, min(most, 3)) }

// LeastVoters returns the number of voters below which no dead server is removed by itself.
func (a *Autopilot) LeastVoters() int {
	most := int(state.AutopilotConfig(a.Store.Read()).MostVoters)
	return leastVoters(max(most, a.voters()))
}

// MayLoseVoter reports whether enough voters stay without one that is dead.
func (a *Autopilot) MayLoseVoter() bool { return a.voters() > a.LeastVoters() }

// voters returns the number of servers that vote.
func (a *Autopilot) voters() (n int) {
	for _, s := range a.Raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == raft.Voter {
			n++
		}
	}
	return n
}

// noteVoters stores the number of voters if it is the largest. The next view of the servers repeats what
// fails.
func (a *Autopilot) noteVoters(ctx context.Context) {
	stored := state.AutopilotConfig(a.Store.Read())
	most := uint64(a.voters())
	if stored.ModifyIndex == 0 || most <= stored.MostVoters {
		return
	}
	a.removals.Go(func() { a.storeVoters(ctx, most) })
}

// LowerVoters stores the number of voters after a removal by an operator.
func (a *Autopilot) LowerVoters(ctx context.Context) {
	stored := state.AutopilotConfig(a.Store.Read())
	most := uint64(a.voters())
	if stored.ModifyIndex > 0 && most < stored.MostVoters {
		a.storeVoters(ctx, most)
	}
}

// storeVoters stores the largest number of voters, unless the configuration changes meanwhile.
func (a *Autopilot) storeVoters(ctx context.Context, most uint64) {
	config := *state.AutopilotConfig(a.Store.Read())
	config.MostVoters = most
	_, err := fsm.Propose(ctx, a.Proposer, fsm.AutopilotConfigSet, &cluster.AutopilotConfigRequest{
		Config: config,
		CAS:    true,
	})
	if err != nil {
		a.Logger.Debug("failed to store the largest number of voters", "voters", most, "error", err)
	}
}
