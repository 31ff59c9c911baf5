package state

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"berth/structs"
)

// table is one kind of row. Its key is a tuple of strings, and every leading part of the tuple selects
// the rows that have it. The key function must be pure: it is called again to take a row out.
type table[T any] struct {
	index[T]
	number int         // its place in the schema, for the set of tables a transaction has touched
	others []*index[T] // beside its own
	alone  bool        // no other index holds rows of its type
	share  func(p *pool, now, was *T)
}

// index is one way into a table. Keys need not be unique except those of the table itself; rows with
// equal keys come in the order of the table's key.
type index[T any] struct {
	table  *table[T]
	title  string
	lead   byte // the first byte of its keys
	key    func(*T) key
	keys   func(*T) []key // in place of key, where a row may stand several times
	unique bool           // no two rows share a key
}

// row is what a table holds pointers to.
type row interface{ Stamped() *structs.Indexes }

// newTable makes a table with its key. A type without indexes to stamp is a mistake that no test survives.
func newTable[T any](name string, keyOfRow func(*T) key) *table[T] {
	if _, ok := any((*T)(nil)).(row); !ok {
		panic(fmt.Sprintf("table %s: its rows have no indexes to stamp", name))
	}
	t := &table[T]{index: index[T]{title: name, key: keyOfRow, unique: true}}
	t.table = t
	return t
}

// sharing sets what makes a row share with others what they have in common; it is called when a row comes in,
// with the one that it replaces, nil if there is none.
func (t *table[T]) sharing(share func(p *pool, now, was *T)) *table[T] {
	t.share = share
	return t
}

// by adds an index. A row whose key is nil is left out of it.
func (t *table[T]) by(name string, keyOfRow func(*T) key) *index[T] {
	return t.add(&index[T]{title: name, key: keyOfRow})
}

// byUnique adds an index whose keys no two rows share: it needs no copy of the table's key in each of its own.
func (t *table[T]) byUnique(name string, keyOfRow func(*T) key) *index[T] {
	return t.add(&index[T]{title: name, key: keyOfRow, unique: true})
}

// byMany adds an index in which a row may stand several times.
func (t *table[T]) byMany(name string, keys func(*T) []key) *index[T] {
	return t.add(&index[T]{title: name, keys: keys})
}

func (t *table[T]) add(x *index[T]) *index[T] {
	x.table = t
	t.others = append(t.others, x)
	return x
}

// get returns the row with the whole key, nil if there is none. A waiting reader watches that row alone.
func (t *table[T]) get(tx *Read, parts ...string) *T {
	k := appendKey(tx.scratch[:0], t.lead, parts)
	tx.scratch = k
	tx.note(t.number, k)
	r, _ := tx.lookup(k).row.(*T)
	return r
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
		c := x.under(tx, k)
		for r := c.Next(); r != nil; r = c.Next() {
			if !yield(r) {
				return
			}
		}
	}
}

// first returns the first row whose key begins with the parts, nil if there is none.
func (x *index[T]) first(tx *Read, parts ...string) *T {
	k := appendKey(tx.scratch[:0], x.lead, parts)
	tx.scratch = k
	c := x.atOnce(tx, k)
	return c.Next()
}

// has reports whether any row's key begins with the parts.
func (x *index[T]) has(tx *Read, parts ...string) bool { return x.first(tx, parts...) != nil }

// under goes through the rows whose key begins so; a waiting reader watches them all, and what comes between.
func (x *index[T]) under(tx *Read, k key) cursor[T] {
	c := x.atOnce(tx, k)
	c.over = slices.Clone(c.over)
	return c
}

// atOnce is under for who takes the first row before anything else is done: neither the key nor what is pending
// is copied.
func (x *index[T]) atOnce(tx *Read, k key) cursor[T] {
	k[0] = x.lead
	tx.note(x.table.number, k)
	c := cursor[T]{index: x, base: tx.under(k), at: k}
	if tx.pending != nil {
		c.over = tx.pending.under(k)
	}
	return c
}

// after returns the first row whose key does not begin with these parts and follows those whose key does,
// nil if there is none. It is for going from group to group of rows; a waiting reader watches the rows it
// got elsewhere.
func (x *index[T]) after(tx *Read, parts ...string) *T {
	k := keyOf(parts...)
	k[len(k)-1]++ // past the end mark of the last part, and before anything longer
	c := x.onwards(tx, k)
	return c.Next()
}

// from iterates over all rows from the first on whose key begins with the parts or follows. Nobody waits for
// what comes so.
func (x *index[T]) from(tx *Read, parts ...string) *cursor[T] {
	c := x.onwards(tx, keyOf(parts...))
	c.over = slices.Clone(c.over)
	return &c
}

// onwards is from; but what is pending is not copied, so that nothing may be written while it is gone through.
func (x *index[T]) onwards(tx *Read, k key) cursor[T] {
	k[0] = x.lead
	tx.mask |= 1 << x.table.number
	c := cursor[T]{index: x, base: tx.onwards(k), ends: !x.table.alone, at: k}
	if tx.pending != nil {
		c.over = tx.pending.onwards(k)
	}
	return c
}

