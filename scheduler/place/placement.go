package place

import (
	"berth/scheduler/feasible"
	"berth/scheduler/rollout"
	"berth/structs"
)

// Kind is the reason of a placement. It decides what happens to the allocation that the placement replaces.
type Kind int

const (
	KindNew        Kind = iota // replaces none
	KindUpdate                 // replaces one of an older version, which runs until its successor has a place
	KindMove                   // replaces one that the plan has stopped
	KindReschedule             // replaces one that has ended
	KindReturn                 // replaces one that an earlier plan has stopped, and that found no place then
	KindAway                   // takes the place of one whose node is away, and which may come back
	KindSeveral                // several that replace none, with the lowest free indexes
	KindEachNode               // one on each of some nodes, which replace none
)

// Placement is one allocation to place, or several that replace none.
type Placement struct {
	Group  *Group
	Prev   *structs.Allocation // replaced by this one, or nil
	Canary bool                // placed beside the allocations of older versions
	Delay  int64               // of KindReschedule, nanoseconds
	Ended  bool                // the plan has stopped Prev already: it moves, or stops for another
	Held   bool                // the plan left the update to a later one: its deployment continues in batches

	kind    Kind
	demand  feasible.Demand
	node    *structs.Node       // in per-node jobs: the node that it belongs to
	data    *structs.Allocation // of KindNew: ended long ago, and this one takes over its data, or nil
	victims []string            // the allocations that it displaces

	count int             // of KindSeveral
	taken map[int]bool    // of KindSeveral: the indexes in use
	nodes []*structs.Node // of KindEachNode, sorted by ID
}

// ReplacedReason is the description of an allocation with the cause StopReplaced.
const ReplacedReason = "replaced by a newer version of the job"

// newPlacement returns the placement of an allocation with an index that replaces none.
func newPlacement(g *Group, index int) Placement {
	return Placement{
		Group:  g,
		demand: feasible.Demand{Group: g.Spec, Index: index},
	}
}

// NewCanary returns the placement of a canary with an index.
func NewCanary(g *Group, index int) *Placement {
	w := newPlacement(g, index)
	w.Canary = true
	return &w
}

// NewSeveral returns the placement of a number of allocations that replace none. They get the lowest
// indexes that are not taken.
func NewSeveral(g *Group, count int, taken map[int]bool) *Placement {
	w := newPlacement(g, 0)
	w.kind = KindSeveral
	w.count = count
	w.taken = taken
	return &w
}

// NewOnEach returns the placement of one allocation on each node of a list, which is sorted by ID.
func NewOnEach(g *Group, nodes []*structs.Node) *Placement {
	w := newPlacement(g, 0)
	w.kind = KindEachNode
	w.nodes = nodes
	return &w
}

// NewSuccessor returns the placement of the successor of an allocation.
func NewSuccessor(g *Group, k Kind, prev *structs.Allocation) *Placement {
	w := newPlacement(g, prev.Index())
	w.kind = k
	w.Prev = prev
	w.demand.Prev = prev.ID
	w.Ended = k == KindMove
	if k == KindUpdate {
		// Only an update has a predecessor that leaves now. That of the others has ended or stopped, or may
		// come back.
		w.demand.Leaves = prev
	}
	return &w
}

// NewSuccessorOn returns the placement of the successor of an allocation of a per-node job, on the node that
// the successor belongs to.
func NewSuccessorOn(g *Group, k Kind, prev *structs.Allocation, n *structs.Node) *Placement {
	w := NewSuccessor(g, k, prev)

	// Allocations of per-node jobs are told apart by their nodes.
	w.demand.Index = 0
	w.node = n
	return w
}

// IsUpdate reports whether the placement replaces an allocation of an older version, which runs until there
// is a place.
func (w *Placement) IsUpdate() bool {
	return w.kind == KindUpdate
}

// Size returns the number of allocations to place.
func (w *Placement) Size() int {
	switch w.kind {
	case KindSeveral:
		return w.count
	case KindEachNode:
		return len(w.nodes)
	}
	return 1
}

// place returns the place of the allocation in its group.
func (w *Placement) place() rollout.Place {
	if w.node != nil {
		return rollout.Place{Node: w.node.ID}
	}
	return rollout.Place{Index: w.demand.Index}
}

// order returns the rank of a placement in its plan.
func (w *Placement) order() int {
	switch {
	case w.IsUpdate():
		return 1
	case w.Group.Pace.PrecedesUpdates():
		return 0
	}
	return 2
}
