package state

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/hashicorp/go-memdb"

	"berth/internal/codec"
	"berth/structs"
)

// A snapshot is a header, then each table: its name, its rows in chunks, an empty piece; and the empty name
// at the end, so that one that was cut short is known as such. A chunk is an array of rows: chunks are
// encoded and decoded side by side. Equal stores give equal bytes.
const (
	snapshotFormat  = "berth-state"
	snapshotVersion = 2
	chunkRows       = 128
)

type snapshotHeader struct {
	Format  string
	Version int
	Index   uint64 // of the last entry applied
}

// aside is how many pieces are encoded or decoded at once.
const aside = 4

// Save writes every table as it is now, streaming.
func (s *Store) Save(w io.Writer) error { return s.Read().Save(w) }

// Save writes every table as this snapshot sees it, streaming; writers go on meanwhile.
func (tx *Read) Save(w io.Writer) error {
	out := pieceWriter{w}
	if err := out.encode(snapshotHeader{snapshotFormat, snapshotVersion, tx.Applied()}); err != nil {
		return fmt.Errorf("writing the state snapshot's header: %w", err)
	}
	for _, t := range schema().tables {
		if err := out.encode(t.name()); err != nil {
			return fmt.Errorf("writing table %s: %w", t.name(), err)
		}
		if err := t.save(tx, out); err != nil {
			return fmt.Errorf("writing table %s: %w", t.name(), err)
		}
	}
	return out.encode("")
}

func (t *table[T]) save(tx *Read, out pieceWriter) error { return saveRows(t.all(tx), out) }

func saveRows[T any](rows iter.Seq[*T], out pieceWriter) error {
	pieces := inOrder[[]*T, []byte]{do: func(rows []*T) ([]byte, error) { return codec.Encode(rows) },
		take: out.write}
	chunk := make([]*T, 0, chunkRows)
	for r := range rows {
		if chunk = append(chunk, r); len(chunk) < chunkRows {
			continue
		}
		if !pieces.add(chunk) {
			break
		}
		chunk = make([]*T, 0, chunkRows)
	}
	if len(chunk) > 0 {
		pieces.add(chunk)
	}
	if err := pieces.end(); err != nil {
		return err
	}
	return out.write(nil)
}

// Load replaces everything by what Save wrote, at once for all readers, and wakes all who wait. When it
// fails the store is as it was.
func (s *Store) Load(r io.Reader) error {
	fresh := emptyView()
	l := &loading{view: fresh, txn: fresh.db.Txn(true), writing: writings.Add(1), pool: loadingPool()}
	if err := load(l, pieceReader{bufio.NewReaderSize(r, 64<<10)}); err != nil {
		l.txn.Abort()
		return err
	}
	l.txn.Commit()
	nameVolumes(fresh)
	linkInstances(fresh.read(), fresh.pool)
	s.writer.Lock()
	defer s.writer.Unlock()
	s.become(fresh, nil, true)
	return nil
}

// loading is a view that is being filled, in one transaction.
type loading struct {
	view    *view
	txn     *memdb.Txn
	writing uint64
	pool    *pool
	slots   [mostTables]slots
}

func load(l *loading, in pieceReader) error {
	var h snapshotHeader
	if err := in.decode(&h); err != nil {
		return structs.Errorf(structs.KindInvalid, "reading the state snapshot's header: %w", err)
	}
	if h.Format != snapshotFormat || h.Version != snapshotVersion {
		return structs.Errorf(structs.KindInvalid, "this is a snapshot of format %q version %d, expected %q version %d",
			h.Format, h.Version, snapshotFormat, snapshotVersion)
	}
	for {
		var name string
		if err := in.decode(&name); err != nil {
			return structs.Errorf(structs.KindInvalid, "the state snapshot ends early: %w", err)
		}
		if name == "" {
			return nil
		}
		if err := loadTable(l, in, name); err != nil {
			return structs.Errorf(structs.KindInvalid, "reading table %q of the state snapshot: %w", name, err)
		}
	}
}

func loadTable(l *loading, in pieceReader, name string) error {
	for _, t := range schema().tables {
		if t.name() == name {
			return t.load(l, in)
		}
	}
	return fmt.Errorf("this version knows no such table: was the snapshot made by a newer one?")
}

func (t *table[T]) load(l *loading, in pieceReader) error {
	share := func(r *T) {
		if t.share != nil {
			t.share(l.pool, r, nil)
		}
	}
	var last key
	return loadRows(in, share, func(r *T) error {
		id := t.whole(r)
		if bytes.Compare(id, last) <= 0 {
			return fmt.Errorf("its rows are not in the order of their keys")
		}
		last = id
		t.insert(l, id, r)
		return nil
	})
}

// insert brings a row with a key that is new into the table, as it is.
func (t *table[T]) insert(l *loading, id key, r *T) {
	s := l.slots[t.number].make(hashOf(id))
	s.number = l.view.numbers.fresh(t.number)
	l.view.rows.set(l.writing, s.number, r)
	l.view.tree.put(l.txn, id, s)
	for _, x := range t.others {
		for _, k := range x.allOf(r, id) {
			l.view.tree.put(l.txn, k, s)
		}
	}
}

// loadRows takes the rows of a table one after the other. They are made ready side by side.
func loadRows[T any](in pieceReader, ready func(*T), take func(*T) error) error {
	var read sync.Pool // pieces that are done with
	rows := inOrder[[]byte, []*T]{do: func(piece []byte) ([]*T, error) { defer read.Put(&piece); return decodeChunk(piece, ready) },
		take: func(chunk []*T) error { return takeChunk(chunk, take) }}
	for {
		into, _ := read.Get().(*[]byte)
		piece, err := in.readInto(*cmp.Or(into, new([]byte)))
		if err != nil {
			return errors.Join(err, rows.end())
		}
		if len(piece) == 0 || !rows.add(piece) {
			return rows.end()
		}
	}
}

func decodeChunk[T any](piece []byte, ready func(*T)) (chunk []*T, err error) {
	if err := codec.Decode(piece, &chunk); err != nil {
		return nil, err
	}
	for _, r := range chunk {
		if r == nil {
			return nil, fmt.Errorf("a row is nil")
		}
		ready(r)
	}
	return chunk, nil
}

func takeChunk[T any](chunk []*T, take func(*T) error) error {
	for _, r := range chunk {
		if err := take(r); err != nil {
			return err
		}
	}
	return nil
}

// linkInstances tells each node's row, which nobody else sees yet, of its plugin instances.
func linkInstances(tx *Read, p *pool) {
	halves := map[string][]structs.CSIInstanceKey{}
	for i := range instances.all(tx) {
		halves[i.NodeID] = append(halves[i.NodeID], structs.CSIInstanceKey{PluginID: i.PluginID, Kind: i.Kind})
	}
	for n := range nodes.all(tx) {
		if keys := halves[n.ID]; keys != nil {
			n.SetCSIInstances(*p.halves.of(&keys))
		}
	}
}