// put inserts the row or replaces the one with its key, and stamps it. The row belongs to the table from
// then on. It returns the row that was there, nil if there was none.
func (t *table[T]) put(tx *Write, r *T) (old *T) {
	id := t.whole(r)
	was := tx.lookup(id)
	old, _ = was.row.(*T)
	if t.share != nil {
		t.share(tx.view.pool, r, old)
	}
	at := any(r).(row).Stamped()
	at.CreateIndex, at.ModifyIndex = tx.Index, tx.Index
	if old != nil {
		at.CreateIndex = any(old).(row).Stamped().CreateIndex
	}
	is := cell{was.slot, r}
	if is.slot == nil {
		is.slot = tx.batch.store.spare.slots[t.number].make(hashOf(id))
	}
	t.change(tx, id, was, is)
	return old
}

// delete takes the row with this row's key out; one that is not there is done already. It returns the row
// that was there, nil if there was none.
func (t *table[T]) delete(tx *Write, r *T) (old *T) {
	id := t.whole(r)
	was := tx.lookup(id)
	if old, _ = was.row.(*T); old != nil {
		t.change(tx, id, was, cell{})
	}
	return old
}

// change brings the row with the key from what it was to what it is, in every index.
func (t *table[T]) change(tx *Write, id key, was, is cell) {
	tx.touched |= 1 << t.number
	tx.set(id, was, is)
	for _, x := range t.others {
		x.change(tx, id, was, is)
	}
	tx.spill()
}

func (x *index[T]) change(tx *Write, id key, was, is cell) {
	old, _ := was.row.(*T)
	now, _ := is.row.(*T)
	if x.keys != nil {
		x.changeMany(tx, distinct(x.allOf(old, id)), distinct(x.allOf(now, id)), was, is)
		return
	}
	from, to := x.of(old, id), x.of(now, id)
	switch {
	case from != nil && to != nil && bytes.Equal(from, to):
		tx.set(to, was, is)
		return
	case from != nil:
		tx.set(from, was, cell{})
	}
	if to != nil {
		tx.set(to, cell{}, is)
	}
}

// changeMany is change with the keys before and after, each in order.
func (x *index[T]) changeMany(tx *Write, from, to []key, was, is cell) {
	for len(from)+len(to) > 0 {
		switch {
		case len(to) == 0 || len(from) > 0 && compareKeys(from[0], to[0]) < 0:
			tx.set(from[0], was, cell{})
			from = from[1:]
		case len(from) == 0 || compareKeys(from[0], to[0]) > 0:
			tx.set(to[0], cell{}, is)
			to = to[1:]
		default:
			tx.set(to[0], was, is)
			from, to = from[1:], to[1:]
		}
	}
}

// distinct sorts keys and drops those that stand there twice.
func distinct(ks []key) []key {
	slices.SortFunc(ks, compareKeys)
	return slices.CompactFunc(ks, func(a, b key) bool { return bytes.Equal(a, b) })
}

func compareKeys(a, b key) int { return bytes.Compare(a, b) }

// whole is the key of a row in its table.
func (t *table[T]) whole(r *T) key {
	k := t.key(r)
	k[0] = t.lead
	return k
}

// of is the key of a row, with the key id in its table, in the index; nil if it is not in it.
func (x *index[T]) of(r *T, id key) key {
	if r == nil {
		return nil
	}
	k := x.key(r)
	if k == nil {
		return nil
	}
	return x.complete(k, id)
}

func (x *index[T]) allOf(r *T, id key) []key {
	if r == nil {
		return nil
	}
	if x.keys == nil {
		if k := x.of(r, id); k != nil {
			return []key{k}
		}
		return nil
	}
	ks := x.keys(r)
	for i, k := range ks {
		ks[i] = x.complete(k, id)
	}
	return ks
}

// complete is what the tree knows a row by.
func (x *index[T]) complete(k, id key) key {
	if !x.unique {
		k = append(append(make(key, 0, len(k)+len(id)-1), k...), id[1:]...)
	}
	k[0] = x.lead
	return k
}

// keyFrom is the least key of a row in the index that is not below k; beyond, that is above. It is nil if there
// is none.
func (x *index[T]) keyFrom(r *T, k key, beyond bool) (least key) {
	fits := func(own key) bool {
		order := bytes.Compare(own, k)
		return order > 0 || order == 0 && !beyond
	}
	id := x.table.whole(r)
	switch {
	case x == &x.table.index:
		least = id
	case x.keys == nil:
		least = x.of(r, id)
	default:
		all := slices.DeleteFunc(x.allOf(r, id), func(own key) bool { return !fits(own) })
		if len(all) == 0 {
			return nil
		}
		return slices.MinFunc(all, compareKeys)
	}
	if !fits(least) {
		return nil
	}
	return least
}
