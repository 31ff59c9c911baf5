package server

import (
	"context"

	"berth/rpc"
	"berth/server/autopilot"
	"berth/structs"
	"berth/structs/cluster"
)

// autopilotDeps gives autopilot its view of this server. The gossip starts after it.
func autopilotDeps(s *Server) autopilot.Deps {
	used := raftConfig(&s.cfg, s.consensus.id, s.logger).HeartbeatTimeout
	return autopilot.Deps{
		ID:       s.id,
		Raft:     s.consensus.Raft,
		Members:  func() []autopilot.Member { return autopilotMembers(s.members.peers()) },
		Store:    s.store,
		Proposer: s,
		Ask: func(ctx context.Context, address string) (*cluster.RaftStats, error) {
			return rpc.Call(ctx, s.pool.At(address), cluster.StatusRaftStats, &structs.QueryRequest{})
		},
		ForceLeave: s.leaveDead,
		First:      s.cfg.Autopilot.Row(),
		Settings:   s.alike,
		Logger:     s.logger,
		Slowness:   float64(used) / float64(raftTimeout),
		Interval:   s.cfg.AutopilotInterval,
	}
}

// autopilotMembers translates the servers of the gossip.
func autopilotMembers(peers []peer) (members []autopilot.Member) {
	for _, p := range peers {
		members = append(members, autopilot.Member{
			ID:        p.id,
			Name:      p.name,
			Address:   p.rpcAddr,
			Status:    p.status.String(),
			Version:   p.version,
			Zone:      p.zone,
			NonVoting: p.nonVoting || p.held,
		})
	}
	return members
}
