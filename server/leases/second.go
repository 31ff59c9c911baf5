package leases

import (
	"time"

	"berth/internal/boottime"
	"berth/state"
	"berth/structs"
)

// secondFor is how long an agent that was rejected counts as a second agent of its node. It tries again more
// often.
const secondFor = time.Minute

// second is an agent that Admit has rejected.
type second struct {
	structs.SecondAgent
	Nonce string
	at    boottime.Instant
}

// NoteSecond notes an agent that Admit has rejected, for operators.
func (l *Leases) NoteSecond(nodeID string, agent *structs.AgentProof, s structs.SecondAgent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seconds[nodeID] = second{
		SecondAgent: s,
		Nonce:       agent.Nonce,
		at:          l.clock(),
	}
}

// Second returns the agent of a node that was rejected last, nil if there is none.
func (l *Leases) Second(nodeID string) *structs.SecondAgent {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.seconds[nodeID]
	if !ok || l.clock().Sub(s.at) > secondFor {
		return nil
	}
	return &s.SecondAgent
}

// forgetDeleted drops the knowledge about nodes that have no row any more.
func (l *Leases) forgetDeleted(tx state.Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.agents {
		_, runs := l.ends[id]
		if !runs && state.Node(tx, id) == nil {
			delete(l.agents, id)
			delete(l.seconds, id)
		}
	}
}
