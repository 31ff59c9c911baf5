package state

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"berth/structs"
)

// allTables is every table there is, in the order in which a snapshot holds them.
var allTables = []anyTable{
	tableIndexes,
	nodes,
	plugins,
	instances,
	counts,
	volumes,
	claims,
	lines,
	attachments,
	jobVersions, // before jobs: what goes on behind the jobs would take versions that have none for jobs
	jobs,
	allocs,
	evals,
	wakes,
}

// mostTables is how many tables there may be.
const mostTables = 16

// tableIndex is the row that says at which log index a table last changed. It is in snapshots only: in a store
// each view holds the numbers itself.
type tableIndex struct {
	Name   string
	Newest uint64
	structs.Indexes
}

// appliedMark names the row that holds the index of the last entry applied, whatever it changed.
const appliedMark = "applied"

var tableIndexes = marks{newTable("table_indexes", func(t *tableIndex) key { return keyOf(t.Name) })}

// marks is the table of a view's own numbers.
type marks struct{ *table[tableIndex] }

func (marks) save(tx *Read, out pieceWriter) error {
	rows := []*tableIndex{{Name: appliedMark, Newest: tx.view.applied}}
	for n, t := range schema().tables {
		rows = append(rows, &tableIndex{Name: t.name(), Newest: tx.view.newest[n]})
	}
	slices.SortFunc(rows, func(a, b *tableIndex) int { return cmp.Compare(a.Name, b.Name) })
	return saveRows(slices.Values(rows), out)
}

func (marks) load(l *loading, in pieceReader) error {
	return loadRows(in, func(*tableIndex) {}, func(r *tableIndex) error {
		if r.Name == appliedMark {
			l.view.applied = r.Newest
		}
		for n, t := range schema().tables {
			if t.name() == r.Name {
				l.view.newest[n] = r.Newest
			}
		}
		return nil
	})
}

// tableIndexOf is the log index at which a table last changed.
func tableIndexOf(tx *Read, name string) uint64 {
	for n, t := range schema().tables {
		if t.name() == name {
			return tx.view.newest[n]
		}
	}
	return 0
}

// anyTable is a table whatever its rows are.
type anyTable interface {
	name() string
	indexNames() []string
	place(number, lead int) (next int)
	rowType() string
	setAlone(bool)
	firstByte() byte
	keyOfRow(any) key
	save(tx *Read, out pieceWriter) error
	load(l *loading, in pieceReader) error
}

func (t *table[T]) name() string { return t.title }

// indexNames lists the indexes beside the table's own.
func (t *table[T]) indexNames() []string {
	var names []string
	for _, x := range t.others {
		names = append(names, x.title)
	}
	slices.Sort(names)
	return names
}

// place gives the table its number and its indexes their first bytes, from one on, and returns the next.
func (t *table[T]) place(number, lead int) (next int) {
	t.number, t.lead = number, byte(lead)
	for i, x := range t.others {
		x.lead = byte(lead + 1 + i)
	}
	return lead + 1 + len(t.others)
}

func (t *table[T]) firstByte() byte { return t.lead }

// keyOfRow is the key of a row in its table, nil if it is none of its.
func (t *table[T]) keyOfRow(row any) key {
	if r, _ := row.(*T); r != nil {
		return t.whole(r)
	}
	return nil
}

func (t *table[T]) rowType() string { return fmt.Sprintf("%T", (*T)(nil)) }

func (t *table[T]) setAlone(alone bool) { t.alone = alone && len(t.others) == 0 }

type builtSchema struct {
	tables []anyTable
	number [256]int               // of a table, by the first byte of its own keys
	whole  [256]func(row any) key // by the first bytes of tables' own keys: the key of a row; nil for other indexes
}

// schema is built when the first store is made: by then every index has been added to its table.
var schema = sync.OnceValue(func() *builtSchema {
	s := &builtSchema{tables: allTables}
	names, types, lead := map[string]bool{}, map[string]int{}, 1
	for n, t := range allTables {
		if names[t.name()] || n >= mostTables || lead >= 200 {
			panic("two tables " + t.name() + ", or too many")
		}
		names[t.name()] = true
		types[t.rowType()]++
		lead = t.place(n, lead)
		s.whole[t.firstByte()], s.number[t.firstByte()] = t.keyOfRow, n
	}
	for _, t := range allTables {
		t.setAlone(types[t.rowType()] == 1)
	}
	return s
})
