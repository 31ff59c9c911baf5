package raftnet

import (
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
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
		known   uint64 // by the state
	}{
		"a new server that is behind": {func(l *losses) { answer(l, 1, 9, false, 3) }, false, 0},
		"one that repeats its last entry": {func(l *losses) {
			answer(l, 1, 9, true, 9)
			answer(l, 1, 12, false, 9)
		}, false, 0},
		"one that lacks it": {func(l *losses) {
			answer(l, 1, 9, true, 9)
			answer(l, 1, 12, false, 8)
		}, true, 0},
		"one whose entries another leader may have replaced": {func(l *losses) {
			answer(l, 1, 9, true, 9)
			answer(l, 3, 12, false, 8)
		}, false, 0},
		"one that lacks what another leader has written down": {func(l *losses) { answer(l, 3, 12, false, 6) }, true, 7},
		"one that has it": {func(l *losses) { answer(l, 3, 12, false, 7) }, false, 7},
		"one that was added anew": {func(l *losses) {
			answer(l, 3, 12, true, 12)
			l.forget("s1", 3)
			answer(l, 3, 12, false, 0)
		}, false, 7},
	} {
		l := newLosses(known{acknowledged: c.known})
		c.answers(&l)
		found := len(l.found) == 1
		if l.lost["s1"] != c.lost || found != c.lost {
			t.Errorf("%s: lost %v, told %v, want %v", name, l.lost["s1"], found, c.lost)
		}
	}
}

// known is what a candidate knows of another server.
type known struct {
	acknowledged, last uint64
	err                error
}

func (k known) Acknowledged(raft.ServerID) uint64       { return k.acknowledged }
func (k known) Last(raft.ServerAddress) (uint64, error) { return k.last, k.err }

func TestVotes_CountThoseOfWholeLogs(t *testing.T) {
	for name, c := range map[string]struct {
		known
		counts bool
	}{
		"nothing is known": {known{err: io.EOF}, true},
		"it has all":       {known{acknowledged: 9, last: 9}, true},
		"it lacks some":    {known{acknowledged: 9, last: 8}, false},
		"it does not tell": {known{acknowledged: 9, err: io.EOF}, false},
	} {
		v := votes{indexes: c.known, logger: hclog.NewNullLogger(), told: map[raft.ServerID]uint64{}}
		if got := v.count("s1", "127.0.0.1:1"); got != c.counts {
			t.Errorf("%s: the vote counts: %v, want %v", name, got, c.counts)
		}
	}
}
