package mvcc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestRows_VersionsNeverChange: later writings set rows, also beyond the end of a root.
func TestRows_VersionsNeverChange(t *testing.T) {
	atEnd := rapid.Uint32Range(rootRows-20, rootRows+20)
	number := rapid.OneOf(rapid.Uint32Range(1, 40), atEnd, rapid.Uint32Range(1, 3*rootRows))
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			rows rows
			want map[uint32]int
		}
		var all []version
		now := version{want: map[uint32]int{}}
		for n := range rapid.IntRange(1, 6).Draw(t, "writings") {
			writing := writings.Add(1)
			next := version{now.rows, map[uint32]int{}}
			for k, v := range now.want {
				next.want[k] = v
			}
			for i := range rapid.IntRange(0, 20).Draw(t, "rows") {
				at := number.Draw(t, "number")
				next.rows.set(writing, at, 100*n+i)
				next.want[at] = 100*n + i
			}
			all = append(all, next)
			now = next
			for _, v := range all {
				for at, want := range v.want {
					if got := v.rows.at(at); got != want {
						t.Fatalf("row %d: got %v, want %d", at, got, want)
					}
				}
			}
		}
	})
}

// TestRows_CostDoesNotDependOnSize: a writing copies nodes of fixed sizes.
func TestRows_CostDoesNotDependOnSize(t *testing.T) {
	cost := func(n uint32) float64 {
		var r rows
		for number, writing := uint32(1), writings.Add(1); number <= n; number++ {
			r.set(writing, number, &r)
		}
		return testing.AllocsPerRun(100, func() {
			now := r
			now.set(writings.Add(1), n/2+1, &r)
		})
	}
	if few, many := cost(10), cost(200_000); few != many {
		t.Errorf("a writing makes %.0f allocations with 10 rows and %.0f with 200,000, want equal numbers",
			few, many)
	}
}

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
			all := must(tx.txn.Get(p.name, memdbIndex, tx.keyArgs(nil)...))
			for list, _ := all.Next().(*slot); list != nil; list, _ = all.Next().(*slot) {
				if used[list.number] != nil || len(v.rows.at(list.number).(listRow).list()) == 0 {
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
			all := table.(rowTable).pathsOf(v.rows.at(number))
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
	for _, number := range v.slots.unused {
		if used[number] != nil || v.rows.any(number) != nil {
			t.Fatalf("number %d is unused, but has the row %v", number, v.rows.any(number))
		}
		used[number] = &slot{}
	}
	if n := len(v.slots.taken) + len(v.slots.freed); len(used) != int(v.slots.last) || n > 0 {
		t.Fatalf("%d numbers are used or unused, want %d; the allocator holds %d of a batch, want 0",
			len(used), v.slots.last, n)
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
	if last := s.now.Load().slots.last; last > 200 {
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

// any is at for a number that may be unset in this version, because an aborted batch has set it.
func (r rows) any(number uint32) (row any) {
	if int(number/rootRows) >= len(r.roots) {
		return nil
	}
	inRoot, inBranch, _ := position(number)
	b := r.roots[number/rootRows].at[inRoot]
	if b != nil && b.at[inBranch] != nil {
		row = r.at(number)
	}
	return row
}
