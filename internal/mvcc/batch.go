package mvcc

import (
	"slices"

	"github.com/hashicorp/go-memdb"
)

// Batch applies log entries in one transaction: readers see all of them or none. It holds the lock of the
// writer until Commit or Abort.
type Batch struct {
	db      *DB
	next    *view
	base    *memdb.Txn // the trees as they are written so far
	rows    rowVector
	marking uint64 // the writing of the marks of the tables
	overlay overlay
	most    int // entries in the overlay: maxOverlay

	index uint64 // of the entry that was applied last
	part  int    // its number among the entries of this index, from 0
	seq   int    // next number of WriteTx.NextSeq at this index

	changed []pathKey // that are written into the trees
	written int       // how often the overlay was written into the tree
	undo    []undo    // of the current entry
	edits   []Edit    // likewise
	done    bool
}

// Edit is the change of one row. Before and Now have its type. The one that is nil is no row.
type Edit struct {
	Table  string
	Before any
	Now    any
}

// undo reverts one change.
type undo struct {
	entry          // before the change
	inOverlay bool // before the change
	written   int  // Batch.written at the change
}

// The largest capacities that a batch leaves to the next one, in changes: of a path, and of an entry, with 80
// bytes each, which suffice for the largest plan of the scheduler.
const (
	maxSpare     = 4 * maxOverlay
	maxSpareUndo = 32768
)

// spare has the memory that a batch leaves to the next one.
type spare struct {
	overlay overlay
	undo    []undo
	edits   []Edit
	changed []pathKey
}

// Begin starts a batch. It waits for the end of the batch before it.
func (db *DB) Begin() *Batch {
	db.writer.Lock()
	next := *db.now.Load()
	b := &Batch{
		db:      db,
		next:    &next,
		base:    next.db.Txn(false),
		rows:    next.rows,
		marking: newWriting(),
		overlay: db.spare.overlay,
		most:    maxOverlay,
		undo:    db.spare.undo,
		edits:   db.spare.edits,
		changed: db.spare.changed,
	}
	next.db = next.db.Snapshot()
	return b
}

// WriteTx is a transaction that changes rows for the log entry at Index.
type WriteTx struct {
	*ReadTx
	Index   uint64
	batch   *Batch
	touched tableSet // tables changed
}

// Apply applies one entry. If fn fails, the entry has changed nothing, Apply returns the error, and the batch
// continues. Consecutive entries may have the same index.
func (b *Batch) Apply(index uint64, fn func(*WriteTx) error) error {
	tx := b.newTx(index)
	b.next.applied = max(b.next.applied, index)
	b.part++
	if index != b.index {
		b.index = index
		b.part = 0
		b.seq = 0
	}

	b.undo = emptied(b.undo, maxSpareUndo)
	b.edits = emptied(b.edits, maxSpareUndo)
	if err := fn(tx); err != nil {
		b.rollback()
		b.edits = b.edits[:0]
		return err
	}

	tx.touched.each(func(table int) {
		b.next.marks.edit(b.marking, table).newest = index
	})

	return nil
}

func (b *Batch) newTx(index uint64) *WriteTx {
	one := &struct {
		write WriteTx
		read  ReadTx
	}{
		write: WriteTx{Index: index, batch: b},
		read: ReadTx{
			view:    b.db.now.Load(),
			txn:     b.base,
			rows:    b.rows,
			marks:   &b.next.marks,
			overlay: &b.overlay,
		},
	}
	one.write.ReadTx = &one.read
	return &one.write
}

// Edits returns the changes of rows by the entry that was applied last, in their order. The next entry reuses
// the memory.
func (b *Batch) Edits() []Edit { return b.edits }

// Part returns the number of the entry among the entries of its log index, from 0.
func (tx *WriteTx) Part() int {
	return tx.batch.part
}

// NextSeq reserves n numbers at the log index and returns the first. Numbers of an entry that fails are not
// reused.
func (tx *WriteTx) NextSeq(n int) (first int) {
	first = tx.batch.seq
	tx.batch.seq += n
	return first
}

