package state

import (
	"sync"

	"github.com/hashicorp/go-memdb"

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
	jobs,
	jobVersions,
	allocs,
	evals,
	wakes,
}

// tableIndex is the row that says at which log index a table last changed. The transaction writes it.
type tableIndex struct {
	Name   string
	Newest uint64
	structs.Indexes
}

// appliedMark names the row that holds the index of the last entry applied, whatever it changed.
const appliedMark = "applied"

var tableIndexes = newTable("table_indexes", func(t *tableIndex) key { return keyOf(t.Name) })

// tableIndexOf reads without taking note: the indexes of tables are about answers, not part of them.
func tableIndexOf(tx *Read, name string) uint64 {
	found, err := tx.txn.First(tableIndexes.schema.Name, idIndex, keyOf(name))
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	if found == nil {
		return 0
	}
	return found.(*tableIndex).Newest
}

// anyTable is a table whatever its rows are.
type anyTable interface {
	name() string
	place(number int) *memdb.TableSchema
	save(tx *Read, out pieceWriter) error
	load(txn *memdb.Txn, p *pool, in pieceReader) error
}

func (t *table[T]) name() string { return t.schema.Name }

func (t *table[T]) place(number int) *memdb.TableSchema {
	t.number = number
	return t.schema
}

type builtSchema struct {
	db     *memdb.DBSchema
	tables []anyTable
}

// schema is built when the first store is made: by then every index has been added to its table.
var schema = sync.OnceValue(func() builtSchema {
	s := builtSchema{db: &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}, tables: allTables}
	for n, t := range allTables {
		if _, twice := s.db.Tables[t.name()]; twice || n >= 64 {
			panic("two tables " + t.name() + ", or more than 64")
		}
		s.db.Tables[t.name()] = t.place(n)
	}
	return s
})
