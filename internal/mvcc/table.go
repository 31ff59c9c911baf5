package mvcc

import (
	"bytes"
	"slices"

	"berth/structs"
)

// Record is the interface of each row type: it has the log indexes at which the row was created and last
// changed.
type Record interface{ Stamped() *structs.Indexes }

// Table holds the rows of one type. Each row has a unique key. A leading part of the key selects rows, too.
type Table[T any] struct {
	ownIndex[T]
	others []*Index[T] // all indexes but its own
	stamps func(*T) *structs.Indexes
	onPut  func(now, like *T)
	whole  func(*T) bool // nil: each row is

	onChange func(tx *WriteTx, before, now *T) // or nil
	computed bool
}

// ownIndex is the embedded index of a table, whose field cannot have the name of the method Index.
type ownIndex[T any] = Index[T]

// NewTable declares a table. The key function must be pure, because a deletion computes the key again.
func NewTable[T any, R interface {
	*T
	Record
}](name string, key func(*T) Key) *Table[T] {
	t := &Table[T]{ownIndex: Index[T]{
		name:   name,
		path:   &path{},
		key:    key,
		unique: true,
	}}
	t.table = t
	t.stamps = func(r *T) *structs.Indexes {
		return R(r).Stamped()
	}
	return t
}

// OnPut declares a function that Put and DB.Load call before they store a row. It may replace values of the
// row by equal ones that other rows hold. like is a row that may have equal values, or nil: the one that now
// replaces, or that of PutNew. Load calls the function from several goroutines.
func (t *Table[T]) OnPut(fn func(now, like *T)) *Table[T] {
	t.onPut = fn
	return t
}

// Require declares a property of each row that readers rely on. Writers have to ensure it, and DB.Load
// rejects a file with a row without it.
func (t *Table[T]) Require(whole func(*T) bool) *Table[T] {
	t.whole = whole
	return t
}

// OnChange declares a function that Put and Delete call after they have changed a row. It may change rows of
// computed tables. One of before and now may be nil. DB.Load does not call it: a fixup computes these rows.
func (t *Table[T]) OnChange(fn func(tx *WriteTx, before, now *T)) *Table[T] {
	t.onChange = fn
	return t
}

// Computed declares that the rows follow from those of other tables. Snapshot files do not have them.
func (t *Table[T]) Computed() *Table[T] {
	t.computed = true
	return t
}

// IsComputed implements AnyTable.
func (t *Table[T]) IsComputed() bool { return t.computed }

// Index declares an index. It omits a row whose key is nil. Rows with equal keys have the order of their keys
// in the table.
func (t *Table[T]) Index(name string, key func(*T) Key) *Index[T] {
	return t.addIndex(&Index[T]{
		name: name,
		key:  key,
	})
}

// UniqueIndex declares an index in which no two rows have equal keys.
func (t *Table[T]) UniqueIndex(name string, key func(*T) Key) *Index[T] {
	return t.addIndex(&Index[T]{
		name:   name,
		key:    key,
		unique: true,
	})
}

// ListIndex declares a unique index for groups of a few hundred rows at most: a write of a row costs less
// than in another index, and more with each row that has the same first part of the key. Scan, First and Has
// read it, without parts or with the first one.
func (t *Table[T]) ListIndex(name string, key func(*T) Key) *Index[T] {
	return t.addIndex(&Index[T]{
		name:   name,
		key:    key,
		unique: true,
		lists:  true,
	})
}

// MultiIndex declares an index in which a row may have several keys.
func (t *Table[T]) MultiIndex(name string, keys func(*T) []Key) *Index[T] {
	return t.addIndex(&Index[T]{
		name: name,
		keys: keys,
	})
}

func (t *Table[T]) addIndex(x *Index[T]) *Index[T] {
	x.table = t
	x.path = &path{}
	t.others = append(t.others, x)
	return x
}

// Get returns the row with the key, nil if there is none.
func (t *Table[T]) Get(from Reader, parts ...string) *T {
	tx := from.reader()
	tx.scratch = appendKey(tx.scratch[:0], parts)
	at := t.at(tx.scratch)
	tx.recordRead(at)
	r, _ := tx.lookup(at).row.(*T)
	return r
}

// KeyOfRow returns the key of a row.
func (t *Table[T]) KeyOfRow(r *T) Key {
	return t.key(r)
}

// Newest returns the log index of the entry that last changed the table.
func (t *Table[T]) Newest(tx Reader) uint64 {
	return tx.reader().view.newest[t.path.table]
}

// Put inserts a row, or replaces the row with the same key, and stamps it. The table owns the row from then
// on. It returns the row that it replaced, nil if there was none.
func (t *Table[T]) Put(tx *WriteTx, r *T) (before *T) {
	id := t.KeyOfRow(r)
	old := tx.lookup(t.at(id))
	before, _ = old.row.(*T)
	t.shareValues(r, before)
	t.store(tx, id, old, r)
	return before
}