// set changes the cell at a key. The batch keeps the key.
func (tx *WriteTx) set(at pathKey, old, now cell) {
	b := tx.batch
	known := b.overlay.setEntry(entry{at, now, old.slot})
	b.undo = append(b.undo, undo{
		entry:     entry{pathKey: at, cell: old},
		inOverlay: known,
		written:   b.written,
	})
}

// spill writes a large overlay into the trees. It runs between two changes of rows: a cursor relies on it
// that a row in the trees has all its keys there.
func (tx *WriteTx) spill() {
	b := tx.batch
	if b.overlay.size < b.most {
		return
	}
	b.writeOverlay()
	b.base = b.next.db.Txn(false)
	b.rows = b.next.rows
	tx.txn = b.base
	tx.rows = b.rows
}

// rollback reverts all changes of an entry, the last one first.
func (b *Batch) rollback() {
	trees := ReadTx{view: b.next, txn: b.base, rows: b.rows}
	for _, u := range slices.Backward(b.undo) {
		if !u.inOverlay && u.written == b.written {
			b.overlay.drop(u.pathKey)
			continue
		}
		_, known := b.overlay.at(u.pathKey)
		if !known {
			u.tree = trees.inTree(u.pathKey)
		}
		b.overlay.setEntry(u.entry)
	}
}

// writeOverlay writes the overlay into the trees, which no reader sees yet.
func (b *Batch) writeOverlay() {
	if b.overlay.size == 0 {
		return
	}
	b.written++ // before the first change: Abort then frees the slots
	txn := b.next.db.Txn(true)
	writing := newWriting()
	for _, order := range b.overlay.changedPaths() {
		entries := b.overlay.byPath[order]
		if len(entries) > 0 && entries[0].path.lists {
			b.writeLists(txn, writing, entries)
		}
		for i := range entries {
			b.writeEntry(txn, writing, &entries[i])
		}
	}
	txn.Commit()
	b.overlay.empty()
}

func (b *Batch) writeEntry(txn *memdb.Txn, writing uint64, e *entry) {
	if e.path.own {
		b.writeRow(writing, e)
	}
	switch {
	case e.path.lists: // writeLists has written it
	case e.slot == e.tree: // another row with the same keys, or a row that came and went
	default:
		b.next.tree.setSlot(txn, e.pathKey, e.slot)
	}
	b.changed = append(b.changed, e.pathKey)
}

// writeRow puts the row of an entry in the key of its table into its slot.
func (b *Batch) writeRow(writing uint64, e *entry) {
	next := b.next
	alloc := next.slots
	if added := e.added(); added != 0 {
		next.marks.edit(b.marking, e.path.table).rows += added
	}
	if e.tree != nil && e.tree != e.slot {
		next.rows.Set(writing, e.tree.number, nil)
		alloc.Free(e.tree.number)
	}
	if e.slot == nil {
		return
	}
	switch {
	case e.slot.number == 0:
		e.slot.number = alloc.Alloc()
	case e.slot != e.tree:
		alloc.Revive(e.slot.number)
	}
	next.rows.Set(writing, e.slot.number, e.row)
}

// Commit makes the batch visible and notifies the readers that wait for its changes.
func (b *Batch) Commit() {
	if b.done {
		return
	}
	b.writeOverlay()
	b.next.slots.Commit()
	b.db.publish(b.next, b.changed, false)
	b.end()
}

// Abort discards the batch. It does nothing after Commit.
func (b *Batch) Abort() {
	if b.done {
		return
	}
	if b.written > 0 {
		b.next.slots.Rollback()
	}
	b.end()
}

// end leaves reusable memory to the next batch.
func (b *Batch) end() {
	b.done = true
	b.overlay.empty()
	b.db.spare = spare{
		overlay: b.overlay,
		undo:    emptied(b.undo, maxSpareUndo),
		edits:   emptied(b.edits, maxSpareUndo),
		changed: emptied(b.changed, maxChangedKeys),
	}
	b.db.writer.Unlock()
}

// emptied returns the memory of a list for another one, and nil if it is for more than most values.
func emptied[T any](list []T, most int) []T {
	clear(list)
	if cap(list) > most {
		return nil
	}
	return list[:0]
}
