package mvcc

import (
	"github.com/hashicorp/go-memdb"
)

// path is an access path: the keys of a table, or of one of its indexes. The memdb schema has a table for
// each. Such a table has one index, which is a radix tree from keys to
// slots.
//
// The channels of memdb, which report changes to readers, are not used (see watch.go). A snapshot of a memdb
// database does not maintain them, so all writes go to a snapshot.
type path struct {
	name  string   // as csi_claims and csi_claims.node
	tree  string   // the name of its memdb table: see treeName
	order int      // position among the paths of the schema
	table int      // number of the table in the schema
	own   bool     // it has the keys of the table
	lists bool     // the tree has lists of slots (see list.go)
	sums  listSums // of these lists, or nil
}

// memdbIndex is the index of each memdb table. memdb demands the name.
const memdbIndex = "id"

// pathKey is a key in an access path.
type pathKey struct {
	path *path
	key  Key
}

// keyIndexer gives memdb the keys that the tables have computed.
type keyIndexer struct {
	key Key // of the slot that is about to be inserted or deleted
}

// FromArgs returns the key of a read.
func (w *keyIndexer) FromArgs(args ...any) ([]byte, error) {
	return *args[0].(*Key), nil
}

// FromObject returns the key that the writer has set.
func (w *keyIndexer) FromObject(any) (bool, []byte, error) {
	return true, w.key, nil
}

// treeName returns the name of the memdb table of a path. memdb has the roots of its trees in a tree by their
// names, and each commit copies the nodes above the trees that it has changed. So the names are short, and
// those of paths that change together share their first letter.
func treeName(order int) string {
	const width = 12 // the tables and indexes of the servers are about its square
	return string([]rune{rune('a' + order/width), rune('a' + order%width)})
}

// newTrees returns an empty database and the indexer of its writer.
func newTrees(paths []*path) (*memdb.MemDB, *keyIndexer) {
	w := &keyIndexer{}
	index := &memdb.IndexSchema{
		Name:    memdbIndex,
		Unique:  true,
		Indexer: w,
	}
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, p := range paths {
		schema.Tables[p.tree] = &memdb.TableSchema{
			Name:    p.tree,
			Indexes: map[string]*memdb.IndexSchema{memdbIndex: index},
		}
	}
	return must(memdb.NewMemDB(schema)).Snapshot(), w
}

// must returns the result of a call of memdb, which fails if its schema and this package disagree.
func must[T any](result T, err error) T {
	if err != nil {
		panic(err)
	}
	return result
}

// setSlot sets the slot at a key, and nil removes it. The tree keeps the key, which must not change any more.
func (w *keyIndexer) setSlot(txn *memdb.Txn, at pathKey, s *slot) {
	w.key = at.key
	change := txn.Insert
	if s == nil {
		change = txn.Delete
	}
	err := change(at.path.tree, s)
	if err != nil {
		panic(err) // there is nothing to remove, or the schema and this code disagree
	}
}

// keyArgs returns a key as arguments of memdb's methods, without an allocation.
func (tx *ReadTx) keyArgs(k Key) []any {
	tx.arg = k
	tx.args[0] = &tx.arg
	return tx.args[:]
}

// lookup returns the cell at a whole key.
func (tx *ReadTx) lookup(at pathKey) cell {
	if tx.overlay != nil {
		c, changed := tx.overlay.at(at)
		if changed {
			return c
		}
	}
	s := tx.inTree(at)
	if s == nil {
		return cell{}
	}
	return cell{s, tx.rows.At(s.number)}
}

// inTree returns the slot that the tree has at a whole key, nil if it has none.
func (tx *ReadTx) inTree(at pathKey) *slot {
	if at.path.lists {
		return tx.inList(at)
	}
	return tx.slotAt(at)
}

// slotAt returns the slot at a whole key of a tree, nil if there is none.
func (tx *ReadTx) slotAt(at pathKey) *slot {
	s, _ := must(tx.txn.First(at.path.tree,
		memdbIndex, tx.keyArgs(at.key)...)).(*slot)
	return s
}

// scan reads rows of a tree in the order of their keys, or in reverse.
type scan struct {
	slots  memdb.ResultIterator
	rows   rowVector
	alone  int   // rows that were read one by one
	buffer []any // rows that were read together
	ahead  []any // the part of buffer that was not returned yet; nil after the last row
}

// A scan reads its first rows one by one, because most scans have few. Then it reads rows together, so that
// they wait for memory together (ADR 24).
const (
	rowsAlone    = 8
	rowsTogether = 32
)

// Next returns the next row, nil after the last one.
func (c *scan) Next() any {
	if c.alone < rowsAlone {
		c.alone++
		return c.read()
	}
	if len(c.ahead) == 0 {
		c.buffer = c.buffer[:0]
		for range rowsTogether {
			c.buffer = append(c.buffer, c.read())
		}
		c.ahead = c.buffer
	}
	row := c.ahead[0]
	c.ahead = c.ahead[1:]
	return row
}

func (c *scan) read() any {
	s, _ := c.slots.Next().(*slot)
	if s == nil {
		return nil
	}
	return c.rows.At(s.number)
}

// seekTree is a method of memdb.Txn that returns the slots of a tree from a key on.
type seekTree = func(table, index string, args ...any) (memdb.ResultIterator, error)

// scan begins to read a tree as seek does.
func (tx *ReadTx) scan(seek seekTree, at pathKey) scan {
	if at.path.lists {
		panic("a list index is read in another way than by Scan, First and Has: " + at.path.name)
	}
	slots := must(seek(at.path.tree, memdbIndex, tx.keyArgs(at.key)...))
	return scan{slots: slots, rows: tx.rows}
}
