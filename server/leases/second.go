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
	l.known(nodeID).second = &second{
		SecondAgent: s,
		Nonce:       agent.Nonce,
		at:          l.clock(),
	}
}

// Second returns the agent of a node that was rejected last, nil if there is none.
func (l *Leases) Second(nodeID string) *structs.SecondAgent {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[nodeID]
	if n == nil || n.second == nil || l.clock().Sub(n.second.at) > secondFor {
		return nil
	}
	is := n.second.SecondAgent // its caller may keep it
	return &is
}

// forgetDeleted drops the knowledge about nodes that have no row any more.
func (l *Leases) forgetDeleted(tx state.Reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.nodes {
		switch {
		case n.runs() || state.Node(tx, id) != nil:
		case n.ending:
			n.agent = nil
			n.second = nil
		default:
			delete(l.nodes, id)
		}
	}
}
