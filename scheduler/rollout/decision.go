package rollout

import (
	"cmp"

	"berth/structs"
)

// Action is the decision on an allocation that counts for its group.
type Action int

const (
	Keep       Action = iota
	Refresh           // continues under the new version of the job
	Update            // replaced by the new version once that has a place
	Await             // its node is away, and it has its place
	Replace           // its node is away, and another one takes its place meanwhile
	Move              // stopped now and placed again
	Lose              // lost with its node and placed again
	Reschedule        // ended, and replaced now
	Hold              // ended, and not replaced now or ever
	None              // no longer counts
)

// isAbsent reports whether the group misses the allocation, apart from an update.
func (a Action) isAbsent() bool {
	return a == Await || a == Replace || a == Move || a == Lose
}

// Decision is an allocation with the decision on it.
type Decision struct {
	Alloc  *structs.Allocation
	Index  int // of alloc
	Action Action
	Former bool // it is placed again in its own, older version
	Why    string
	Delay  int64 // of Reschedule, nanoseconds
	Due    int64 // of Hold: the time of the replacement; of Await, Replace: of the loss; 0 for never
}

// Compare orders allocations of one index: the best first. A promoted canary precedes one of an older version
// that moved after the canary was placed.
func (s *Decision) Compare(o *Decision) int {
	return cmp.Or(
		cmp.Compare(s.Action, o.Action),
		cmp.Compare(o.Alloc.JobVersion, s.Alloc.JobVersion),
		cmp.Compare(o.Alloc.CreateIndex, s.Alloc.CreateIndex),
		cmp.Compare(s.Alloc.ID, o.Alloc.ID),
	)
}
