package mvcc

import (
	"cmp"
	"slices"
	"testing"
)

func TestMerge_KeepsTheOrder(t *testing.T) {
	lists := func(reverse bool) func() []func() *int {
		return func() (next []func() *int) {
			for _, list := range [][]int{{1, 4, 6}, {}, {2, 3, 9}} {
				if reverse {
					slices.Reverse(list)
				}
				next = append(next, func() (v *int) {
					if len(list) > 0 {
						v, list = &list[0], list[1:]
					}
					return v
				})
			}
			return next
		}
	}
	for _, reverse := range []bool{false, true} {
		want := []int{1, 2, 3, 4, 6, 9}
		if reverse {
			slices.Reverse(want)
		}
		var got []int
		compare := func(a, b *int) int { return cmp.Compare(*a, *b) }
		for v := range MergeSorted(lists(reverse), reverse, compare) {
			got = append(got, *v)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reverse %v: got %v, want %v", reverse, got, want)
		}
	}
}
