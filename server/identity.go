package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"

	"berth/fsm"
	"berth/internal/agentproof"
	"berth/internal/backoff"
	"berth/rpc"
	"berth/server/raftfiles"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/cluster"
)

// hold keeps Raft from elections before it starts, if the server may be a copy of another one.
func (c *consensus) hold(dataDir string) error {
	kept, err := raftfiles.Machine(dataDir)
	if err == nil && kept != "" && !kept.Same(c.machine) {
		c.held.Store(true)
		c.transport.Hold()
	}
	return err
}

// judgeStart ends the hold of a server that may vote after all, and records the machine of one that may: see
// agentproof.MayVote. Raft has started, and knows the members.
func (c *consensus) judgeStart(dataDir string, logger hclog.Logger) error {
	kept, err := raftfiles.Machine(dataDir)
	if err != nil {
		return err
	}

	start := agentproof.Start{
		Kept:  kept,
		Now:   c.machine,
		Voter: c.isVoter(),
		Only:  isOnlyVoter(c.members(), c.id),
	}
	if kept.HasUUID() && kept.Same(c.machine) && !c.machine.HasUUID() {
		logger.Warn("this server cannot read the UUID of its machine any more, which it has recorded: " +
			"a copy of its disk in a machine with the same /etc/machine-id would pass for it. " +
			"Run the agent by the unit berth-server.service of the package, or as root")
	}
	if agentproof.MayVote(start) {
		c.release(dataDir, logger)
		return nil
	}

	logger.Warn("the data directory of this server is from another machine: it does not vote until a leader " +
		"that was elected without it has added it anew. If the server still runs there, stop one of the two. " +
		"If a majority of the servers was moved at the same time, write peers.json (see peers.info)")
	return nil
}

// isVoter reports whether this server has a vote, as far as it knows.
func (c *consensus) isVoter() bool {
	for _, s := range c.members() {
		if s.ID == c.id {
			return s.Suffrage == raft.Voter
		}
	}
	return false
}

// release records the machine of a server that may vote, and ends its hold. Without the record, for example
// on a full disk, the next start on this machine is like this one.
func (c *consensus) release(dataDir string, logger hclog.Logger) {
	if c.machine != "" {
		err := raftfiles.KeepMachine(dataDir, c.machine)
		if err != nil {
			logger.Warn("failed to record the machine of this server", "error", err)
		}
	}
	c.held.Store(false)
	c.transport.Release()
}

// releasePoll is the time between two looks of a server that must not vote.
const releasePoll = 500 * time.Millisecond

// awaitRelease waits until a leader has taken the vote of a server that must not vote, and has added it anew.
// The next vote is one that this leader gives to this machine.
func (s *Server) awaitRelease(ctx context.Context) {
	for s.consensus.held.Load() {
		if !backoff.Sleep(ctx, releasePoll) {
			return
		}
		if s.consensus.isVoter() {
			continue
		}

		s.consensus.release(s.cfg.DataDir, s.logger)
		s.members.setTag(tagHeld, "")
		s.logger.Info("a leader has added this server anew, it may get a vote")
	}
}

// announceInterval is the time between two announcements of a server in its first announceOften attempts.
// After them it is retry_interval.
const (
	announceInterval = time.Second
	announceOften    = 30
)

// announce joins the known servers again and again until a leader has reached this server. After a restart at
// another address the others keep the former one until they take it for failed, and drop what they hear of
// the new one until then.
func (s *Server) announce(ctx context.Context) {
	for attempt := 0; !s.inTouch(); attempt++ {
		wait := announceInterval
		if attempt >= announceOften {
			wait = max(wait, s.cfg.RetryInterval)
		}
		if !backoff.Sleep(ctx, wait) {
			return
		}

		_, err := s.members.joinEach(ctx, s.members.others())
		if err != nil {
			s.logger.Debug("failed to announce this server", "error", err)
		}
	}
}

