package mvcc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/hashicorp/go-memdb"
)

// A snapshot file is a header, then for each table with rows its name, its rows in chunks and an empty
// piece, and at the end an empty name, which shows that the file is complete. A chunk is an array of rows.
// Chunks are encoded and decoded in parallel. Equal databases have equal files. A table without rows is left
// out, so that a server of a version before the table can read the file.
const (
	snapshotFormat  = "berth-state"
	snapshotVersion = 1
	chunkRows       = 128
)

type snapshotHeader struct {
	Format  string
	Version int
	Index   uint64 // of the last entry applied
}

// Save writes a snapshot file of the current state.
func (db *DB) Save(w io.Writer) error {
	return db.Read().Save(w)
}

// Save writes a snapshot file of the state that the transaction sees. Writers continue meanwhile.
func (tx *ReadTx) Save(w io.Writer) error {
	out := NewPieceWriter(w)
	err := out.Encode(snapshotHeader{
		Format:  snapshotFormat,
		Version: snapshotVersion,
		Index:   tx.Applied(),
	})
	if err != nil {
		return fmt.Errorf("writing the state snapshot's header: %w", err)
	}

	for n, t := range tx.view.schema.tables {
		if n > 0 && !t.Has(tx) || t.IsComputed() {
			continue // the first table makes its rows in save
		}

		err := out.Encode(t.Name())
		if err == nil {
			err = t.save(tx, out)
		}
		if err != nil {
			return fmt.Errorf("writing table %s: %w", t.Name(), err)
		}
	}

	return out.Encode("")
}

func (t *Table[R]) save(tx *ReadTx, out PieceWriter) error {
	return t.table.save(tx, out)
}

func (t *table) save(tx *ReadTx, out PieceWriter) error {
	var rows []any
	c := t.cursor(tx, nil)
	for row := c.Next(); row != nil; row = c.Next() {
		rows = append(rows, row)
	}
	return t.saveRows(rows, out)
}

func (t *table) saveRows(rows []any, out PieceWriter) error {
	chunks := OrderedPool[[]any, []byte]{
		Do:      t.encode,
		HandOut: out.Write,
	}
	for chunk := range slices.Chunk(rows, chunkRows) {
		if !chunks.Start(chunk) {
			break
		}
	}
	if err := chunks.End(); err != nil {
		return err
	}
	return out.Write(nil)
}

// Load replaces the whole state by a snapshot file, at once for all readers, and notifies all that wait. The
// fixups add what a file does not hold. They run before any reader sees the state, and before there are Sums.
// If Load fails, it has changed nothing.
func (db *DB) Load(r io.Reader, fixups ...func(*LoadTx)) error {
	fresh := emptyView(db.schema)
	l := &loading{
		view:    fresh,
		txn:     fresh.db.Txn(true),
		writing: newWriting(),
	}

	err := l.readTables(NewPieceReader(r))
	if err != nil {
		l.txn.Abort()
		return err
	}

	l.txn.Commit()
	for _, fix := range fixups {
		tx := &LoadTx{
			ReadTx:  fresh.read(),
			txn:     fresh.db.Txn(true),
			loading: l,
		}

		fix(tx)
		tx.txn.Commit()
	}

	l.sumLists()
	db.writer.Lock()
	defer db.writer.Unlock()
	db.publish(fresh, nil, true)
	return nil
}

// LoadTx is the transaction of a fixup of DB.Load.
type LoadTx struct {
	*ReadTx
	txn     *memdb.Txn
	loading *loading
}

// Insert adds a row of a computed table, which has no indexes besides its key. It does not stamp the row. The
// LoadTx does not see it.
func (t *Table[R]) Insert(tx *LoadTx, r R) {
	t.table.insert(tx, r)
}

func (t *table) insert(tx *LoadTx, r any) {
	v := tx.loading.view
	s := &slot{number: v.slots.Fresh()}
	v.rows.Set(tx.loading.writing, s.number, r)
	v.marks.edit(tx.loading.writing, t.path.table).rows++
	v.tree.setSlot(tx.txn, t.at(t.key(r)), s)
}

// loading fills a view in one memdb transaction.
type loading struct {
	view    *view
	txn     *memdb.Txn
	writing uint64
	tables  tableSet // that it has begun to read
}

