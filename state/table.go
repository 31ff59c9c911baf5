package state

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"

	"github.com/hashicorp/go-memdb"

	"berth/structs"
)

// table is one kind of row. Its key is a tuple of strings, and every leading part of the tuple selects
// the rows that have it. The key function must be pure: it is called again to take a row out.
type table[T any] struct {
	index[T]
	schema *memdb.TableSchema
	number int // its place in the schema, for the set of tables a transaction has touched
	share  func(*pool, *T)
}

// index is one way into a table. Keys need not be unique except those of the table itself; rows with
// equal keys come in the order of the table's key.
type index[T any] struct {
	table *table[T]
	name  string
}

// row is what a table holds pointers to.
type row interface{ Stamped() *structs.Indexes }

const idIndex = "id"

// newTable makes a table with its key. A type without indexes to stamp is a mistake that no test survives.
func newTable[T any](name string, keyOfRow func(*T) key) *table[T] {
	if _, ok := any((*T)(nil)).(row); !ok {
		panic(fmt.Sprintf("table %s: its rows have no indexes to stamp", name))
	}
	t := &table[T]{schema: &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}}
	t.index = index[T]{table: t, name: idIndex}
	t.schema.Indexes[idIndex] = &memdb.IndexSchema{Name: idIndex, Unique: true, Indexer: one[T]{keyOfRow}}
	return t
}

// sharing sets what makes a row share with others what they have in common; it is called when a row comes in.
func (t *table[T]) sharing(share func(*pool, *T)) *table[T] {
	t.share = share
	return t
}

// by adds an index. A row whose key is nil is left out of it.
func (t *table[T]) by(name string, keyOfRow func(*T) key) *index[T] {
	return t.add(name, one[T]{keyOfRow})
}

// byUnique adds an index whose keys no two rows share: it needs no copy of the table's key in each of its own.
func (t *table[T]) byUnique(name string, keyOfRow func(*T) key) *index[T] {
	x := t.add(name, one[T]{keyOfRow})
	t.schema.Indexes[name].Unique = true
	return x
}

// byMany adds an index in which a row may stand several times.
func (t *table[T]) byMany(name string, keys func(*T) []key) *index[T] {
	return t.add(name, many[T]{keys})
}

func (t *table[T]) add(name string, indexer memdb.Indexer) *index[T] {
	t.schema.Indexes[name] = &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: indexer}
	return &index[T]{table: t, name: name}
}

// get returns the row with the whole key, nil if there is none. A waiting reader watches that row alone.
func (t *table[T]) get(tx *Read, parts ...string) *T { return t.at(tx, keyOf(parts...)) }

func (t *table[T]) at(tx *Read, k key) *T {
	tx.mask |= 1 << t.number
	watch, found, err := tx.txn.FirstWatch(t.schema.Name, idIndex, k)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	tx.noteRange(t.schema, t.number, idIndex, k, watch, found == nil)
	if found == nil {
		return nil
	}
	return found.(*T)
}

// all yields the rows whose key begins with the parts, in key order; without parts every row. What is
// written while it runs is not seen by it.
func (x *index[T]) all(tx *Read, parts ...string) iter.Seq[*T] { return x.scan(tx, keyOf(parts...)) }

// prefix is all, but the last part needs only begin so.
func (x *index[T]) prefix(tx *Read, parts ...string) iter.Seq[*T] {
	k := keyOf(parts...)
	return x.scan(tx, k[:len(k)-1])
}

func (x *index[T]) scan(tx *Read, k key) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		it := x.iterator(tx, k)
		found := it.Next()
		tx.noteRange(x.table.schema, x.table.number, x.name, k, it.WatchCh(), found == nil)
		for ; found != nil; found = it.Next() {
			if !yield(found.(*T)) {
				return
			}
		}
	}
}

// iterator goes through the rows whose key begins so. A waiting reader has to note them itself.
func (x *index[T]) iterator(tx *Read, k key) memdb.ResultIterator {
	tx.mask |= 1 << x.table.number
	it, err := tx.txn.Get(x.table.schema.Name, x.name, k)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return it
}

// first returns the first row whose key begins with the parts, nil if there is none.
func (x *index[T]) first(tx *Read, parts ...string) *T {
	for found := range x.all(tx, parts...) {
		return found
	}
	return nil
}

