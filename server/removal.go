package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	// transferTimeout bounds the wait for a successor of a leader that leaves.
	transferTimeout = 10 * time.Second
	// dismissTimeout bounds the wait for the end of the vote of a server that leaves.
	dismissTimeout = 10 * time.Second
	// answerTimeout bounds the wait for a sign of life of another server.
	answerTimeout = 2 * time.Second
	// leavePoll is the time between two checks while a server leaves.
	leavePoll = 100 * time.Millisecond
)

// stillAlive is the rejection of the removal of a live server.
const stillAlive = "server %s is alive: have it leave (berth server leave, at its own address), " +
	"or stop it and wait some seconds until the others take it for failed"

// RemovePeer removes a server from the Raft configuration (core.Raft). It rejects a live server,
// because the leader would add it again: first the server has to stop or to leave by itself. Only the
// leader can remove a server.
func (s *Server) RemovePeer(id, address string) (index uint64, err error) {
	servers := s.Configuration()
	target, err := findServer(servers, id, address)
	if err != nil {
		return 0, err
	}

	another := func(s *cluster.RaftServer) bool {
		return s.Voter && s.ID != target.ID
	}

	switch {
	case target.Voter && !slices.ContainsFunc(servers, another):
		return 0, structs.Preconditionf(
			"server %s has the only vote: without it there is no cluster", describeServer(target))
	case target.ID == s.id,
		target.Status == serf.StatusAlive.String():
		return 0, structs.Preconditionf(stillAlive, describeServer(target))
	}

	if err := s.consensus.enter(); err != nil {
		return 0, err
	}
	defer s.consensus.inside.Done()

	f := s.consensus.RemoveServer(raft.ServerID(target.ID), 0, enqueueTimeout)
	if err := f.Error(); err != nil {
		return 0, raftError(err)
	}

	s.logger.Info("removed a server from the raft configuration",
		"server_id", target.ID,
		"rpc_addr", target.Address,
		"reason", "an operator or the server itself requested it")
	if target.Voter {
		ctx, cancel := context.WithTimeout(context.Background(), enqueueTimeout)
		defer cancel()
		s.autopilot.LowerVoters(ctx)
	}
	return f.Index(), nil
}

// findServer finds a member of the Raft configuration by its ID or, where that is empty, by its address.
func findServer(servers []*cluster.RaftServer, id, address string) (*cluster.RaftServer, error) {
	var found, names []string
	var target *cluster.RaftServer
	for _, server := range servers {
		names = append(names, describeServer(server))
		if id != "" && server.ID == id ||
			id == "" && server.Address == address {
			target = server
			found = append(found, server.ID)
		}
	}

	switch len(found) {
	case 0:
		return nil, structs.NotFoundf("server %q is not in the Raft configuration; expected one of: %s",
			id+address, strings.Join(names, ", "))
	case 1:
		return target, nil
	}

	return nil, structs.Invalidf("the address %s is that of several servers (%s); name the server by its ID",
		address, strings.Join(found, ", "))
}

// describeServer names a server for users.
func describeServer(s *cluster.RaftServer) string {
	return fmt.Sprintf("%s (%s, %s)", cmp.Or(s.Node, "(unknown)"), s.ID, s.Address)
}

// Leave takes this server out of the cluster: it transfers its leadership, leaves the gossip, and makes the
// leader remove it from the Raft configuration. End Run after a success or a timeout; with timeout the server
// has left but may still have its vote. After any other error the server is still a member.
//
// The last server stays. Without force a server also stays if the cluster would lose its majority with it.
// A server that is stopped without Leave is expected back. It keeps its vote until autopilot removes it.
func (s *Server) Leave(ctx context.Context, force bool) error {
	servers, err := s.mayLeave(ctx, force)
	if err != nil {
		return err
	}

	s.logger.Info("leaving the cluster")
	err = s.transferLeadership(ctx)
	if err != nil && !force {
		return err
	}

	if err := s.members.serf.Leave(); err != nil {
		return structs.Internalf("server %s: leaving the gossip: %w", s.cfg.Name, err)
	}

	if err := s.endVote(ctx, servers); err != nil {
		return err
	}

	s.logger.Info("left the cluster")
	return nil
}

// mayLeave returns the members of the Raft configuration, or a precondition that keeps this server in it.
func (s *Server) mayLeave(ctx context.Context, force bool) ([]*cluster.RaftServer, error) {
	var servers []*cluster.RaftServer
	resp, err := rpc.Call(ctx, s, cluster.OperatorRaft, &structs.QueryRequest{})
	switch {
	case err == nil:
		servers = resp.Servers
	case force: // without a leader this server goes by its own state
		servers = s.Configuration()
	default:
		return nil, fmt.Errorf("server %s stays: %w", s.cfg.Name, err)
	}

	others := 0
	alive := 0
	votes := false
	for _, server := range servers {
		switch {
		case server.ID == s.id:
			votes = server.Voter
		case server.Voter:
			others++
			if s.isAlive(ctx, server) {
				alive++
			}
		}
	}

	switch {
	case others == 0:
		return nil, structs.Preconditionf(
			"server %s has the only vote, so there is no cluster to leave; "+
				"stop the agent instead: it keeps its data", s.cfg.Name)
	case votes && alive <= others/2 && !force:
		return nil, structs.Preconditionf(
			"server %s is needed: without it %d of %d servers would be alive, which is no majority, "+
				"and the cluster would stop answering; first remove the servers that are dead "+
				"(berth operator raft remove-peer) or add others; -force leaves all the same",
			s.cfg.Name, alive, others)
	}

	return servers, nil
}