func (l *loading) readTables(in PieceReader) error {
	var h snapshotHeader
	if err := in.Decode(&h); err != nil {
		return fmt.Errorf("reading the state snapshot's header: %w", err)
	}

	if h.Format != snapshotFormat || h.Version != snapshotVersion {
		return fmt.Errorf("this is a snapshot of format %q version %d, expected %q version %d",
			h.Format, h.Version, snapshotFormat, snapshotVersion)
	}

	for {
		var name string
		if err := in.Decode(&name); err != nil {
			return fmt.Errorf("the state snapshot ends early: %w", err)
		}

		if name == "" {
			return nil
		}

		err := l.readTable(in, name)
		if err != nil {
			return fmt.Errorf("reading table %q of the state snapshot: %w", name, err)
		}
	}
}

func (l *loading) readTable(in PieceReader, name string) error {
	n := l.view.schema.find(name)
	switch {
	case n < 0 || l.view.schema.tables[n].IsComputed():
		return fmt.Errorf("this version knows no such table: was the snapshot made by a newer one?")
	case l.tables.has(n):
		return fmt.Errorf("it is there twice")
	}
	l.tables.add(n)
	return l.view.schema.tables[n].load(l, in)
}

func (t *Table[R]) load(l *loading, in PieceReader) error {
	return t.table.load(l, in)
}

func (t *table) load(l *loading, in PieceReader) error {
	v := l.view
	var all []loaded
	var last Key
	err := t.loadRows(in, func(r any) error {
		id := t.key(r)
		if bytes.Compare(id, last) <= 0 {
			return fmt.Errorf("rows are not sorted by key")
		}

		last = id
		s := &slot{number: v.slots.Fresh()}
		v.rows.Set(l.writing, s.number, r)
		v.tree.setSlot(l.txn, t.at(id), s)
		all = append(all, loaded{id, r, s})
		return nil
	})
	if err != nil {
		return err
	}

	v.marks.edit(l.writing, t.path.table).rows = len(all)
	for _, x := range t.others {
		x.insertAll(l, all)
	}

	return nil
}

// loaded is a row of a snapshot file with its key in the table and its slot.
type loaded struct {
	id   Key
	row  any
	slot *slot
}

// insertAll stores rows in an index in the order of their keys there. Each insertion then changes nodes of
// the tree that the one before it has copied (ADR 23).
func (x *index) insertAll(l *loading, all []loaded) {
	var entries slotList
	for _, r := range all {
		for _, k := range x.keysOf(r.row, r.id) {
			entries = append(entries, listEntry{k, r.slot})
		}
	}
	slices.SortFunc(entries, func(a, b listEntry) int {
		return compareKeys(a.key, b.key)
	})
	if x.lists {
		l.insertLists(x.path, entries)
		return
	}
	for _, e := range entries {
		l.view.tree.setSlot(l.txn, x.at(e.key), e.slot)
	}
}

// loadRows decodes and prepares the rows of a table in parallel, and hands them out in order.
func (t *table) loadRows(in PieceReader, handOut func(row any) error) error {
	var buffers sync.Pool
	decode := func(piece []byte) ([]any, error) {
		defer buffers.Put(&piece)
		return t.decodeChunk(piece)
	}
	handOutAll := func(chunk []any) error {
		for _, r := range chunk {
			if err := handOut(r); err != nil {
				return err
			}
		}
		return nil
	}

	chunks := OrderedPool[[]byte, []any]{
		Do:      decode,
		HandOut: handOutAll,
	}
	for {
		buffer, _ := buffers.Get().(*[]byte)
		buffer = cmp.Or(buffer, new([]byte))
		piece, err := in.ReadInto(*buffer)
		if err != nil {
			return errors.Join(err, chunks.End())
		}

		if len(piece) == 0 || !chunks.Start(piece) {
			return chunks.End()
		}
	}
}

func (t *table) decodeChunk(piece []byte) (chunk []any, err error) {
	chunk, err = t.decode(piece)
	if err != nil {
		return nil, err
	}
	for _, r := range chunk {
		if t.whole != nil && !t.whole(r) {
			return nil, fmt.Errorf("a row lacks a part")
		}
		t.shareValues(r, nil)
	}
	return chunk, nil
}
