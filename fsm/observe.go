package fsm

import (
	"slices"

	"github.com/hashicorp/raft"

	"berth/internal/mvcc"
	"berth/state"
)

// Observer learns which rows the log entries of a server change. All servers apply the same entries, so their
// observers learn the same. The FSM calls it on the way of each write, so it must not wait.
type Observer interface {
	// Observes reports whether changes of the rows of a table are to be kept for Publish. The answer is always
	// the same.
	Observes(table string) bool
	// Publish has the entries that readers see from now on, in their order. newest is the index of the last
	// one, with or without changes. It owns the entries.
	Publish(newest uint64, entries []Entry)
	// Restored says that a snapshot, whose newest entry has an index, has replaced the state.
	Restored(index uint64)
}

// Entry has the changes of one log entry.
type Entry struct {
	Index   uint64
	Bytes   int // of the entry in the log
	Changes []Change
}

// Change is the change of one row by a command.
type Change struct {
	Command string
	mvcc.Edit
}

// Observe makes an observer learn of all entries, and returns the FSM. It must be called before the first
// entry.
func (f *FSM) Observe(o Observer) *FSM {
	f.observer = o
	return f
}

// applying applies the entries of one transaction and keeps their changes for the observer.
type applying struct {
	*state.Batch
	observer Observer // nil: none
	entries  []Entry
	newest   uint64 // index of the last entry
}

// keep keeps the changes of the command that was applied last, for the entry that is added last.
func (a *applying) keep(command string) {
	if a.observer == nil {
		return
	}
	entry := &a.entries[len(a.entries)-1]
	for _, e := range a.Edits() {
		if !a.observer.Observes(e.Table) {
			continue
		}
		if e.Now == nil {
			entry.dropPut(&e)
		}
		entry.Changes = append(entry.Changes, Change{command, e})
	}
}

// dropPut drops the change that has stored a row which the same entry deletes: nobody reads that row.
func (entry *Entry) dropPut(deleted *mvcc.Edit) {
	at := slices.IndexFunc(entry.Changes, func(c Change) bool {
		return c.Table == deleted.Table && c.Now != nil && c.Now == deleted.Before
	})
	if at >= 0 && entry.Changes[at].Before != nil {
		deleted.Before = entry.Changes[at].Before
		entry.Changes = slices.Delete(entry.Changes, at, at+1)
	}
}

// begin adds an entry.
func (a *applying) begin(log *raft.Log) {
	if a.observer == nil {
		return
	}
	a.entries = append(a.entries, Entry{Index: log.Index, Bytes: len(log.Data)})
}

// publish tells the observer of the entries with changes, and of the newest one. Readers see them already.
func (a *applying) publish() {
	if a.observer == nil {
		return
	}
	changed := a.entries[:0]
	for _, e := range a.entries {
		if len(e.Changes) > 0 {
			changed = append(changed, e)
		}
	}
	a.observer.Publish(a.newest, changed)
}
