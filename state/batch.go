package state

import (
	"slices"
	"strconv"

	"github.com/hashicorp/go-memdb"

	"berth/structs"
)

// Batch applies many log entries in one transaction: readers see all of them or none. It holds the
// store's writer until Commit.
type Batch struct {
	store   *Store
	next    *view
	base    *memdb.Txn // what is written into the tree so far, as is
	rows    rows
	pending pending
	most    int // as mostPending

	index uint64 // of the entry that was applied last
	part  int    // which of the entries of this index it was, from 0
	seq   int    // claims that have been asked for at this index

	changed []key  // of what is written into the tree
	written int    // how often it was
	undo    []undo // of the entry that is applied
	done    bool
}

// undo is what takes one change back.
type undo struct {
	key      key
	cell          // as it was
	was      bool // pending
	writings int  // as Batch.written was then
}

// mostSpare is how much room for changes a batch leaves to the next.
const mostSpare = 4 * mostPending

// spare is what one batch leaves to the next.
type spare struct {
	slots   [mostTables]slots
	memo    memo
	entries []entry
	undo    []undo
}

// Batch begins a batch. There is one at a time; a second waits.
func (s *Store) Batch() *Batch {
	s.writer.Lock()
	next := *s.now.Load()
	b := &Batch{store: s, next: &next, base: next.db.Txn(false), rows: next.rows, most: mostPending}
	b.pending.entries, b.undo = s.spare.entries, s.spare.undo
	next.db = next.db.Snapshot()
	return b
}

// Write is a transaction that changes rows, for the log entry at Index.
type Write struct {
	*Read
	Index   uint64
	batch   *Batch
	touched uint64 // tables changed, by number
}

// Apply runs one entry. If fn fails, the entry has changed nothing, the error is returned and the batch
// goes on. Entries that follow each other may have the same index.
func (b *Batch) Apply(index uint64, fn func(*Write) error) error {
	one := &struct {
		Write
		read Read
	}{Write{Index: index, batch: b}, Read{view: b.store.now.Load(), txn: b.base, rows: b.rows, pending: &b.pending, memo: &b.store.spare.memo, finder: &b.next.finder}}
	tx := &one.Write
	tx.Read = &one.read
	b.next.applied = max(b.next.applied, index)
	if b.part++; index != b.index {
		b.index, b.part, b.seq = index, 0, 0
	}
	clear(b.undo)
	b.undo = b.undo[:0]
	if err := fn(tx); err != nil {
		b.rollback()
		return err
	}
	for n := range schema().tables {
		if tx.touched&(1<<n) != 0 {
			b.next.newest[n] = index
		}
	}
	return nil
}

// deriveID makes an id for a row of this entry, which no other entry of the same index makes.
func (tx *Write) deriveID(parts ...string) string {
	if tx.batch.part > 0 {
		parts = append(parts, "part", strconv.Itoa(tx.batch.part))
	}
	return structs.DeriveID(tx.Index, parts...)
}

// takeSeqs numbers n claims: on from those that were asked for at the same index, so that together with it the
// number tells who was first. Numbers of an entry that fails are not given again.
func (tx *Write) takeSeqs(n int) (first int) {
	first = tx.batch.seq
	tx.batch.seq += n
	return first
}

// set changes what is at a key, which is nobody else's, from what it was to what it is.
func (tx *Write) set(k key, was, is cell) {
	b := tx.batch
	pending := b.pending.put(entry{k, is, was.slot})
	b.undo = append(b.undo, undo{key: k, cell: was, was: pending, writings: b.written})
}

// spill writes what is pending into the tree when it has become much. It is for between two changes of rows: a
// cursor relies on it that a row in the tree is there with all its keys.
func (tx *Write) spill() {
	if b := tx.batch; len(b.pending.entries) >= b.most {
		b.write()
		b.base, b.rows = b.next.db.Txn(false), b.next.rows
		tx.txn, tx.rows = b.base, b.rows
	}
}

// rollback takes all changes of an entry back, newest first.
func (b *Batch) rollback() {
	for i := len(b.undo) - 1; i >= 0; i-- {
		u := b.undo[i]
		if !u.was && u.writings == b.written {
			b.pending.drop(u.key)
			continue
		}
		e := entry{key: u.key, cell: u.cell}
		if _, pending := b.pending.at(u.key); !pending {
			e.tree = b.inTree(u.key)
		}
		b.pending.put(e)
	}
}

func (b *Batch) inTree(k key) *slot {
	tx := Read{txn: b.base}
	return tx.inTree(k)
}

// write brings what is pending into the tree, which nobody else sees yet.
func (b *Batch) write() {
	if len(b.pending.entries) == 0 {
		return
	}
	b.written++ // first: what the memo takes note of is not so before the end
	txn, writing := b.next.db.Txn(true), writings.Add(1)
	b.changed = slices.Grow(b.changed, len(b.pending.entries))
	for i := range b.pending.entries {
		e := &b.pending.entries[i]
		if schema().whole[e.key[0]] != nil {
			b.writeRow(writing, e)
		}
		switch {
		case e.slot == e.tree: // another row with the same keys, or one that came and went
		case e.slot == nil:
			b.next.tree.drop(txn, e.key)
		default:
			b.next.tree.put(txn, e.key, e.slot)
		}
		b.store.spare.memo.wrote(e)
		b.changed = append(b.changed, e.key)
	}
	txn.Commit()
	clear(b.pending.entries)
	b.pending.entries = b.pending.entries[:0]
}

// writeRow brings the row of a key of its table to where it is kept.
func (b *Batch) writeRow(writing uint64, e *entry) {
	n := b.next.numbers
	if e.tree != nil && e.tree != e.slot {
		b.next.rows.set(writing, e.tree.number, nil)
		n.leave(e.tree.number)
		b.next.finder.forget(e.tree)
	}
	if e.slot == nil {
		return
	}
	switch {
	case e.slot.number == 0:
		e.slot.number = n.take(schema().number[e.key[0]])
	case e.slot != e.tree:
		n.comeBack(e.slot.number)
	}
	b.next.rows.set(writing, e.slot.number, e.row)
	if e.slot != e.tree {
		b.next.finder.keep(e.slot)
	}
}

// Commit makes the batch visible and wakes who waits for what it changed.
func (b *Batch) Commit() {
	if b.done {
		return
	}
	b.write()
	b.next.numbers.commit()
	b.store.become(b.next, b.changed, false)
	b.end()
}

// Abort gives the batch up; after Commit it does nothing.
func (b *Batch) Abort() {
	if b.done {
		return
	}
	if b.written > 0 {
		b.store.spare.memo = memo{} // of what nobody will see
		b.next.numbers.giveUp()
		b.next.finder.clear()
	}
	b.end()
}

// end leaves to the next batch what it can use again.
func (b *Batch) end() {
	b.done = true
	clear(b.pending.entries)
	clear(b.undo)
	b.store.spare.entries, b.store.spare.undo = b.pending.entries[:0], b.undo[:0]
	if cap(b.undo) > mostSpare || cap(b.pending.entries) > mostSpare {
		b.store.spare.entries, b.store.spare.undo = nil, nil
	}
	b.store.writer.Unlock()
}
