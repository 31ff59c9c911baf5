// Package evalallocs counts the allocations that each evaluation has placed, in a computed table of the
// schema, so that the deletion of an evaluation reads no allocation.
package evalallocs

import (
	"fmt"
	"slices"

	"berth/internal/mvcc"
	"berth/state/check"
	"berth/state/schema"
	"berth/structs"
)

// Of returns the number of allocations that an evaluation has placed.
func Of(tx mvcc.Reader, eval string) (n int) {
	for row := range schema.EvalAllocs.Scan(tx, eval) {
		n += row.Allocs
	}
	return n
}

// CountNew keeps the rows for new allocations, with one change for all of an evaluation that follow
// each other.
func CountNew(tx *mvcc.WriteTx, placed []*structs.Allocation) {
	for len(placed) > 0 {
		by := schema.PlacedByOf(placed[0])
		n := slices.IndexFunc(placed, func(a *structs.Allocation) bool { return schema.PlacedByOf(a) != by })
		if n < 0 {
			n = len(placed)
		}
		schema.ChangeEvalAllocs(tx, by, n)
		placed = placed[n:]
	}
}

// CountAll counts the allocations of all evaluations after a snapshot file was loaded.
func CountAll(tx *mvcc.LoadTx) {
	// The order of the rows does not matter: each key comes once.
	for by, n := range countEach(tx) {
		schema.EvalAllocs.Insert(tx, &schema.EvalAllocsRow{PlacedBy: by, Allocs: n})
	}
}

// countEach counts the allocations by evaluation.
func countEach(tx mvcc.Reader) map[schema.PlacedBy]int {
	all := map[schema.PlacedBy]int{}
	for a := range schema.Allocs.Scan(tx) {
		if a.EvalID != "" {
			all[schema.PlacedByOf(a)]++
		}
	}
	return all
}

// Check checks that each evaluation has the number of its allocations.
func Check(c *check.Report) {
	counted := map[string]int{}
	for by, n := range countEach(c) {
		counted[fmt.Sprint(by)] = n
	}
	kept := map[string]int{}
	for row := range schema.EvalAllocs.Scan(c) {
		kept[fmt.Sprint(row.PlacedBy)] = row.Allocs
	}
	check.WantCounts(c, "allocations of evaluation", counted, kept)
}
