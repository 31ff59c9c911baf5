package mvcc

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// manyTables returns a database with a number of tables of things, beside that of the table indexes.
func manyTables(n int) (*DB, []*Table[*thing]) {
	var own []*Table[*thing]
	schema := &Schema{}
	for i := range n {
		t := NewTable(fmt.Sprint("table", i), func(t *thing) Key { return KeyOf(t.ID) })
		own = append(own, t)
		schema.Tables = append(schema.Tables, t)
	}
	return Open(schema), own
}

// TestMarks_OfAnyNumberOfTables: each of many tables has its own rows, index, watch and part of a file, also
// those whose numbers are above the bits of the first words of a set.
func TestMarks_OfAnyNumberOfTables(t *testing.T) {
	const tables = 700
	db, own := manyTables(tables)
	before := db.Read()
	put := func(index uint64, n int) {
		t.Helper()
		err := db.Write(index, func(tx *WriteTx) error {
			own[n].Put(tx, &thing{ID: "a"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range own {
		put(uint64(10+n), n)
	}
	if own[tables-1].Len(before) != 0 || own[tables-1].Newest(before) != 0 {
		t.Error("a write has changed a view that was read before it")
	}

	check := func(db *DB) {
		t.Helper()
		for n, table := range own {
			tx := db.Read()
			want := uint64(10 + n)
			if table.Len(tx) != 1 || table.Newest(tx) != want || tx.Newest() != want {
				t.Fatalf("table %d has %d rows, newest %d, read at %d; want 1 row at %d",
					n, table.Len(tx), table.Newest(tx), tx.Newest(), want)
			}
		}
	}
	check(db)

	last := db.Read()
	own[tables-1].Get(last, "a")
	put(5000, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Wait(ctx, last); err == nil {
		t.Error("the reader of the last table was woken by a change of the first one")
	}
	put(5001, tables-1)
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := db.Wait(ctx, last); err != nil {
		t.Errorf("the reader of the last table was not woken: %v", err)
	}

	var file bytes.Buffer
	if err := db.Save(&file); err != nil {
		t.Fatal(err)
	}
	restored := Open(&Schema{Tables: db.schema.tables[1:]})
	if err := restored.Load(&file); err != nil {
		t.Fatal(err)
	}
	tx := restored.Read()
	if own[tables-1].Len(tx) != 1 || own[tables-1].Newest(tx) != 5001 {
		t.Errorf("the restored last table has %d rows at %d", own[tables-1].Len(tx), own[tables-1].Newest(tx))
	}
}

// TestMarks_VersionsNeverChange: a value of the marks stays as it was when copies of it change.
func TestMarks_VersionsNeverChange(t *testing.T) {
	const tables = 40
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			marks tableMarks
			want  [tables]tableMark
		}
		now := version{marks: newTableMarks(tables)}
		all := []version{now}
		for writing := range uint64(rapid.IntRange(1, 5).Draw(t, "writings")) {
			for range rapid.IntRange(0, 10).Draw(t, "changes") {
				n := rapid.IntRange(0, tables-1).Draw(t, "table")
				to := tableMark{newest: rapid.Uint64().Draw(t, "newest"), rows: rapid.Int().Draw(t, "rows")}
				*now.marks.edit(writing+1, n) = to
				now.want[n] = to
			}
			all = append(all, now)
			for _, v := range all {
				for n, want := range v.want {
					if got := v.marks.of(n); got != want {
						t.Fatalf("table %d: got %+v, want %+v", n, got, want)
					}
				}
			}
		}
	})
}

func TestTableSet_IsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s tableSet
		want := map[int]bool{}
		for _, n := range rapid.SliceOf(rapid.IntRange(0, 1000)).Draw(t, "tables") {
			s.add(n)
			want[n] = true
		}
		for n := range 1002 {
			if s.has(n) != want[n] {
				t.Fatalf("has(%d) is %t", n, s.has(n))
			}
		}
		last := -1
		s.each(func(n int) {
			if !want[n] || n <= last {
				t.Fatalf("each gives %d after %d", n, last)
			}
			delete(want, n)
			last = n
		})
		if len(want) > 0 {
			t.Fatalf("each leaves out %v", want)
		}
	})
}

// TestMarks_AWriteAllocatesTheSameBesideMoreTables: what a write copies does not grow with the schema.
func TestMarks_AWriteAllocatesTheSameBesideMoreTables(t *testing.T) {
	objects := func(tables int) float64 {
		db, own := manyTables(tables)
		index := uint64(0)
		return testing.AllocsPerRun(200, func() {
			index++
			putOne(db, own[tables-1], index)
		})
	}
	if few, many := objects(60), objects(200); few != many {
		t.Errorf("a write makes %.0f objects beside 60 tables and %.0f beside 200", few, many)
	}
}

func putOne(db *DB, in *Table[*thing], index uint64) {
	err := db.Write(index, func(tx *WriteTx) error {
		in.Put(tx, &thing{ID: "a"})
		return nil
	})
	if err != nil {
		panic(err)
	}
}

// BenchmarkTables measures a write of one row and a read of it in schemas of several sizes.
func BenchmarkTables(b *testing.B) {
	for _, tables := range []int{60, 200} {
		db, own := manyTables(tables)
		b.Run(fmt.Sprintf("write/tables=%d", tables), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				putOne(db, own[tables-1], uint64(i))
			}
		})
		b.Run(fmt.Sprintf("read/tables=%d", tables), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				tx := db.Read()
				own[tables-1].Get(tx, "a")
				tx.Newest()
			}
		})
	}
}