// inTouch reports whether this server leads, or a leader has reached it since its start.
func (s *Server) inTouch() bool {
	return s.consensus.State() == raft.Leader || !s.consensus.LastContact().IsZero()
}

// others returns the gossip addresses of the other servers that are alive.
func (m *membership) others() (addrs []string) {
	own := m.serf.LocalMember().Name
	for _, other := range m.serf.Members() {
		if other.Name != own && other.Status == serf.StatusAlive {
			addrs = append(addrs, net.JoinHostPort(other.Addr.String(), strconv.Itoa(int(other.Port))))
		}
	}
	return addrs
}

// leaveDead declares a failed server as one that has left, for autopilot. A server that answers stays: it has
// another address, which the gossip does not have yet, or only its gossip is cut off.
func (s *Server) leaveDead(name string) error {
	m, err := s.findMember(name)
	if err != nil {
		return err
	}

	for _, addr := range []string{m.Tags[tagRPCAddr], s.members.places.Pending(serverID(m))} {
		if addr == "" {
			continue
		}
		err := s.ping(addr)
		if err == nil {
			return structs.Preconditionf("server %s has failed in the gossip, but answers at %s", name, addr)
		}
	}
	return s.members.serf.RemoveFailedNode(name)
}

// ping asks a server for a sign of life.
func (s *Server) ping(addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_, err := rpc.Call(ctx, s.pool.At(addr), cluster.StatusPing, &structs.QueryRequest{})
	if err != nil {
		return fmt.Errorf("server at %s: %w", addr, err)
	}
	return nil
}

// indexes tells Raft's transport which entries servers have stored.
type indexes struct {
	s *Server
	// logged is the newest list of the log, and loggedAt its entry. After a start the state comes from the last
	// snapshot until there is a leader.
	logged   []cluster.StoredIndex
	loggedAt uint64
}

// readLog finds the newest list in the log of a server that starts. Its entry may be one that no majority has
// stored. Then it can take the vote from a server without need, until the others have elected a leader.
func (x *indexes) readLog(log raft.LogStore) error {
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	for at := last; at >= first && at > 0; at-- {
		entry := new(raft.Log)
		err := log.GetLog(at, entry)
		if err != nil {
			return err
		}
		if entry.Type != raft.LogCommand {
			continue
		}
		row := fsm.ClusterTimeOf(entry.Data)
		if row != nil {
			x.logged = row.Stored
			x.loggedAt = at
			return nil
		}
	}
	return nil
}

func (x *indexes) Acknowledged(id raft.ServerID) uint64 {
	all := x.logged
	row := clustertime.Of(x.s.store.Read())
	if row != nil && row.ModifyIndex >= x.loggedAt {
		all = row.Stored
	}
	for _, stored := range all {
		if stored.Server == string(id) {
			return stored.Index
		}
	}
	return 0
}

// voteTimeout bounds the question to a server that has just given its vote.
const voteTimeout = time.Second

func (x *indexes) Last(target raft.ServerAddress) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), voteTimeout)
	defer cancel()
	stats, err := rpc.Call(ctx, x.s.pool.At(string(target)), cluster.StatusRaftStats, &structs.QueryRequest{})
	if err != nil {
		return 0, err
	}
	return stats.LastIndex, nil
}

// stored returns what the members are known to have stored while this server leads.
func (s *Server) stored() (all []cluster.StoredIndex) {
	term := s.consensus.CurrentTerm()
	for _, member := range s.consensus.members() {
		index := s.consensus.transport.Acknowledged(member.ID, term)
		if string(member.ID) == s.id {
			index = s.consensus.LastIndex()
		}
		if index != 0 {
			all = append(all, cluster.StoredIndex{Server: string(member.ID), Index: index})
		}
	}
	slices.SortFunc(all, func(a, b cluster.StoredIndex) int { return strings.Compare(a.Server, b.Server) })
	return all
}
