package mvcc

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
)

// Index is one access path to the rows of a table. A query watches the rows and ranges that it reads through
// an index (see DB.Wait). R is the type of pointers to rows.
type Index[R Record] struct{ index *index }

// index is an Index of any row type. Its code is compiled once, not for each type.
type index struct {
	table  *table
	name   string
	path   *path
	key    func(row any) Key
	keys   func(row any) []Key // instead of key, in a multi index
	unique bool                // no two rows have equal keys
	lists  bool                // it is a list index (see list.go)
	sums   listSums            // of its lists, or nil
}

// Scan yields the rows whose key begins with the parts, in key order, or all rows if there are no parts. It
// does not see changes that are made during the scan.
func (x *Index[R]) Scan(tx Reader, parts ...string) iter.Seq[R] {
	return x.scan(tx.reader(), KeyOf(parts...))
}

func (x *Index[R]) scan(tx *ReadTx, k Key) iter.Seq[R] {
	return func(yield func(R) bool) {
		c := x.index.cursor(tx, k)
		c.keepOverlay()
		for row := c.Next(); row != nil; row = c.Next() {
			if !yield(row.(R)) {
				return
			}
		}
	}
}

// Cursor is Scan row by row.
func (x *Index[R]) Cursor(tx Reader, parts ...string) Cursor[R] {
	c := x.index.cursor(tx.reader(), KeyOf(parts...))
	c.keepOverlay()
	return Cursor[R]{c}
}

// First returns the first row whose key begins with the parts, nil if there is none.
func (x *Index[R]) First(tx Reader, parts ...string) R {
	r, _ := x.index.first(tx.reader(), parts).(R)
	return r
}

// Has reports whether the key of any row begins with the parts.
func (x *Index[R]) Has(tx Reader, parts ...string) bool {
	return x.index.first(tx.reader(), parts) != nil
}

func (x *index) first(tx *ReadTx, parts []string) any {
	k := appendKey(tx.scratch[:0], parts)
	tx.scratch = k
	c := x.cursor(tx, k)
	return c.Next()
}

// After returns the first row behind those whose key begins with the parts, nil if there is none. With it a
// caller goes from group to group of rows. A query does not watch a read with After.
func (x *Index[R]) After(tx Reader, parts ...string) R {
	k := KeyOf(parts...)
	k[len(k)-1]++ // behind the end mark of the last part, and before any longer part
	c := Cursor[R]{x.index.seek(tx.reader(), k)}
	return c.Next()
}

// Seek returns a cursor at the first row whose key begins with the parts or follows such keys. A query does
// not watch a read with Seek.
func (x *Index[R]) Seek(tx Reader, parts ...string) *Cursor[R] {
	c := x.index.seek(tx.reader(), KeyOf(parts...))
	c.keepOverlay()
	return &Cursor[R]{c}
}

// cursor returns a cursor over the rows whose key begins with k. It keeps k.
func (x *index) cursor(tx *ReadTx, k Key) cursor {
	tx.recordRead(x.at(k))
	return x.newCursor(tx, tx.txn.Get, k, k)
}

func (x *index) seek(tx *ReadTx, k Key) cursor {
	tx.tables.add(x.path.table)
	return x.newCursor(tx, tx.txn.LowerBound, k, nil)
}

// at pairs a key with the access path of the index, which has a tree of its own.
func (x *index) at(k Key) pathKey {
	return pathKey{x.path, k}
}

// newCursor returns a cursor that reads the tree as seek does from a key on, and the rows of the overlay
// whose key begins with prefix. The next change makes it invalid, unless the caller calls keepOverlay before.
func (x *index) newCursor(tx *ReadTx, seek seekTree, from, prefix Key) cursor {
	at := x.at(from)
	c := cursor{index: x, at: from}
	if x.lists && prefix != nil {
		c.base = tx.scanList(at)
	} else {
		c.base = tx.scan(seek, at)
	}
	if tx.overlay != nil {
		c.over = tx.overlay.from(at, prefix)
	}
	return c
}

// keyOf returns the key of a row in the index, nil if the index omits the row. id is its key in the table.
func (x *index) keyOf(r any, id Key) Key {
	if r == nil {
		return nil
	}
	k := x.key(r)
	if k == nil {
		return nil
	}
	return x.complete(k, id)
}

// keysOf returns all keys of a row in the index. id is its key in the table.
func (x *index) keysOf(r any, id Key) []Key {
	if r == nil {
		return nil
	}
	if x.keys == nil {
		if k := x.keyOf(r, id); k != nil {
			return []Key{k}
		}
		return nil
	}
	ks := x.keys(r)
	for i, k := range ks {
		ks[i] = x.complete(k, id)
	}
	return ks
}

// complete makes a key unique: it appends the key in the table.
func (x *index) complete(k, id Key) Key {
	if x.unique {
		return k
	}
	return slices.Concat(k, id)
}

// nextKey returns the least key of a row in the index that is not below k, or that is above k if beyond is
// set. The row is in the tree, so there is one.
func (x *index) nextKey(r any, k Key, beyond bool) Key {
	follows := func(own Key) bool {
		order := bytes.Compare(own, k)
		return order > 0 || order == 0 && !beyond
	}
	if x.key != nil && x.unique { // the usual index: a row has one key, which needs no other
		if own := x.key(r); follows(own) {
			return own
		}
	} else {
		for _, own := range sortDistinct(x.keysOf(r, x.table.key(r))) {
			if follows(own) {
				return own
			}
		}
	}
	panic(fmt.Sprintf("table %s: a row has changed since it was put", x.table.name))
}
