package mvcc

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRows_VersionsNeverChange: later writings set rows, also beyond the end of a root.
func TestRows_VersionsNeverChange(t *testing.T) {
	atEnd := rapid.Uint32Range(rootRows-20, rootRows+20)
	number := rapid.OneOf(rapid.Uint32Range(1, 40), atEnd, rapid.Uint32Range(1, 3*rootRows))
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			rows rowVector
			want map[uint32]int
		}
		var all []version
		now := version{want: map[uint32]int{}}
		for n := range rapid.IntRange(1, 6).Draw(t, "writings") {
			writing := newWriting()
			next := version{now.rows, map[uint32]int{}}
			for k, v := range now.want {
				next.want[k] = v
			}
			for i := range rapid.IntRange(0, 20).Draw(t, "rows") {
				at := number.Draw(t, "number")
				next.rows.Set(writing, at, 100*n+i)
				next.want[at] = 100*n + i
			}
			all = append(all, next)
			now = next
			for _, v := range all {
				for at, want := range v.want {
					if got := v.rows.At(at); got != want {
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
		var r rowVector
		for number, writing := uint32(1), newWriting(); number <= n; number++ {
			r.Set(writing, number, &r)
		}
		return testing.AllocsPerRun(100, func() {
			now := r
			now.Set(newWriting(), n/2+1, &r)
		})
	}
	if few, many := cost(10), cost(200_000); few != many {
		t.Errorf("a writing makes %.0f allocations with 10 rows and %.0f with 200,000, want equal numbers",
			few, many)
	}
}
