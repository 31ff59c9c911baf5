package mvcc

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
)

// Index is one access path to the rows of a table. A query watches the rows and ranges that it reads through
// an index (see DB.Wait).
type Index[T any] struct {
	table  *Table[T]
	name   string
	path   *path
	key    func(*T) Key
	keys   func(*T) []Key // instead of key, in a multi index
	unique bool           // no two rows have equal keys
	lists  bool           // it is a list index (see list.go)
	sums   listSums       // of its lists, or nil
}

// Scan yields the rows whose key begins with the parts, in key order, or all rows if there are no parts. It
// does not see changes that are made during the scan.
func (x *Index[T]) Scan(tx Reader, parts ...string) iter.Seq[*T] {
	return x.scan(tx.reader(), KeyOf(parts...))
}

func (x *Index[T]) scan(tx *ReadTx, k Key) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		c := x.cursor(tx, k)
		c.keepOverlay()
		for r := c.Next(); r != nil; r = c.Next() {
			if !yield(r) {
				return
			}
		}
	}
}

// Cursor is Scan row by row.
func (x *Index[T]) Cursor(tx Reader, parts ...string) Cursor[T] {
	c := x.cursor(tx.reader(), KeyOf(parts...))
	c.keepOverlay()
	return c
}

// First returns the first row whose key begins with the parts, nil if there is none.
func (x *Index[T]) First(from Reader, parts ...string) *T {
	tx := from.reader()
	k := appendKey(tx.scratch[:0], parts)
	tx.scratch = k
	c := x.cursor(tx, k)
	return c.Next()
}

// Has reports whether the key of any row begins with the parts.
func (x *Index[T]) Has(tx Reader, parts ...string) bool {
	return x.First(tx, parts...) != nil
}

// After returns the first row behind those whose key begins with the parts, nil if there is none. With it a
// caller goes from group to group of rows. A query does not watch a read with After.
func (x *Index[T]) After(tx Reader, parts ...string) *T {
	k := KeyOf(parts...)
	k[len(k)-1]++ // behind the end mark of the last part, and before any longer part
	c := x.seek(tx.reader(), k)
	return c.Next()
}

// Seek returns a cursor at the first row whose key begins with the parts or follows such keys. A query does
// not watch a read with Seek.
func (x *Index[T]) Seek(tx Reader, parts ...string) *Cursor[T] {
	c := x.seek(tx.reader(), KeyOf(parts...))
	c.keepOverlay()
	return &c
}

// cursor returns a cursor over the rows whose key begins with k. It keeps k.
func (x *Index[T]) cursor(tx *ReadTx, k Key) Cursor[T] {
	tx.recordRead(x.at(k))
	return x.newCursor(tx, tx.txn.Get, k, k)
}

func (x *Index[T]) seek(tx *ReadTx, k Key) Cursor[T] {
	tx.tables |= 1 << x.path.table
	return x.newCursor(tx, tx.txn.LowerBound, k, nil)
}

// at pairs a key with the access path of the index, which has a tree of its own.
func (x *Index[T]) at(k Key) pathKey {
	return pathKey{x.path, k}
}

// newCursor returns a cursor that reads the tree as seek does from a key on, and the rows of the overlay
// whose key begins with prefix. The next change makes it invalid, unless the caller calls keepOverlay before.
func (x *Index[T]) newCursor(tx *ReadTx, seek seekTree, from, prefix Key) Cursor[T] {
	at := x.at(from)
	c := Cursor[T]{index: x, at: from}
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
func (x *Index[T]) keyOf(r *T, id Key) Key {
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
func (x *Index[T]) keysOf(r *T, id Key) []Key {
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
func (x *Index[T]) complete(k, id Key) Key {
	if x.unique {
		return k
	}
	return slices.Concat(k, id)
}

// nextKey returns the least key of a row in the index that is not below k, or that is above k if beyond is
// set. The row is in the tree, so there is one.
func (x *Index[T]) nextKey(r *T, k Key, beyond bool) Key {
	follows := func(own Key) bool {
		order := bytes.Compare(own, k)
		return order > 0 || order == 0 && !beyond
	}
	if x.key != nil && x.unique { // the usual index: a row has one key, which needs no other
		if own := x.key(r); follows(own) {
			return own
		}
	} else {
		for _, own := range sortDistinct(x.keysOf(r, x.table.KeyOfRow(r))) {
			if follows(own) {
				return own
			}
		}
	}
	panic(fmt.Sprintf("table %s: a row has changed since it was put", x.table.name))
}
