package raftnet

import (
	"sync"

	"github.com/hashicorp/raft"
)

// losses notes the servers that lack entries which they have acknowledged to this leader: their disk was put
// back to an earlier state. Such a server must not vote: a leader could be elected with its vote that lacks
// entries which a majority had stored.
type losses struct {
	mu    sync.Mutex
	acked map[raft.ServerID]acked
	lost  map[raft.ServerID]bool
	found chan struct{} // has a value after a new finding
}

// acked is the last entry that a follower has acknowledged in a term.
type acked struct{ term, index uint64 }

// note compares an answer with the former ones. Only those in one term count: another leader may have
// replaced entries since.
func (l *losses) note(id raft.ServerID, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked == nil {
		l.acked = map[raft.ServerID]acked{}
		l.lost = map[raft.ServerID]bool{}
	}

	last := l.acked[id]
	if !resp.Success {
		if resp.Term == req.Term && last.term == req.Term && resp.LastLog < last.index && !l.lost[id] {
			l.lost[id] = true
			select {
			case l.found <- struct{}{}:
			default:
			}
		}
		return
	}

	index := req.PrevLogEntry + uint64(len(req.Entries))
	if req.Term > last.term || req.Term == last.term && index > last.index {
		l.acked[id] = acked{req.Term, index}
	}
}

// LossFound has a value after HasLost has become true for a server.
func (t *Transport) LossFound() <-chan struct{} { return t.losses.found }

// HasLost reports whether a server lacks entries that it has acknowledged.
func (t *Transport) HasLost(id raft.ServerID) bool {
	t.losses.mu.Lock()
	defer t.losses.mu.Unlock()
	return t.losses.lost[id]
}

// ForgetLost says that a server that has lost entries is a new one from now on.
func (t *Transport) ForgetLost(id raft.ServerID) {
	t.losses.mu.Lock()
	defer t.losses.mu.Unlock()
	delete(t.losses.lost, id)
	delete(t.losses.acked, id)
}
