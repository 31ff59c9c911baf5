package mvcc

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestRows_VersionsNeverChange when later writings set rows, also beyond the end of a root.
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
			writing, next := writings.Add(1), version{now.rows, map[uint32]int{}}
			for k, v := range now.want {
				next.want[k] = v
			}
			for i := range rapid.IntRange(0, 20).Draw(t, "rows") {
				at := number.Draw(t, "number")
				next.rows.set(writing, at, 100*n+i)
				next.want[at] = 100*n + i
			}
			all, now = append(all, next), next
			for _, v := range all {
				for at, want := range v.want {
					if got := v.rows.at(at); got != want {
						t.Fatalf("row %d is %v, want %d", at, got, want)
					}
				}
			}
		}
	})
}

// TestRows_CostDoesNotDependOnSize of the vector: a writing copies nodes of fixed sizes.
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
		t.Errorf("%.0f allocations among 10 rows, %.0f among 200,000", few, many)
	}
}

// rowTable has the methods of a Table that consistent needs.
type rowTable interface {
	pathsOf(row any) []pathKey
}

// consistent compares the trees, the rows and the numbers of slots.
func consistent(t *testing.T, s *DB) {
	t.Helper()
	v, tx := s.now.Load(), s.Read()
	used, keys := map[uint32]*slot{}, 0
	for _, p := range v.schema.paths {
		slots := tx.scan(tx.txn.Get, pathKey{path: p}).slots
		for at, _ := slots.Next().(*slot); at != nil; at, _ = slots.Next().(*slot) {
			keys++
			if known := used[at.number]; at.number == 0 || known != nil && known != at {
				t.Fatalf("two rows are kept at %d", at.number)
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
					t.Fatalf("%s has another slot at %q", k.path.name, k.key)
				}
			}
		}
	}
	if want != keys {
		t.Fatalf("the trees have %d keys, the rows have %d", keys, want)
	}
	for _, number := range v.slots.unused {
		if used[number] != nil || v.rows.any(number) != nil {
			t.Fatalf("number %d is free and used by %v", number, v.rows.any(number))
		}
		used[number] = &slot{}
	}
	if n := len(v.slots.taken) + len(v.slots.freed); len(used) != int(v.slots.last) || n > 0 {
		t.Fatalf("%d numbers are used or free, of %d; %d are under way", len(used), v.slots.last, n)
	}
}

// TestSlots_ReuseNumbers of deleted rows.
func TestSlots_ReuseNumbers(t *testing.T) {
	s, index, random := open(), uint64(0), rand.New(rand.NewPCG(1, 1))
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
		consistent(t, s)
	}
	if last := s.now.Load().slots.last; last > 200 {
		t.Errorf("%d numbers are used for 20 rows", last)
	}
	other := open()
	if err := other.Load(strings.NewReader(string(saved(t, s)))); err != nil {
		t.Fatal(err)
	}
	consistent(t, other)
}

// pathsOf returns the keys of a row in all indexes, that of the table first, and none for a row of another
// type.
func (t *Table[T]) pathsOf(row any) (all []pathKey) {
	r, _ := row.(*T)
	if r == nil {
		return nil
	}
	id := t.KeyOfRow(r)
	for _, x := range append([]*Index[T]{&t.ownIndex}, t.others...) {
		for _, k := range distinct(x.keysOf(r, id)) {
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
	k := r.roots[number/rootRows]
	s := k.at[number>>(leafBits+branchBits)%(1<<branchBits)]
	if s != nil && s.at[number>>leafBits%(1<<branchBits)] != nil {
		row = r.at(number)
	}
	return row
}
