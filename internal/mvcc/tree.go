package mvcc

import (
	"github.com/hashicorp/go-memdb"
)

// All indexes of all tables are in one memdb table with one index, which is one radix tree. The first byte of
// a key is the number of its index. A memdb transaction pays for each tree that it changes, so one tree is
// cheaper than one for each index. The tree holds slots, and tables keep their indexes themselves
// (Table.Put).
//
// The channels of memdb, which report changes to readers, are not used (see watch.go). A snapshot of a memdb
// database does not maintain them, so all writes go to a snapshot.
const (
	memdbTable = "rows"
	memdbIndex = "id"
)

// keyIndexer gives memdb the keys that the tables have computed.
type keyIndexer struct {
	key Key // of the slot that is about to be inserted or deleted
}

// FromArgs returns the key that a reader asks for.
func (w *keyIndexer) FromArgs(args ...any) ([]byte, error) { return *args[0].(*Key), nil }

// FromObject returns the key that the writer has set.
func (w *keyIndexer) FromObject(any) (bool, []byte, error) { return true, w.key, nil }

// newTree returns an empty database and the indexer of its writer.
func newTree() (*memdb.MemDB, *keyIndexer) {
	w := &keyIndexer{}
	index := &memdb.IndexSchema{Name: memdbIndex, Unique: true, Indexer: w}
	table := &memdb.TableSchema{Name: memdbTable, Indexes: map[string]*memdb.IndexSchema{memdbIndex: index}}
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{memdbTable: table}})
	if err != nil {
		panic(err) // the schema is a constant of the program
	}
	return db.Snapshot(), w
}

// put sets the slot at a key. The tree keeps the key, which must not change any more.
func (w *keyIndexer) put(txn *memdb.Txn, k Key, s *slot) {
	w.key = k
	if err := txn.Insert(memdbTable, s); err != nil {
		panic(err) // the schema and this code disagree
	}
}

// drop removes the slot at a key.
func (w *keyIndexer) drop(txn *memdb.Txn, k Key) {
	w.key = k
	if err := txn.Delete(memdbTable, (*slot)(nil)); err != nil {
		panic(err) // there is nothing at the key, or the schema and this code disagree
	}
}

// keyArgs returns a key as arguments of memdb's methods, without an allocation.
func (tx *ReadTx) keyArgs(k Key) []any {
	tx.arg = k
	tx.args[0] = &tx.arg
	return tx.args[:]
}

// lookup returns the cell at a whole key.
func (tx *ReadTx) lookup(k Key) cell {
	if tx.overlay != nil {
		if c, changed := tx.overlay.at(k); changed {
			return c
		}
		if c, known := tx.recent.at(k); known {
			return c
		}
	}
	if tx.recent == nil {
		return tx.atSlot(tx.inTree(k))
	}
	c, known := tx.finder.at(k, &tx.rows)
	if !known {
		c = tx.atSlot(tx.inTree(k))
		if c.slot != nil {
			tx.finder.keep(c.slot)
		}
	}
	tx.recent.keep(k, c)
	return c
}

// atSlot returns the cell of a slot, which may be nil.
func (tx *ReadTx) atSlot(s *slot) cell {
	if s == nil {
		return cell{}
	}
	return cell{s, tx.rows.at(s.number)}
}

// inTree returns the slot that the tree has at a whole key, nil if it has none.
func (tx *ReadTx) inTree(k Key) *slot {
	found, err := tx.txn.First(memdbTable, memdbIndex, tx.keyArgs(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	s, _ := found.(*slot)
	return s
}

// scan reads rows in the order of their keys in the tree.
type scan struct {
	slots memdb.ResultIterator
	rows  rows
}

// Next returns the next row, nil after the last one.
func (c *scan) Next() any {
	s, _ := c.slots.Next().(*slot)
	if s == nil {
		return nil
	}
	return c.rows.at(s.number)
}

// scanPrefix reads the rows whose key begins with k.
func (tx *ReadTx) scanPrefix(k Key) scan {
	it, err := tx.txn.Get(memdbTable, memdbIndex, tx.keyArgs(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return scan{it, tx.rows}
}

// scanFrom reads the rows whose key is not below k, of this index and of those behind it.
func (tx *ReadTx) scanFrom(k Key) scan {
	it, err := tx.txn.LowerBound(memdbTable, memdbIndex, tx.keyArgs(k)...)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return scan{it, tx.rows}
}
