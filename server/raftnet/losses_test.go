package raftnet

import (
	"testing"

	"github.com/hashicorp/raft"
)

// answer is an answer to entries up to an index, in a term.
func answer(l *losses, term, index uint64, success bool, last uint64) {
	l.note("s1",
		&raft.AppendEntriesRequest{Term: term, PrevLogEntry: index - 1, Entries: []*raft.Log{{Index: index}}},
		&raft.AppendEntriesResponse{Term: term, Success: success, LastLog: last})
}

func TestLosses_FindWhatAServerHadAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(*losses)
		lost    bool
	}{
		"a new server that is behind": {func(l *losses) { answer(l, 1, 9, false, 3) }, false},
		"one that repeats its last entry": {func(l *losses) {
			answer(l, 1, 9, true, 9)
			answer(l, 1, 12, false, 9)
		}, false},
		"one that lacks it": {func(l *losses) {
			answer(l, 1, 9, true, 9)
			answer(l, 1, 12, false, 8)
		}, true},
		"one whose entries another leader may have replaced": {func(l *losses) {
			answer(l, 1, 9, true, 9)
			answer(l, 3, 12, false, 8)
		}, false},
	} {
		l := losses{found: make(chan struct{}, 1)}
		c.answers(&l)
		found := len(l.found) == 1
		if l.lost["s1"] != c.lost || found != c.lost {
			t.Errorf("%s: lost %v, told %v, want %v", name, l.lost["s1"], found, c.lost)
		}
	}
}