// PutNew is Put for a row whose key no row has, as the caller knows. It does not look for one. like is a row
// that may have equal values, for the function of OnPut; it may be nil. PutNew does not call the function of
// OnChange: the caller changes the rows of computed tables, once for many new rows.
func (t *Table[T]) PutNew(tx *WriteTx, r, like *T) {
	t.shareValues(r, like)
	t.replace(tx, t.KeyOfRow(r), cell{}, t.stamped(tx, cell{}, r))
	tx.spill()
}

// Edit replaces the row with the key by the one that edit returns for it. Either may be nil: no row.
func (t *Table[T]) Edit(tx *WriteTx, edit func(before *T) *T, parts ...string) {
	id := KeyOf(parts...)
	old := tx.lookup(t.at(id))
	before, _ := old.row.(*T)
	r := edit(before)
	switch {
	case r != nil:
		t.shareValues(r, before)
		t.store(tx, id, old, r)
	case before != nil:
		t.change(tx, id, old, cell{})
	}
}

func (t *Table[T]) shareValues(r, like *T) {
	if t.onPut != nil {
		t.onPut(r, like)
	}
}

// store puts a row in place of an old one, which may be absent.
func (t *Table[T]) store(tx *WriteTx, id Key, old cell, r *T) {
	t.change(tx, id, old, t.stamped(tx, old, r))
}

// stamped stamps a row that replaces an old one, which may be absent, and returns its cell.
func (t *Table[T]) stamped(tx *WriteTx, old cell, r *T) cell {
	stamp := t.stamps(r)
	stamp.CreateIndex = tx.Index
	stamp.ModifyIndex = tx.Index
	if before, _ := old.row.(*T); before != nil {
		stamp.CreateIndex = t.stamps(before).CreateIndex
	}
	now := cell{old.slot, r}
	if now.slot == nil {
		now.slot = &slot{}
	}
	return now
}

// Delete removes the row with the key of r, if there is one. It returns the row that it removed, or nil.
func (t *Table[T]) Delete(tx *WriteTx, r *T) (before *T) {
	id := t.KeyOfRow(r)
	old := tx.lookup(t.at(id))
	before, _ = old.row.(*T)
	if before != nil {
		t.change(tx, id, old, cell{})
	}
	return before
}

// change replaces a row by another one and calls the function of OnChange. Each row may be absent.
func (t *Table[T]) change(tx *WriteTx, id Key, old, now cell) {
	t.replace(tx, id, old, now)
	if t.onChange != nil {
		before, _ := old.row.(*T)
		after, _ := now.row.(*T)
		t.onChange(tx, before, after)
	}
	tx.spill()
}

// replace replaces a row by another one in every index. Each may be absent.
func (t *Table[T]) replace(tx *WriteTx, id Key, old, now cell) {
	tx.touched |= 1 << t.path.table
	tx.set(t.at(id), old, now)
	for _, x := range t.others {
		x.change(tx, id, old, now)
	}
}

func (x *Index[T]) change(tx *WriteTx, id Key, old, now cell) {
	if x.keys != nil {
		x.changeMany(tx, id, old, now)
		return
	}
	before, _ := old.row.(*T)
	after, _ := now.row.(*T)
	from := x.keyOf(before, id)
	to := x.keyOf(after, id)
	if from != nil && to != nil &&
		bytes.Equal(from, to) {
		tx.set(x.at(to), old, now)
		return
	}
	if from != nil {
		tx.set(x.at(from), old, cell{})
	}
	if to != nil {
		tx.set(x.at(to), cell{}, now)
	}
}

// changeMany is change for an index in which a row has several keys.
func (x *Index[T]) changeMany(tx *WriteTx, id Key, old, now cell) {
	before, _ := old.row.(*T)
	after, _ := now.row.(*T)
	from := sortDistinct(x.keysOf(before, id))
	to := sortDistinct(x.keysOf(after, id))
	for len(from)+len(to) > 0 {
		switch {
		case len(to) == 0 ||
			len(from) > 0 && compareKeys(from[0], to[0]) < 0:
			tx.set(x.at(from[0]), old, cell{})
			from = from[1:]
		case len(from) == 0 || compareKeys(from[0], to[0]) > 0:
			tx.set(x.at(to[0]), cell{}, now)
			to = to[1:]
		default:
			tx.set(x.at(to[0]), old, now)
			from = from[1:]
			to = to[1:]
		}
	}
}

// sortDistinct sorts keys and removes duplicates.
func sortDistinct(ks []Key) []Key {
	slices.SortFunc(ks, compareKeys)
	return slices.CompactFunc(ks, func(a, b Key) bool {
		return bytes.Equal(a, b)
	})
}

func compareKeys(a, b Key) int {
	return bytes.Compare(a, b)
}
