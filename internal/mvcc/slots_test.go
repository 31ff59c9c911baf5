package mvcc

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// consistent compares the tree, the rows, the numbers of slots and the finder. It returns the number of slots
// that the finder holds.
func consistent(t *testing.T, s *DB) (found int) {
	t.Helper()
	v, tx := s.now.Load(), s.Read()
	used, keys := map[uint32]*slot{}, 0
	for it := tx.scanPrefix(Key{}).slots; ; keys++ {
		at, _ := it.Next().(*slot)
		if at == nil {
			break
		}
		if known := used[at.number]; at.number == 0 || known != nil && known != at {
			t.Fatalf("two rows are kept at %d", at.number)
		}
		used[at.number] = at
	}
	want := 0
	for number, at := range used {
		row := v.rows.at(number)
		for _, table := range testSchema.AllTables() {
			if id := table.keyOfRow(row); id != nil && tx.inTree(id) == at {
				want += table.(interface{ entries(row any) int }).entries(row)
				if at.hash != hashOf(id) {
					t.Fatalf("the hash of %q is not that of its slot", id)
				}
			}
		}
	}
	if want != keys {
		t.Fatalf("the tree has %d keys, the rows have %d", keys, want)
	}
	for _, number := range slices.Concat(v.slots.unused[:]...) {
		if used[number] != nil || v.rows.any(number) != nil {
			t.Fatalf("number %d is free and used by %v", number, v.rows.any(number))
		}
		used[number] = &slot{}
	}
	given := 0
	for table, next := range v.slots.next {
		for branch, of := range v.slots.tableOf {
			switch first := uint32(branch * branchRows); {
			case int(of) != table:
			case next > first && next-first < branchRows: // the current branch
				given += int(next - first - 1)
			default:
				given += branchRows - 1
			}
		}
	}
	if n := len(v.slots.taken) + len(v.slots.freed); len(used) != given || n > 0 {
		t.Fatalf("%d numbers are used or free, of %d; %d are under way", len(used), given, n)
	}
	for i := range *v.finder.slots.places.Load() {
		at := (*v.finder.slots.places.Load())[i].Load()
		if at == nil {
			continue
		}
		if found++; used[at.number] != at {
			t.Fatalf("the writer finds %v, which is not in the tree", v.rows.at(at.number))
		}
	}
	return found
}

// TestFinder_TellsTablesApart whose rows have one type.
func TestFinder_TellsTablesApart(t *testing.T) {
	db := open()
	_ = db.Write(1, func(tx *WriteTx) error {
		items.Put(tx, &item{ID: "a"})
		archive.Put(tx, &item{ID: "a"})
		return nil
	})
	tx, f := db.Read(), db.now.Load().finder
	row := &item{ID: "a"}
	for _, k := range []Key{items.KeyOfRow(row), archive.KeyOfRow(row)} {
		c, known := f.at(k, &tx.rows)
		if !known || c.slot != tx.inTree(k) {
			t.Errorf("%q is not found", k)
		}
	}
	for _, table := range testSchema.AllTables() {
		own := items.KeyOfRow(row)
		own[0] = table.firstByte()
		if byte(hashOf(own)) != table.firstByte() {
			t.Errorf("a key of %s may have the hash of a key of another table", table.Name())
		}
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
	if next := s.now.Load().slots.next[items.number]; next > 200 {
		t.Errorf("%d numbers are used for 20 rows", next)
	}
	other := open()
	if err := other.Load(strings.NewReader(string(saved(t, s)))); err != nil {
		t.Fatal(err)
	}
	consistent(t, other)
}

// entries returns the number of keys of a row in all indexes.
func (t *Table[T]) entries(row any) (n int) {
	r := row.(*T)
	id := t.KeyOfRow(r)
	for _, x := range t.others {
		n += len(distinct(x.keysOf(r, id)))
	}
	return n + 1
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
