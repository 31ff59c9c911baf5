package raftnet

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts notes for each server when this server sent the newest request that the other has answered as its
// follower.
//
// Raft's own check of the leadership takes each answer that arrives after the check began, also one to a
// request that was sent before. A leader that was frozen finds such answers in its connections, although
// another server was elected meanwhile. It also takes answers of servers that have no vote.
type contacts struct {
	mu     sync.Mutex
	newest map[raft.ServerID]contact
}

// contact is a request that a follower has answered with success.
type contact struct {
	term uint64 // of the request
	sent time.Time
}

// note records that a server has answered a request with success.
func (c *contacts) note(id raft.ServerID, term uint64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest == nil {
		c.newest = map[raft.ServerID]contact{}
	}
	last := c.newest[id]
	if term > last.term || term == last.term && sent.After(last.sent) {
		c.newest[id] = contact{term, sent}
	}
}

// after reports whether a server has answered a request of a term that was sent after an instant.
func (c *contacts) after(id raft.ServerID, term uint64, instant time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.newest[id]
	return last.term == term && last.sent.After(instant)
}
