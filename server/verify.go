package server

import (
	"context"

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
