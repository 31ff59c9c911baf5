package mvcc

import (
	"bytes"
	"slices"
)

// Record is the interface of each row type: it has the log indexes at which the row was created and last
// changed.
type Record interface {
	Stamps() (created, modified uint64)
	Stamp(created, modified uint64)
}

// Table holds the rows of one type. Each row has a unique key. A leading part of the key selects rows, too. R
// is the type of pointers to rows.
type Table[R Record] struct {
	ownIndex[R]
	table *table
}

// ownIndex is the embedded index of a table, whose field cannot have the name of the method Index.
type ownIndex[R Record] = Index[R]

// table is a Table of any row type. Its code is compiled once, not for each type.
type table struct {
	index
	others []*index            // all indexes but its own
	onPut  func(now, like any) // or nil
	whole  func(row any) bool  // nil: each row is

	onChange func(tx *WriteTx, before, now any) // or nil
	computed bool
	encode   func(rows []any) ([]byte, error) // a chunk of a snapshot file
	decode   func(chunk []byte) ([]any, error)
}

// NewTable declares a table. The key function must be pure, because a deletion computes the key again.
func NewTable[T any, R interface {
	*T
	Record
}](name string, key func(R) Key) *Table[R] {
	t := &table{
		index: index{
			name:   name,
			path:   &path{},
			key:    func(row any) Key { return key(row.(R)) },
			unique: true,
		},
		encode: EncodePiece[T],
		decode: DecodePiece[T],
	}
	t.table = t
	return &Table[R]{Index[R]{&t.index}, t}
}

// OnPut declares a function that Put and DB.Load call before they store a row. It may replace values of the
// row by equal ones that other rows hold. like is a row that may have equal values, or nil: the row that now
// replaces, or the row of PutNew. Load calls the function from several goroutines.
func (t *Table[R]) OnPut(fn func(now, like R)) *Table[R] {
	t.table.onPut = func(now, like any) {
		l, _ := like.(R)
		fn(now.(R), l)
	}
	return t
}

// Require declares a property of each row that readers rely on. Writers have to ensure it, and DB.Load
// rejects a file with a row without it.
func (t *Table[R]) Require(whole func(R) bool) *Table[R] {
	t.table.whole = func(row any) bool { return whole(row.(R)) }
	return t
}

// OnChange declares a function that Put and Delete call after they have changed a row. It may change rows of
// computed tables. One of before and now may be nil. DB.Load does not call it: a fixup computes these rows.
func (t *Table[R]) OnChange(fn func(tx *WriteTx, before, now R)) *Table[R] {
	t.table.onChange = func(tx *WriteTx, before, now any) {
		from, _ := before.(R)
		to, _ := now.(R)
		fn(tx, from, to)
	}
	return t
}

// Computed declares that the rows follow from rows of other tables. Snapshot files do not have them.
func (t *Table[R]) Computed() *Table[R] {
	t.table.computed = true
	return t
}

// IsComputed implements AnyTable.
func (t *Table[R]) IsComputed() bool { return t.table.computed }

// Index declares an index. It omits a row whose key is nil. Rows with equal keys have the order of their keys
// in the table.
func (t *Table[R]) Index(name string, key func(R) Key) *Index[R] {
	return t.addIndex(name, key)
}

// UniqueIndex declares an index in which no two rows have equal keys.
func (t *Table[R]) UniqueIndex(name string, key func(R) Key) *Index[R] {
	x := t.addIndex(name, key)
	x.index.unique = true
	return x
}

// ListIndex declares a unique index for groups of a few hundred rows at most: a write of a row costs less
// than in another index, and more with each row that has the same first part of the key. Scan, First and Has
// read it, without parts or with the first one.
func (t *Table[R]) ListIndex(name string, key func(R) Key) *Index[R] {
	x := t.UniqueIndex(name, key)
	x.index.lists = true
	return x
}

func (t *Table[R]) addIndex(name string, key func(R) Key) *Index[R] {
	x := t.table.addIndex(name)
	x.key = func(row any) Key { return key(row.(R)) }
	return &Index[R]{x}
}

// MultiIndex declares an index in which a row may have several keys.
func (t *Table[R]) MultiIndex(name string, keys func(R) []Key) *Index[R] {
	x := t.table.addIndex(name)
	x.keys = func(row any) []Key { return keys(row.(R)) }
	return &Index[R]{x}
}

// addIndex is not inlined, because the compiler would write it for each type of rows.
//
//go:noinline
func (t *table) addIndex(name string) *index {
	x := &index{
		table: t,
		name:  name,
		path:  &path{},
	}
	t.others = append(t.others, x)
	return x
}

// Get returns the row with the key, nil if there is none.
func (t *Table[R]) Get(tx Reader, parts ...string) R {
	r, _ := t.table.get(tx.reader(), parts).(R)
	return r
}

func (t *table) get(tx *ReadTx, parts []string) any {
	tx.scratch = appendKey(tx.scratch[:0], parts)
	return t.getKey(tx, tx.scratch)
}

