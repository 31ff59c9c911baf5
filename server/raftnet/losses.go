package raftnet

import (
	"sync"

	"github.com/hashicorp/raft"

	"berth/internal/agentproof"
)

// losses notes the servers that lack entries which they have acknowledged to this leader: their disk was put
// back to an earlier state. Such a server must not vote: a leader could be elected with its vote that lacks
// entries which a majority had stored.
type losses struct {
	indexes Indexes
	mu      sync.Mutex
	acked   map[raft.ServerID]acked
	lost    map[raft.ServerID]bool
	found   chan struct{} // has a value after a new finding
}

// Indexes tells which entries servers have stored.
type Indexes interface {
	// Acknowledged returns the last entry that a server has acknowledged by the state of this one; 0: it is not
	// known. Each later state of that server's log has this entry.
	Acknowledged(id raft.ServerID) uint64
	// Last asks the server at an address for its last entry.
	Last(target raft.ServerAddress) (uint64, error)
}

func newLosses(indexes Indexes) losses {
	return losses{
		indexes: indexes,
		acked:   map[raft.ServerID]acked{},
		lost:    map[raft.ServerID]bool{},
		found:   make(chan struct{}, 1),
	}
}

// acked is the last entry that a follower has acknowledged in a term.
type acked struct{ term, index uint64 }

// note compares an answer with the former ones. Only those in one term count: another leader may have
// replaced entries since. Of the time before, what the state knows counts.
func (l *losses) note(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.acked[id]
	if req.Term > last.term {
		last = acked{req.Term, l.indexes.Acknowledged(id)}
		l.acked[id] = last
	}
	if !resp.Success {
		if resp.Term == req.Term && last.term == req.Term && !l.lost[id] &&
			agentproof.LacksEntries(resp.LastLog, last.index) {
			l.lost[id] = true
			select {
			case l.found <- struct{}{}:
			default:
			}
		}
		return
	}

	index := req.PrevLogEntry + uint64(len(req.Entries))
	if req.Term == last.term && index > last.index {
		l.acked[id] = acked{req.Term, index}
	}
}

func (l *losses) forget(id raft.ServerID, term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.lost, id)
	l.acked[id] = acked{term: term}
}

// LossFound has a value after HasLost has become true for a server.
func (t *Transport) LossFound() <-chan struct{} { return t.losses.found }

// HasLost reports whether a server lacks entries that it has acknowledged.
func (t *Transport) HasLost(id raft.ServerID) bool {
	t.losses.mu.Lock()
	defer t.losses.mu.Unlock()
	return t.losses.lost[id]
}

// ForgetLost says that a server that has lost entries is a new one from now on, in the term of this leader.
func (t *Transport) ForgetLost(id raft.ServerID, term uint64) {
	t.losses.forget(id, term)
}

// Acknowledged returns the last entry that a server has acknowledged to this leader in its term, or before by
// the state; 0: it is not known.
func (t *Transport) Acknowledged(id raft.ServerID, term uint64) uint64 {
	t.losses.mu.Lock()
	defer t.losses.mu.Unlock()
	last := t.losses.acked[id]
	if last.term == term {
		return last.index
	}
	return t.losses.indexes.Acknowledged(id)
}
