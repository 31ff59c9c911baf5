// Package oneserver has the log of a cluster of one server, for the tests of leader loops and procedures. It
// is apart from package kit, because tests of packages below the state use that one.
package oneserver

import (
	"context"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/state"
)

// firstIndex is the index before the first entry of a Log. It is no small number, which a test could mistake
// for a count.
const firstIndex = 100

// Log is the log of one server that leads: it applies each entry to its store at once. It is a fsm.Proposer,
// and safe for concurrent use.
type Log struct {
	Store *state.Store

	mu      sync.Mutex
	fsm     *fsm.FSM
	index   uint64
	entries int
	fault   error
}

// NewLog returns the log of an empty store.
func NewLog() *Log {
	store := state.New()
	return &Log{Store: store, fsm: fsm.New(store), index: firstIndex}
}

// Propose implements fsm.Proposer.
func (l *Log) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault != nil {
		return 0, nil, l.fault
	}
	l.index++
	l.entries++
	answer := l.fsm.Apply(&raft.Log{Index: l.index, Type: raft.LogCommand, Data: entry})
	return l.index, answer, nil
}

// Entries returns the number of entries that were applied.
func (l *Log) Entries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries
}

// Fail makes proposals fail with an error. Nil ends that.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = err
}

// Put proposes a command. A test ends if the command fails.
func Put[P any](t testing.TB, to fsm.Proposer, c fsm.Command[P], payload *P) {
	t.Helper()
	_, err := fsm.Propose(context.Background(), to, c, payload)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
}