// GetKey returns the row with a key that KeyOfRow returned, nil if there is none.
func (t *Table[R]) GetKey(tx Reader, key Key) R {
	r, _ := t.table.getKey(tx.reader(), key).(R)
	return r
}

func (t *table) getKey(tx *ReadTx, key Key) any {
	at := t.at(key)
	tx.recordRead(at)
	return tx.lookup(at).row
}

// KeyOfRow returns the key of a row.
func (t *Table[R]) KeyOfRow(r R) Key {
	return t.table.key(r)
}

// Len returns the number of rows. It reads none of them.
func (t *Table[R]) Len(tx Reader) int { return t.table.length(tx.reader()) }

func (t *table) length(tx *ReadTx) int {
	tx.recordRead(t.at(nil))
	n := tx.marks.of(t.path.table).rows
	if tx.overlay != nil {
		changed := tx.overlay.byPath[t.path.order]
		for i := range changed {
			n += changed[i].added()
		}
	}
	return n
}

// Newest returns the log index of the entry that last changed the table.
func (t *Table[R]) Newest(tx Reader) uint64 {
	return tx.reader().view.marks.of(t.table.path.table).newest
}

// Put inserts a row, or replaces the row with the same key, and stamps it. The table owns the row from then
// on. It returns the row that it replaced, nil if there was none.
func (t *Table[R]) Put(tx *WriteTx, r R) (before R) {
	before, _ = t.table.put(tx, r).(R)
	return before
}

func (t *table) put(tx *WriteTx, r any) (before any) {
	id := t.key(r)
	old := tx.lookup(t.at(id))
	t.shareValues(r, old.row)
	t.store(tx, id, old, r)
	return old.row
}

// PutNew is Put for a row whose key no row has, as the caller knows. It does not look for one. like is a row
// that may have equal values, for the function of OnPut; it may be nil. PutNew does not call the function of
// OnChange: the caller changes the rows of computed tables, once for many new rows.
func (t *Table[R]) PutNew(tx *WriteTx, r, like R) {
	t.table.putNew(tx, r, like)
}

func (t *table) putNew(tx *WriteTx, r, like any) {
	t.shareValues(r, like)
	t.replace(tx, t.key(r), cell{}, t.stamped(tx, cell{}, r))
	tx.spill()
}

// Edit replaces the row with the key by the one that edit returns for it. Either may be nil: no row.
func (t *Table[R]) Edit(tx *WriteTx, edit func(before R) R, parts ...string) {
	id := KeyOf(parts...)
	old := tx.lookup(t.table.at(id))
	var none R
	before, _ := old.row.(R)
	r := edit(before)
	switch {
	case any(r) != any(none):
		t.table.shareValues(r, old.row)
		t.table.store(tx, id, old, r)
	case old.row != nil:
		t.table.change(tx, id, old, cell{})
	}
}

func (t *table) shareValues(r, like any) {
	if t.onPut != nil {
		t.onPut(r, like)
	}
}

// store puts a row in place of an old one, which may be absent.
func (t *table) store(tx *WriteTx, id Key, old cell, r any) {
	t.change(tx, id, old, t.stamped(tx, old, r))
}

// stamped stamps a row that replaces an old one, which may be absent, and returns its cell.
func (t *table) stamped(tx *WriteTx, old cell, r any) cell {
	created := tx.Index
	if old.row != nil {
		created, _ = old.row.(Record).Stamps()
	}
	r.(Record).Stamp(created, tx.Index)

	now := cell{old.slot, r}
	if now.slot == nil {
		now.slot = &slot{}
	}
	return now
}

// Delete removes the row with the key of r, if there is one. It returns the row that it removed, or nil.
func (t *Table[R]) Delete(tx *WriteTx, r R) (before R) {
	before, _ = t.table.remove(tx, r).(R)
	return before
}

func (t *table) remove(tx *WriteTx, r any) (before any) {
	id := t.key(r)
	old := tx.lookup(t.at(id))
	if old.row != nil {
		t.change(tx, id, old, cell{})
	}
	return old.row
}

// change replaces a row by another one and calls the function of OnChange. Each row may be absent.
func (t *table) change(tx *WriteTx, id Key, old, now cell) {
	t.replace(tx, id, old, now)
	if t.onChange != nil {
		t.onChange(tx, old.row, now.row)
	}
	tx.spill()
}

// replace replaces a row by another one in every index. Each may be absent.
func (t *table) replace(tx *WriteTx, id Key, old, now cell) {
	tx.touched.add(t.path.table)
	tx.batch.edits = append(tx.batch.edits, Edit{t.name, old.row, now.row})
	tx.set(t.at(id), old, now)
	for _, x := range t.others {
		x.change(tx, id, old, now)
	}
}

func (x *index) change(tx *WriteTx, id Key, old, now cell) {
	if x.keys != nil {
		x.changeMany(tx, id, old, now)
		return
	}

	from := x.keyOf(old.row, id)
	to := x.keyOf(now.row, id)
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
func (x *index) changeMany(tx *WriteTx, id Key, old, now cell) {
	from := sortDistinct(x.keysOf(old.row, id))
	to := sortDistinct(x.keysOf(now.row, id))
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