// isAlive reports whether another server is alive. The gossip needs some seconds to notice that one is not,
// so isAlive also calls the server.
func (s *Server) isAlive(ctx context.Context, other *cluster.RaftServer) bool {
	if other.Status != serf.StatusAlive.String() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := rpc.Call(ctx, s.pool.At(other.Address),
		cluster.StatusPing, &structs.QueryRequest{})
	return err == nil
}

// endVote waits until this server, which has left the gossip, is no member of the Raft configuration. It
// calls the other servers, because a removed server does not learn of its removal. Until then it may be
// elected again, and only another leader can remove it.
func (s *Server) endVote(ctx context.Context, servers []*cluster.RaftServer) error {
	ctx, cancel := context.WithTimeout(ctx, dismissTimeout)
	defer cancel()
	req := &cluster.RaftRemovePeerRequest{ID: s.id}
	for {
		err := cmp.Or(s.transferLeadership(ctx), structs.Unavailablef("no other server is alive"))
		for _, other := range servers {
			alive := other.Status == serf.StatusAlive.String()
			if other.ID == s.id || !alive {
				continue
			}

			_, err = rpc.Call(ctx, s.pool.At(other.Address),
				cluster.OperatorRemove, req)
			if err == nil ||
				structs.IsKind(err, structs.KindNotFound) {
				return nil
			}
		}

		if !backoff.Sleep(ctx, leavePoll) {
			return structs.Timeoutf(
				"server %s has left the gossip but may still have its vote, "+
					"which the next leader takes away: %w", s.cfg.Name, err)
		}
	}
}

// TransferLeadership makes another server lead (core.Raft). The error is a precondition if that server
// is not alive or has no vote.
func (s *Server) TransferLeadership(ctx context.Context, id, address string) error {
	target, err := findServer(s.Configuration(), id, address)
	switch {
	case err != nil:
		return err
	case target.ID == s.id:
		return nil
	case !target.Voter:
		return structs.Preconditionf("server %s has no vote yet, so it cannot lead", describeServer(target))
	case !s.isAlive(ctx, target):
		return structs.Preconditionf("server %s is not alive, so it cannot lead", describeServer(target))
	}

	if err := s.consensus.enter(); err != nil {
		return err
	}
	defer s.consensus.inside.Done()

	f := s.consensus.LeadershipTransferToServer(raft.ServerID(target.ID), raft.ServerAddress(target.Address))
	if err := f.Error(); err != nil {
		return structs.Unavailablef("server %s does not lead: %w", describeServer(target), err)
	}

	return s.awaitOther(ctx, "server "+describeServer(target)+" is to lead")
}

// transferLeadership makes another server lead, if this one does, and waits until one is known. Raft gives a
// successor one election timeout. A busy one may need longer, so the transfer is repeated.
func (s *Server) transferLeadership(ctx context.Context) error {
	if s.consensus.State() != raft.Leader || s.consensus.alone() {
		return nil
	}

	limited, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	for {
		err := s.consensus.LeadershipTransfer().Error()
		if err == nil || s.consensus.State() != raft.Leader {
			return s.awaitOther(ctx, "server "+s.cfg.Name+" does not leave")
		}

		if !backoff.Sleep(limited, leavePoll) {
			return structs.Unavailablef(
				"server %s does not leave: no other server took over leadership: %w", s.cfg.Name, err)
		}
	}
}

// awaitOther waits until another server leads. action begins the error.
func (s *Server) awaitOther(ctx context.Context, action string) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	for {
		_, isMe, known, _ := s.Leader()
		if known && !isMe {
			return nil
		}
		if !backoff.Sleep(ctx, leavePoll) {
			return structs.Unavailablef("%s: no other server has been elected yet: %w", action, ctx.Err())
		}
	}
}

// ForceLeave makes a failed server count as one that has left: it loses its vote, and the gossip drops it
// after a day, with prune at once.
func (s *Server) ForceLeave(ctx context.Context, node string, prune bool) error {
	member, err := s.findMember(node)
	if err != nil {
		return err
	}

	if member.Status == serf.StatusAlive ||
		member.Status == serf.StatusLeaving {
		return structs.Preconditionf(stillAlive, member.Name)
	}

	if member.Tags[tagRole] == roleServer &&
		member.Tags[tagRegion] == s.cfg.Region {
		req := &cluster.RaftRemovePeerRequest{ID: member.Tags[tagID]}
		_, err := rpc.Call(ctx, s, cluster.OperatorRemove, req)
		if err != nil &&
			!structs.IsKind(err, structs.KindNotFound) {
			return fmt.Errorf("server %s keeps its vote: %w", member.Name, err)
		}
	}

	forget := s.members.serf.RemoveFailedNode
	if prune {
		forget = s.members.serf.RemoveFailedNodePrune
	}

	if err := forget(member.Name); err != nil {
		return structs.Timeoutf("server %s has no vote any more; removing it from gossip: %w",
			member.Name, err)
	}

	return nil
}

// findMember finds a server in the gossip by its name, with or without the region.
func (s *Server) findMember(name string) (serf.Member, error) {
	var names []string
	for _, m := range s.members.serf.Members() {
		if m.Name == name || m.Name == name+"."+s.cfg.Region {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return serf.Member{}, structs.NotFoundf("server %q is unknown; expected one of: %s",
		name, strings.Join(names, ", "))
}
