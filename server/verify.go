package server

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"berth/structs"
)

// verify confirms with a quorum that this server still leads.
func (c *consensus) verify() error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.inside.Done()
	var question struct{}
	_, err := c.verifier.Do(context.Background(), question, question)
	if err != nil {
		return structs.NotServedf("this server may have lost leadership: %w", err)
	}
	return nil
}

// confirm asks the other servers whether they follow this one. It returns nil when a quorum has answered
// requests of this term that were sent after the call. No other server had been elected before the call then.
//
// Raft's check sends the requests, but it also counts answers to earlier ones (see package raftnet). So it is
// repeated until the answers are new ones. Each time it waits for an answer or the end of the leadership.
func (c *consensus) confirm() error {
	begun := time.Now()
	term := c.CurrentTerm()
	for {
		if err := c.VerifyLeader().Error(); err != nil {
			return err
		}
		if c.CurrentTerm() != term {
			return raft.ErrLeadershipLost
		}
		if c.followedAfter(term, begun) {
			return nil
		}
	}
}

// followedAfter reports whether a quorum has answered requests of a term that were sent after an instant.
func (c *consensus) followedAfter(term uint64, instant time.Time) bool {
	voters := 0
	following := 0
	for _, s := range c.members() {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if s.ID == c.id || c.transport.FollowedAfter(s.ID, term, instant) {
			following++
		}
	}
	return following > voters/2
}

// alone reports whether this server leads and is the only voter. No other server can have been elected
// then. Like Raft it counts by the newest configuration, committed or not.
func (c *consensus) alone() bool {
	if c.State() != raft.Leader {
		return false
	}

	me := false
	for _, s := range c.members() {
		if s.Suffrage != raft.Voter {
			continue
		}

		if s.ID != c.id {
			return false
		}

		me = true
	}

	return me
}
