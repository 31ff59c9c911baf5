package state

import "berth/structs"

// evalAllocsRow has the number of allocations that an evaluation has placed. A count of 0 has no row.
type evalAllocsRow struct {
	structs.Indexes
	PlacedBy
	Allocs int
}

// PlacedBy names the evaluation that has placed an allocation, and the job of both.
type PlacedBy struct{ EvalID, Namespace, JobID string }

func PlacedByOf(a *structs.Allocation) PlacedBy {
	if a == nil || a.EvalID == "" {
		return PlacedBy{}
	}
	return PlacedBy{a.EvalID, a.Namespace, a.JobID}
}

// recountEvalAllocs keeps the rows when an allocation changes. before or now may be nil.
func recountEvalAllocs(tx *WriteTx, before, now *structs.Allocation) {
	was := PlacedByOf(before)
	is := PlacedByOf(now)
	if was != is {
		changeEvalAllocs(tx, was, -1)
		changeEvalAllocs(tx, is, 1)
	}
}

// changeEvalAllocs adds to the number of allocations that an evaluation has placed.
func changeEvalAllocs(tx *WriteTx, by PlacedBy, change int) {
	if by.EvalID == "" {
		return
	}
	evalAllocs.Edit(tx, func(before *evalAllocsRow) *evalAllocsRow {
		row := &evalAllocsRow{PlacedBy: by, Allocs: change}
		if before != nil {
			row.Allocs += before.Allocs
		}
		if row.Allocs == 0 {
			return nil
		}
		return row
	}, by.EvalID, by.Namespace, by.JobID)
}
