package server

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"
)

// membersInterval is the time after which the leader compares the Raft configuration with the gossip without
// an event.
const membersInterval = 30 * time.Second

// reconcileMembers makes the Raft configuration follow the gossip while this server leads. It adds a live
// server without a vote, and follows the address of a server with one. It removes a server that has left, one
// whose name or address another server has, and one that the gossip has dropped. Package autopilot decides on
// votes, and has failed servers leave.
func (s *Server) reconcileMembers(ctx context.Context) {
	for {
		peers := s.members.peers()
		err := s.dismissMembers(peers)
		if err != nil && ctx.Err() == nil {
			s.logger.Warn("failed to remove a server from the raft configuration", "error", err)
		}

		for _, p := range peers {
			err := s.admitMember(p)
			if err != nil && ctx.Err() == nil {
				s.logger.Warn("failed to add a server to the raft configuration",
					"name", p.name,
					"error", err)
			}
		}

		select {
		case <-s.members.changed:
		case <-s.consensus.transport.LossFound():
		case <-time.After(membersInterval):
		case <-ctx.Done():
			return
		}
	}
}

// admitMember adds a server that is alive, at the address that it has now. It does not change the vote of a
// known one.
func (s *Server) admitMember(p peer) error {
	if p.id == "" || p.status != serf.StatusAlive {
		return nil
	}

	// The place of a server that was just seen may not be noted yet. Its event comes.
	has, moved := s.members.places.Has(p.id, p.rpcAddr)
	if !has {
		return nil
	}

	known := false
	for _, member := range s.consensus.members() {
		if string(member.ID) != p.id {
			continue
		}

		known = true
		elsewhere := string(member.Address) != p.rpcAddr
		if member.Suffrage == raft.Voter && s.consensus.transport.HasLost(member.ID) {
			return s.replaceRestored(p)
		}
		if member.Suffrage == raft.Voter && (p.held || elsewhere && moved) {
			return s.replaceMoved(p)
		}
		if !elsewhere {
			return nil
		}
	}

	if p.id == s.id && !known {
		return nil // a leader does not add itself; its address may have changed, though
	}

	return s.addMember(p)
}

// replaceMoved takes the vote of a server that has come back on another machine, and adds it anew. Its
// address does not just change: then its vote would count on both machines. It happens when nothing was heard
// of the first machine for a while.
func (s *Server) replaceMoved(p peer) error {
	if !s.members.places.Settled(p.id) {
		return nil
	}

	s.logger.Warn("taking the vote of a server that has come back on another machine, and adding it anew",
		"name", p.name,
		"server_id", p.id)
	return s.addAnew(p)
}

// replaceRestored takes the vote of a server that lacks entries which it has acknowledged, and adds it anew.
func (s *Server) replaceRestored(p peer) error {
	s.logger.Error("a server lacks entries that it has acknowledged, its disk was put back to an earlier "+
		"state: taking its vote, and adding it anew",
		"name", p.name,
		"server_id", p.id)
	return s.addAnew(p)
}

func (s *Server) addAnew(p peer) error {
	err := s.consensus.RemoveServer(raft.ServerID(p.id), 0, enqueueTimeout).Error()
	if err != nil {
		return err
	}
	s.consensus.transport.ForgetLost(raft.ServerID(p.id), s.consensus.CurrentTerm())
	return s.addMember(p)
}

func (s *Server) addMember(p peer) error {
	s.logger.Info("adding a server to the raft configuration",
		"name", p.name,
		"server_id", p.id,
		"rpc_addr", p.rpcAddr)
	id := raft.ServerID(p.id)
	addr := raft.ServerAddress(p.rpcAddr)
	return s.consensus.AddNonvoter(id, addr, 0, enqueueTimeout).Error()
}

// dropped is the reason to remove a server that has been dead for a day. Nobody has asked for it.
const dropped = "the gossip has dropped it"

// dismissMembers removes the servers that are gone for good. A dead voter stays while too few would be left.
func (s *Server) dismissMembers(peers []peer) error {
	for _, member := range s.consensus.members() {
		reason := s.removalReason(member, peers)
		if reason == "" || reason == dropped && member.Suffrage == raft.Voter && !s.autopilot.MayLoseVoter() {
			continue
		}

		s.logger.Info("removing a server from the raft configuration",
			"server_id", member.ID,
			"rpc_addr", member.Address,
			"reason", reason)
		err := s.consensus.RemoveServer(member.ID, 0, enqueueTimeout).Error()
		if err != nil {
			return err
		}
	}

	return nil
}

// removalReason returns the reason to remove a member from the Raft configuration, "" if it stays. The
// absence of a server in the gossip is not a reason: this server may have just started.
func (s *Server) removalReason(member raft.Server, peers []peer) string {
	id := string(member.ID)
	if id == s.id {
		return ""
	}

	// After a change of its name a server is in the gossip twice.
	alive := func(p peer) bool { return p.id == id && p.status == serf.StatusAlive }
	if slices.ContainsFunc(peers, alive) {
		return ""
	}

	name, forgotten := s.members.history.NameOf(id)
	reason := ""
	for _, p := range peers {
		switch {
		case p.id == id && p.status == serf.StatusLeft:
			return "it has left"
		case p.id == id && p.status != serf.StatusFailed:
			return ""
		case p.id == id:
			forgotten = false
		case p.status == serf.StatusAlive &&
			p.rpcAddr == string(member.Address):
			reason = "the server " + p.name + " has taken its address"
		case p.status == serf.StatusAlive && p.name == name && name != "":
			reason = "a server with a new data directory has taken its name " + name
		}
	}

	if reason == "" && forgotten {
		return dropped
	}

	return reason
}
