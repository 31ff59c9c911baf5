package schema

import (
	"berth/internal/mvcc"
	"berth/structs"
)

// EvalAllocsRow has the number of allocations that an evaluation has placed. A count of 0 has no row.
type EvalAllocsRow struct {
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

// recountAlloc keeps the counts that follow from an allocation. before or now may be nil.
func recountAlloc(tx *mvcc.WriteTx, before, now *structs.Allocation) {
	recountEvalAllocs(tx, before, now)
	recountAllocUse(tx, before, now)
}

// recountEvalAllocs keeps the rows when an allocation changes. before or now may be nil.
func recountEvalAllocs(tx *mvcc.WriteTx, before, now *structs.Allocation) {
	was := PlacedByOf(before)
	is := PlacedByOf(now)
	if was != is {
		ChangeEvalAllocs(tx, was, -1)
		ChangeEvalAllocs(tx, is, 1)
	}
}

// ChangeEvalAllocs adds to the number of allocations that an evaluation has placed.
func ChangeEvalAllocs(tx *mvcc.WriteTx, by PlacedBy, change int) {
	if by.EvalID == "" {
		return
	}
	EvalAllocs.Edit(tx, func(before *EvalAllocsRow) *EvalAllocsRow {
		row := &EvalAllocsRow{PlacedBy: by, Allocs: change}
		if before != nil {
			row.Allocs += before.Allocs
		}
		if row.Allocs == 0 {
			return nil
		}
		return row
	}, by.EvalID, by.Namespace, by.JobID)
}
