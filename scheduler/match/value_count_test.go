package match

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestValueCount_KnowsItsLeastAndGreatestCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &ValueCount{Counts: map[string]int{}, Values: map[int]int{}}
		want := map[string]int{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			text := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "value")
			by := 1
			if want[text] > 0 && rapid.Bool().Draw(t, "remove") {
				by = -1
			}
			c.Add(text, by)
			want[text] += by
			if want[text] == 0 {
				delete(want, text)
			}
			counts := slices.Sorted(maps.Values(want))
			least, most := 0, 0
			if len(counts) > 0 {
				least = counts[0]
				most = counts[len(counts)-1]
			}
			if !maps.Equal(c.Counts, want) || c.Least != least || c.Most != most {
				t.Fatalf("got %v from %d to %d, want %v", c.Counts, c.Least, c.Most, want)
			}
		}
	})
}
