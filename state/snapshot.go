package state

import (
	"fmt"
	"io"

	"github.com/hashicorp/go-memdb"

	"berth/internal/codec"
	"berth/structs"
)

// A snapshot is a header, then each table: its name, its rows in chunks, an empty chunk; and the empty
// name at the end, so that one that was cut short is known as such. Equal stores give equal bytes.
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

type (
	encoder interface{ Encode(v any) error }
	decoder interface{ Decode(v any) error }
)

// Save writes every table as it is now, streaming.
func (s *Store) Save(w io.Writer) error { return s.Read().Save(w) }

// Save writes every table as this snapshot sees it, streaming; writers go on meanwhile.
func (tx *Read) Save(w io.Writer) error {
	out := codec.NewEncoder(w)
	if err := out.Encode(snapshotHeader{snapshotFormat, snapshotVersion, tx.Applied()}); err != nil {
		return fmt.Errorf("writing the state snapshot's header: %w", err)
	}
	for _, t := range schema().tables {
		if err := out.Encode(t.name()); err != nil {
			return fmt.Errorf("writing table %s: %w", t.name(), err)
		}
		if err := t.save(tx, out); err != nil {
			return fmt.Errorf("writing table %s: %w", t.name(), err)
		}
	}
	return out.Encode("")
}

func (t *table[T]) save(tx *Read, out encoder) error {
	chunk := make([]*T, 0, chunkRows)
	for r := range t.all(tx) {
		if chunk = append(chunk, r); len(chunk) < chunkRows {
			continue
		}
		if err := out.Encode(chunk); err != nil {
			return err
		}
		chunk = chunk[:0]
	}
	if len(chunk) > 0 {
		if err := out.Encode(chunk); err != nil {
			return err
		}
	}
	return out.Encode(chunk[:0])
}

// Load replaces everything by what Save wrote, at once for all readers, and wakes all who wait. When it
// fails the store is as it was.
func (s *Store) Load(r io.Reader) error {
	fresh := newContent()
	txn := fresh.db.Txn(true)
	if err := load(txn, codec.NewDecoder(r)); err != nil {
		txn.Abort()
		return err
	}
	txn.Commit()
	old := s.now.Swap(fresh)
	close(old.abandoned)
	return nil
}

func load(txn *memdb.Txn, in decoder) error {
	var h snapshotHeader
	if err := in.Decode(&h); err != nil {
		return structs.Errorf(structs.KindInvalid, "reading the state snapshot's header: %w", err)
	}
	if h.Format != snapshotFormat || h.Version != snapshotVersion {
		return structs.Errorf(structs.KindInvalid, "this is a snapshot of format %q version %d, expected %q version %d",
			h.Format, h.Version, snapshotFormat, snapshotVersion)
	}
	for {
		var name string
		if err := in.Decode(&name); err != nil {
			return structs.Errorf(structs.KindInvalid, "the state snapshot ends early: %w", err)
		}
		if name == "" {
			return nil
		}
		if err := loadTable(txn, in, name); err != nil {
			return structs.Errorf(structs.KindInvalid, "reading table %q of the state snapshot: %w", name, err)
		}
	}
}

func loadTable(txn *memdb.Txn, in decoder, name string) error {
	for _, t := range schema().tables {
		if t.name() == name {
			return t.load(txn, in)
		}
	}
	return fmt.Errorf("this version knows no such table: was the snapshot made by a newer one?")
}

func (t *table[T]) load(txn *memdb.Txn, in decoder) error {
	for {
		var chunk []*T
		if err := in.Decode(&chunk); err != nil {
			return err
		}
		if len(chunk) == 0 {
			return nil
		}
		for _, r := range chunk {
			if r == nil {
				return fmt.Errorf("a row is nil")
			}
			if err := txn.Insert(t.schema.Name, r); err != nil {
				return err
			}
		}
	}
}
