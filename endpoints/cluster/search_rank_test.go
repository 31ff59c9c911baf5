package cluster

import (
	"slices"
	"strings"
	"testing"

	"berth/structs"
)

// TestSearch_BestFirst: an early position is better than a late one, and a short name than a long one. The
// bound drops the worst.
func TestSearch_BestFirst(t *testing.T) {
	f := matches{text: "x", best: map[string][]rankedMatch{}, more: map[string]bool{}}
	names := []string{"aax", "xyz", "ax", "x", "xa", "ab"}
	for range 5 {
		for _, name := range names {
			f.add("jobs", name)
		}
	}
	var got []string
	for _, m := range f.best["jobs"] {
		got = append(got, m.match.ID)
	}
	if len(got) != structs.MaxSearched || !f.more["jobs"] ||
		strings.Join(slices.Compact(got), " ") != "x xa xyz ax" {
		t.Errorf("got %v", got)
	}
}