// after returns the first row whose key does not begin with these parts and follows those whose key does,
// nil if there is none. It is for going from group to group of rows; a waiting reader watches the rows it
// got elsewhere.
func (x *index[T]) after(tx *Read, parts ...string) *T {
	k := keyOf(parts...)
	k[len(k)-1]++ // past the end mark of the last part, and before anything longer
	it, err := tx.txn.LowerBound(x.table.schema.Name, x.name, k)
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	found, _ := it.Next().(*T)
	return found
}

// from iterates over all rows from the first on whose key begins with the parts or follows. Nobody waits for
// what comes so.
func (x *index[T]) from(tx *Read, parts ...string) memdb.ResultIterator {
	tx.mask |= 1 << x.table.number
	it, err := tx.txn.LowerBound(x.table.schema.Name, x.name, keyOf(parts...))
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return it
}

// has reports whether any row's key begins with the parts.
func (x *index[T]) has(tx *Read, parts ...string) bool { return x.first(tx, parts...) != nil }

// put inserts the row or replaces the one with its key, and stamps it. The row belongs to the table from
// then on. It returns the row that was there, nil if there was none.
func (t *table[T]) put(tx *Write, r *T) (old *T) {
	if t.share != nil {
		t.share(tx.content.pool, r)
	}
	old = t.at(tx.Read, t.key(r))
	at := any(r).(row).Stamped()
	at.CreateIndex, at.ModifyIndex = tx.Index, tx.Index
	c := change{table: t.schema.Name, now: r}
	if old != nil {
		at.CreateIndex = any(old).(row).Stamped().CreateIndex
		c.old = old
	}
	tx.apply(t.number, c)
	return old
}

// delete takes the row with this row's key out; one that is not there is done already. It returns the row
// that was there, nil if there was none.
func (t *table[T]) delete(tx *Write, r *T) (old *T) {
	if old = t.at(tx.Read, t.key(r)); old != nil {
		tx.apply(t.number, change{table: t.schema.Name, old: old})
	}
	return old
}

func (t *table[T]) key(r *T) key { return t.schema.Indexes[idIndex].Indexer.(one[T]).key(r) }

// one and many are memdb's view of the key functions. Arguments of look-ups are keys already.
type one[T any] struct{ key func(*T) key }

func (i one[T]) FromArgs(args ...any) ([]byte, error) { return args[0].(key), nil }

func (i one[T]) FromObject(obj any) (bool, []byte, error) {
	k := i.key(obj.(*T))
	return k != nil, k, nil
}

type many[T any] struct{ keys func(*T) []key }

func (i many[T]) FromArgs(args ...any) ([]byte, error) { return args[0].(key), nil }

func (i many[T]) FromObject(obj any) (bool, [][]byte, error) {
	keys := i.keys(obj.(*T))
	out := make([][]byte, len(keys))
	for n, k := range keys {
		out[n] = k
	}
	return len(out) > 0, out, nil
}

// key is a tuple of texts in one piece.
type key []byte

// keyOf writes each part with an end mark, so that no key is the beginning of another by accident and
// the order of keys is the order of their parts. NUL marks the end; inside a part NUL and 0x01 are
// escaped by 0x01.
func keyOf(parts ...string) key {
	size := 0
	for _, p := range parts {
		size += len(p) + 1 + escapes(p)
	}
	out := make(key, 0, size)
	for _, p := range parts {
		if escapes(p) == 0 {
			out = append(append(out, p...), 0)
			continue
		}
		for i := range len(p) {
			if p[i] <= 1 {
				out = append(out, 1, p[i]+1)
				continue
			}
			out = append(out, p[i])
		}
		out = append(out, 0)
	}
	return out
}

// escapes counts the bytes of a part that have to be escaped: nearly always none.
func escapes(p string) (n int) {
	for i := range len(p) {
		if p[i] <= 1 {
			n++
		}
	}
	return n
}

// ordered is a number as a part of a key: the order of keys is the order of numbers. Its first byte is how
// many follow, counted from a number that needs no escaping.
func ordered(n uint64) string {
	var b [9]byte
	binary.BigEndian.PutUint64(b[1:], n)
	zeros := bits.LeadingZeros64(n) / 8
	b[zeros] = byte(8 - zeros + 2)
	return string(b[zeros:])
}
