package mvcc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// rowTable has the methods of a Table that checkConsistent needs.
type rowTable interface {
	pathsOf(row any) []pathKey
}

// checkConsistent compares the trees, the rows and the numbers of slots.
func checkConsistent(t *testing.T, s *DB) {
	t.Helper()
	v := s.now.Load()
	tx := s.Read()
	used := map[uint32]*slot{}
	keys := 0
	for _, p := range v.schema.paths {
		if p.lists {
			all := must(tx.txn.Get(p.tree, memdbIndex, tx.keyArgs(nil)...))
			for list, _ := all.Next().(*slot); list != nil; list, _ = all.Next().(*slot) {
				if used[list.number] != nil || len(v.rows.At(list.number).(listRow).list()) == 0 {
					t.Fatalf("the list at number %d is empty or has the number of another row", list.number)
				}
				used[list.number] = list
			}
		}
		slots := tx.scanAll(p).slots
		for at, _ := slots.Next().(*slot); at != nil; at, _ = slots.Next().(*slot) {
			keys++
			if known := used[at.number]; at.number == 0 || known != nil && known != at {
				t.Fatalf("two slots have the number %d, or it is 0", at.number)
			}
			used[at.number] = at
		}
	}
	want := 0
	for number, at := range used {
		for _, table := range testSchema.Tables {
			all := table.(rowTable).pathsOf(v.rows.At(number))
			if len(all) == 0 || tx.inTree(all[0]) != at {
				continue
			}
			want += len(all)
			for _, k := range all {
				if tx.inTree(k) != at {
					t.Fatalf("%s has another slot at key %q", k.path.name, k.key)
				}
			}
		}
	}
	if want != keys {
		t.Fatalf("the trees have %d keys, the rows have %d", keys, want)
	}
	unused, last, pending := v.slots.Unused()
	for _, number := range unused {
		if used[number] != nil || anyRow(v.rows, number) != nil {
			t.Fatalf("number %d is unused, but has the row %v", number, anyRow(v.rows, number))
		}
		used[number] = &slot{}
	}
	if len(used) != int(last) || pending > 0 {
		t.Fatalf("%d numbers are used or unused, want %d; the allocator holds %d of a batch, want 0",
			len(used), last, pending)
	}
}

// TestSlots_ReuseNumbers: new rows get the numbers of deleted ones.
func TestSlots_ReuseNumbers(t *testing.T) {
	s := openDB()
	index := uint64(0)
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		b := s.Begin()
		b.most = 1 + random.IntN(20)
		for range 3 {
			index++
			fails := random.IntN(3) == 0
			_ = b.Apply(index, func(tx *WriteTx) error {
				for n := range 20 {
					items.Put(tx, &item{ID: fmt.Sprint("e", n), Space: "n", Group: "j"})
				}
				for n := range 20 {
					items.Delete(tx, &item{ID: fmt.Sprint("e", random.IntN(20+n))})
				}
				if fails {
					return fmt.Errorf("no")
				}
				return nil
			})
		}
		if random.IntN(4) == 0 {
			b.Abort()
		}
		b.Commit()
		checkConsistent(t, s)
	}
	if _, last, _ := s.now.Load().slots.Unused(); last > 200 {
		t.Errorf("20 rows take numbers up to %d, want at most 200", last)
	}
	other := openDB()
	if err := other.Load(bytes.NewReader(snapshotFile(t, s))); err != nil {
		t.Fatal(err)
	}
	checkConsistent(t, other)
}

// pathsOf returns the keys of a row in all indexes, that of the table first, and none for a row of another
// type.
func (t *Table[R]) pathsOf(row any) (all []pathKey) {
	r, is := row.(R)
	if !is {
		return nil
	}
	id := t.KeyOfRow(r)
	for _, x := range append([]*index{&t.table.index}, t.table.others...) {
		for _, k := range sortDistinct(x.keysOf(r, id)) {
			all = append(all, pathKey{x.path, k})
		}
	}
	return all
}

// anyRow is Rows.At for a number that may be unset in this version, because an aborted batch has set it.
func anyRow(rows rowVector, number uint32) (row any) {
	defer func() { _ = recover() }()
	return rows.At(number)
}
