package mvcc

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"berth/structs"
)

// Schema lists the tables of a database. It is not to be copied, and its tables belong to it alone.
type Schema struct {
	// Tables are in the order in which a snapshot file holds them. Each index has to be declared before Open.
	Tables []AnyTable

	// Interner makes the value that the functions of OnPut get: one for each state of a database, and one more
	// for the rows of each snapshot file, with decoding set. Nobody else has a reference to a part of such a
	// row.
	Interner func(decoding bool) any

	once  sync.Once
	built *builtSchema
}

// maxTables is the largest number of tables.
const maxTables = 24

// maxIndexes is the largest number of indexes of all tables together: one byte of a key.
const maxIndexes = 200

// AnyTable is a Table of any row type.
type AnyTable interface {
	Name() string
	IndexNames() []string
	RowType() string

	place(number, lead int) (next int)
	setAlone(bool)
	firstByte() byte
	keyOfRow(any) Key
	save(tx *ReadTx, out pieceWriter) error
	load(l *loading, in pieceReader) error
}

// builtSchema is a schema whose tables have their numbers.
type builtSchema struct {
	tables   []AnyTable
	interner func(decoding bool) any
	number   [256]int               // of a table, by the first byte of its keys
	keyOfRow [256]func(row any) Key // by the first byte of the keys of a table; nil for other indexes
}

// build numbers the tables and indexes at the first call.
func (s *Schema) build() *builtSchema {
	s.once.Do(func() { s.built = buildSchema(s) })
	return s.built
}

func buildSchema(s *Schema) *builtSchema {
	b := &builtSchema{tables: append([]AnyTable{newTableIndexes()}, s.Tables...), interner: s.Interner}
	if b.interner == nil {
		b.interner = func(bool) any { return nil }
	}
	names, types, lead := map[string]bool{}, map[string]int{}, 1
	for n, t := range b.tables {
		if names[t.Name()] || n >= maxTables || lead >= maxIndexes {
			panic("two tables " + t.Name() + ", or too many")
		}
		names[t.Name()] = true
		types[t.RowType()]++
		lead = t.place(n, lead)
		b.keyOfRow[t.firstByte()], b.number[t.firstByte()] = t.keyOfRow, n
	}
	for _, t := range b.tables {
		t.setAlone(types[t.RowType()] == 1)
	}
	return b
}

// AllTables returns the tables in the order in which a snapshot file holds them, with the table of table
// indexes.
func (s *Schema) AllTables() []AnyTable { return s.build().tables }

// tableIndexes is the table of structs.TableIndex. Only snapshot files have rows of it: in a database the
// view holds the indexes.
type tableIndexes struct{ *Table[structs.TableIndex] }

// appliedRow names the row with the index of the last entry applied, whatever it changed.
const appliedRow = "applied"

func newTableIndexes() tableIndexes {
	return tableIndexes{NewTable("table_indexes", func(t *structs.TableIndex) Key { return KeyOf(t.Name) })}
}

func (tableIndexes) save(tx *ReadTx, out pieceWriter) error {
	rows := []*structs.TableIndex{{Name: appliedRow, Newest: tx.view.applied}}
	for n, t := range tx.view.schema.tables {
		rows = append(rows, &structs.TableIndex{Name: t.Name(), Newest: tx.view.newest[n]})
	}
	slices.SortFunc(rows, func(a, b *structs.TableIndex) int { return cmp.Compare(a.Name, b.Name) })
	return saveRows(slices.Values(rows), out)
}

func (tableIndexes) load(l *loading, in pieceReader) error {
	return loadRows(in, func(*structs.TableIndex) {}, func(r *structs.TableIndex) error {
		if r.Name == appliedRow {
			l.view.applied = r.Newest
		}
		for n, t := range l.view.schema.tables {
			if t.Name() == r.Name {
				l.view.newest[n] = r.Newest
			}
		}
		return nil
	})
}

// Name returns the name of the table.
func (t *Table[T]) Name() string { return t.name }

// IndexNames returns the sorted names of the indexes, without the key of the table.
func (t *Table[T]) IndexNames() []string {
	var names []string
	for _, x := range t.others {
		names = append(names, x.name)
	}
	slices.Sort(names)
	return names
}

// place numbers the table, and its indexes from lead on. It returns the next number of an index.
func (t *Table[T]) place(number, lead int) (next int) {
	t.number, t.lead = number, byte(lead)
	for i, x := range t.others {
		x.lead = byte(lead + 1 + i)
	}
	return lead + 1 + len(t.others)
}

func (x *Index[T]) firstByte() byte { return x.lead }

// keyOfRow is KeyOfRow, nil for a row of another type.
func (t *Table[T]) keyOfRow(row any) Key {
	if r, _ := row.(*T); r != nil {
		return t.KeyOfRow(r)
	}
	return nil
}

// RowType returns the type of the rows, as structs.Node.
func (t *Table[T]) RowType() string { return fmt.Sprintf("%T", *new(T)) }

func (t *Table[T]) setAlone(alone bool) { t.alone = alone && len(t.others) == 0 }
