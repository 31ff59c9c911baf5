package state

import (
	"github.com/hashicorp/go-memdb"
)

// All indexes of all tables are in one table of memdb with one index: one radix tree, in which the first byte
// of a key is that of its index. A transaction pays for each tree it changes (its nodes that may be changed in
// place, its place among the trees), so one tree is cheaper than one for each index; and an index pays only
// for the rows that are in it. What memdb would do for several indexes the tables do themselves (table.put).
//
// memdb's channels, which tell who waits that something has changed, are not used: see watch.go. So the tree
// is always written in a snapshot of the database, which does not keep account of them.
const (
	oneTable = "rows"
	oneIndex = "id"
)

// writerKey is memdb's view of the keys, which the tables have worked out already: it hands them through.
type writerKey struct {
	key key // of the row that the writer is about to insert or to delete
}

func (w *writerKey) FromArgs(args ...any) ([]byte, error) { return *args[0].(*key), nil }

func (w *writerKey) FromObject(any) (bool, []byte, error) { return true, w.key, nil }

// newTree is an empty database, and what names the keys to its writer.
func newTree() (*memdb.MemDB, *writerKey) {
	w := &writerKey{}
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{oneTable: {Name: oneTable,
		Indexes: map[string]*memdb.IndexSchema{oneIndex: {Name: oneIndex, Unique: true, Indexer: w}}}}})
	if err != nil {
		panic(err) // the schema is a constant of the program
	}
	return db.Snapshot(), w
}

// put wants the key to be nobody else's: the tree keeps it.
func (w *writerKey) put(txn *memdb.Txn, k key, s *slot) {
	w.key = k
	if err := txn.Insert(oneTable, s); err != nil {
		panic(err) // the schema and this code disagree
	}
}

// drop takes out what is at a key.
func (w *writerKey) drop(txn *memdb.Txn, k key) {
	w.key = k
	if err := txn.Delete(oneTable, (*slot)(nil)); err != nil {
		panic(err) // there is nothing, or the schema and this code disagree
	}
}

// asked is a key as memdb's methods take it, without garbage.
func (tx *Read) asked(k key) []any {
	tx.arg = k
	tx.args[0] = &tx.arg
	return tx.args[:]
}

// lookup returns what is at a whole key.
func (tx *Read) lookup(k key) cell {
	if tx.pending != nil {
		if c, changed := tx.pending.at(k); changed {
			return c
		}
		if c, known := tx.memo.at(k); known {
			return c
		}
	}
	if tx.memo == nil {
		return tx.atSlot(tx.inTree(k))
	}
	c, known := tx.finder.at(k, &tx.rows)
	if !known {
		if c = tx.atSlot(tx.inTree(k)); c.slot != nil {
			tx.finder.keep(c.slot)
		}
	}
	tx.memo.keep(k, c)
	return c
}

// atSlot is the row in a slot, which may be nil.
func (tx *Read) atSlot(s *slot) cell {
	if s == nil {
		return cell{}
	}
	return cell{s, tx.rows.at(s.number)}
}

// inTree is the slot that the tree has at a whole key, nil if it has none.
func (tx *Read) inTree(k key) *slot {
	found, err := tx.txn.First(oneTable, oneIndex, tx.asked(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	s, _ := found.(*slot)
	return s
}

// scan goes through rows in the order of their keys in the tree.
type scan struct {
	slots memdb.ResultIterator
	rows  rows
}

// Next returns the next row, nil after the last.
func (c *scan) Next() any {
	s, _ := c.slots.Next().(*slot)
	if s == nil {
		return nil
	}
	return c.rows.at(s.number)
}

// under goes through what begins with k.
func (tx *Read) under(k key) scan {
	it, err := tx.txn.Get(oneTable, oneIndex, tx.asked(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return scan{it, tx.rows}
}

// onwards goes through what is not below k, in this index and in those behind it.
func (tx *Read) onwards(k key) scan {
	it, err := tx.txn.LowerBound(oneTable, oneIndex, tx.asked(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return scan{it, tx.rows}
}
