// Package oneserver has the log of a cluster of one server, for the tests of leader loops and procedures. It
// is apart from package kit, because tests of packages below the state use that one.
package oneserver

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// firstIndex is the index before the first entry of a Log. It is no small number, which a test could mistake
// for a count.
const firstIndex = 100

// Log is the log of one server that leads: it applies each entry to its store at once. It is a fsm.Proposer,
// and safe for concurrent use. A test that does more with an entry embeds it and has a Propose of its own.
type Log struct {
	Store *state.Store

	mu      sync.Mutex
	fsm     *fsm.FSM
	index   uint64
	entries [][]byte
	faults  map[*fsm.CommandInfo]error // nil is the key of all commands
}

// NewLog returns the log of an empty store.
func NewLog() *Log { return LogOf(state.New()) }

// LogOf returns the log of a store with rows.
func LogOf(store *state.Store) *Log {
	faults := map[*fsm.CommandInfo]error{}
	return &Log{Store: store, fsm: fsm.New(store), index: firstIndex, faults: faults}
}

// Propose implements fsm.Proposer.
func (l *Log) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	if ctx.Err() != nil {
		return 0, nil, structs.Unavailablef("%w", ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := cmp.Or(l.faults[nil], l.faults[fsm.CommandOf(entry)])
	if err != nil {
		return 0, nil, err
	}
	index := l.next()
	l.entries = append(l.entries, entry)
	return index, l.fsm.Apply(&raft.Log{Index: index, Type: raft.LogCommand, Data: entry}), nil
}

// next returns the index of the next entry. The store may have a later one from a snapshot.
func (l *Log) next() uint64 {
	l.index = max(l.index, l.Store.Index()) + 1
	return l.index
}

// Write changes rows at the index of the next entry, for what no command does.
func (l *Log) Write(t testing.TB, change func(tx *state.WriteTx) error) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.Store.Write(l.next(), change)
	if err != nil {
		t.Fatal(err)
	}
}

// Index returns the index of the last entry.
func (l *Log) Index() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

// Len returns the number of proposals that were applied.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Entries returns the proposals that were applied, in their order.
func (l *Log) Entries() [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Text returns the entries as one text, for a search for what the log must not have.
func (l *Log) Text() string { return string(bytes.Join(l.Entries(), nil)) }

// Observe tells an observer of each entry from now on.
func (l *Log) Observe(o fsm.Observer) { l.fsm.Observe(o) }

// MarkRestored makes the state one that was restored from a snapshot at a time.
func (l *Log) MarkRestored(t testing.TB, now int64) {
	t.Helper()
	l.Write(t, func(tx *state.WriteTx) error {
		state.Recover(tx, state.New().Read(), now)
		return nil
	})
}

// Fail makes the proposals of some commands fail with an error, or all proposals if none is named. Nil ends
// that.
func (l *Log) Fail(err error, commands ...*fsm.CommandInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(commands) == 0 {
		l.faults[nil] = err
	}
	for _, c := range commands {
		l.faults[c] = err
	}
}

// Put proposes a command. A test ends if the command fails.
func Put[P any](t testing.TB, to fsm.Proposer, c fsm.Command[P], payload *P) {
	t.Helper()
	_, err := fsm.Propose(context.Background(), to, c, payload)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
}
