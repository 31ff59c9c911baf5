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

// entry is one row in one index; nil where there is none any more.
type entry struct {
	key key
	row any
}

// write wants the key to be nobody else's: the tree keeps it.
func (w *writerKey) write(txn *memdb.Txn, e entry) {
	w.key = e.key
	var err error
	if e.row != nil {
		err = txn.Insert(oneTable, e.row)
	} else if err = txn.Delete(oneTable, e.row); err == memdb.ErrNotFound {
		err = nil // it came and went in one batch
	}
	if err != nil {
		panic(err) // the schema and this code disagree
	}
}

// asked is a key as memdb's methods take it, without garbage.
func (tx *Read) asked(k key) []any {
	tx.arg = k
	tx.args[0] = &tx.arg
	return tx.args[:]
}

// lookup returns the row at a whole key, nil if there is none.
func (tx *Read) lookup(k key) any {
	if tx.pending != nil {
		if row, changed := tx.pending.at(k); changed {
			return row
		}
		if row, known := tx.memo.at(k); known {
			return row
		}
	}
	found, err := tx.txn.First(oneTable, oneIndex, tx.asked(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	if tx.memo != nil {
		tx.memo.keep(k, found)
	}
	return found
}

// under goes through what begins with k.
func (tx *Read) under(k key) memdb.ResultIterator {
	it, err := tx.txn.Get(oneTable, oneIndex, tx.asked(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return it
}

// onwards goes through what is not below k, in this index and in those behind it.
func (tx *Read) onwards(k key) memdb.ResultIterator {
	it, err := tx.txn.LowerBound(oneTable, oneIndex, tx.asked(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return it
}
