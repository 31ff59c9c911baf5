package state

import (
	"fmt"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Of returns the number of allocations that an evaluation has placed.
func AllocsOfEval(tx mvcc.Reader, eval string) (n int) {
	for row := range schema.EvalAllocs.Scan(tx, eval) {
		n += row.Allocs
	}
	return n
}

// countEvalAllocs keeps the rows for new allocations, with one change for all of an evaluation that follow
// each other.
func countEvalAllocs(tx *mvcc.WriteTx, placed []*structs.Allocation) {
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

// countAllEvalAllocs counts the allocations of all evaluations after a snapshot file was loaded.
func countAllEvalAllocs(tx *mvcc.LoadTx) {
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

// checkEvalAllocs checks that each evaluation has the number of its allocations.
func checkEvalAllocs(c *schema.Report) {
	counted := map[string]int{}
	for by, n := range countEach(c) {
		counted[fmt.Sprint(by)] = n
	}
	kept := map[string]int{}
	for row := range schema.EvalAllocs.Scan(c) {
		kept[fmt.Sprint(row.PlacedBy)] = row.Allocs
	}
	schema.CheckCounts(c, "allocations of evaluation", counted, kept)
}
