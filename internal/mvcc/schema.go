package mvcc

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Schema lists the tables of a database. It must not be copied, and its tables belong to it alone.
type Schema struct {
	// Tables are in the order in which a snapshot file holds them. Each index has to be declared before Open.
	Tables []AnyTable

	once  sync.Once
	built *builtSchema
}

// AnyTable is a Table of any row type.
type AnyTable interface {
	Name() string
	IndexNames() []string
	RowType() string
	// Has reports whether the table has a row whose key begins with parts.
	Has(tx Reader, parts ...string) bool

	// IsComputed reports whether the rows follow from rows of other tables: no snapshot file has them.
	IsComputed() bool

	numberPaths(number int) []*path
	save(tx *ReadTx, out PieceWriter) error
	load(l *loading, in PieceReader) error
}

// builtSchema is a schema whose tables have their numbers.
type builtSchema struct {
	tables []AnyTable
	paths  []*path // of all tables
	own    []*path // by the numbers of the tables
}

// build numbers the tables and indexes at the first call.
func (s *Schema) build() *builtSchema {
	s.once.Do(func() {
		s.built = buildSchema(s)
	})
	return s.built
}

func buildSchema(s *Schema) *builtSchema {
	b := &builtSchema{
		tables: append([]AnyTable{newTableIndexes()}, s.Tables...),
	}
	names := map[string]bool{}
	for n, t := range b.tables {
		all := t.numberPaths(n)
		b.own = append(b.own, all[0])
		for _, p := range all {
			if names[p.name] {
				panic("there are two " + p.name)
			}

			names[p.name] = true
			p.order = len(b.paths)
			p.tree = treeName(p.order)
			b.paths = append(b.paths, p)
		}
	}

	return b
}

// find returns the number of the table with the name, -1 if there is none.
func (s *builtSchema) find(name string) int {
	return slices.IndexFunc(s.tables, func(t AnyTable) bool {
		return t.Name() == name
	})
}

// AllTables returns the tables in the order in which a snapshot file holds them, with the table of table
// indexes.
func (s *Schema) AllTables() []AnyTable {
	return s.build().tables
}

// TableIndex is the row of a snapshot file with the log index at which a table last changed. The row
// "applied" has the index of the last entry applied.
type TableIndex struct {
	Name        string
	Newest      uint64
	CreateIndex uint64
	ModifyIndex uint64
}

// Stamps implements Record.
func (t *TableIndex) Stamps() (created, modified uint64) {
	return t.CreateIndex, t.ModifyIndex
}

// Stamp implements Record.
func (t *TableIndex) Stamp(created, modified uint64) {
	t.CreateIndex = created
	t.ModifyIndex = modified
}

// tableIndexes is the table of TableIndex. Only snapshot files have rows of it: in a database the
// view holds the indexes.
type tableIndexes struct{ *Table[*TableIndex] }

// appliedRow names the row with the index of the last applied entry, with or without changes.
const appliedRow = "applied"

func newTableIndexes() tableIndexes {
	return tableIndexes{NewTable("table_indexes", func(t *TableIndex) Key {
		return KeyOf(t.Name)
	})}
}

func (t tableIndexes) save(tx *ReadTx, out PieceWriter) error {
	v := tx.view
	rows := []any{&TableIndex{Name: appliedRow, Newest: v.applied}}
	for n, other := range v.schema.tables {
		newest := v.marks.of(n).newest
		if n > 0 && newest == 0 || other.IsComputed() {
			continue // files of versions before a table do not name it
		}
		row := &TableIndex{Name: other.Name(), Newest: newest}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b any) int {
		return bytes.Compare(t.table.key(a), t.table.key(b))
	})
	return t.table.saveRows(rows, out)
}

func (t tableIndexes) load(l *loading, in PieceReader) error {
	return t.table.loadRows(in, func(row any) error {
		r := row.(*TableIndex)
		if r.Name == appliedRow {
			l.view.applied = r.Newest
		}
		n := l.view.schema.find(r.Name)
		if n >= 0 {
			l.view.marks.edit(l.writing, n).newest = r.Newest
		}
		return nil
	})
}

// Name returns the name of the table.
func (t *Table[R]) Name() string {
	return t.table.name
}

// IndexNames returns the sorted names of the indexes, without the key of the table.
func (t *Table[R]) IndexNames() []string {
	return t.table.indexNames()
}

func (t *table) indexNames() []string {
	var names []string
	for _, x := range t.others {
		names = append(names, x.name)
	}
	slices.Sort(names)
	return names
}

func (t *Table[R]) numberPaths(number int) []*path {
	return t.table.numberPaths(number)
}

// numberPaths numbers the table and names its access paths. It returns them, the keys of the table first. It
// is not inlined, because the compiler would write it for each type of rows.
//
//go:noinline
func (t *table) numberPaths(number int) []*path {
	*t.path = path{
		name:  t.name,
		table: number,
		own:   true,
	}
	all := []*path{t.path}
	for _, x := range t.others {
		*x.path = path{
			name:  t.name + "." + x.name,
			table: number,
			lists: x.lists,
			sums:  x.sums,
		}
		all = append(all, x.path)
	}
	return all
}

// RowType returns the type of the rows, as structs.Node.
func (t *Table[R]) RowType() string {
	return strings.TrimPrefix(fmt.Sprintf("%T", *new(R)), "*")
}
