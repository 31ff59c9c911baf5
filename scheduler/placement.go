package scheduler

import (
	"berth/scheduler/feasible"
	"berth/scheduler/rollout"
	"berth/structs"
)

// kind is the reason of a placement. It decides what happens to the allocation that the placement replaces.
type kind int

const (
	kindNew        kind = iota // replaces none
	kindUpdate                 // replaces one of an older version, which runs until its successor has a place
	kindMove                   // replaces one that the plan has stopped
	kindReschedule             // replaces one that has ended
	kindReturn                 // replaces one that an earlier plan has stopped, and that found no place then
	kindSeveral                // several that replace none, with the lowest free indexes
	kindEachNode               // one on each of some nodes, which replace none
)

// placement is one allocation to place, or several that replace none.
type placement struct {
	kind   kind
	plan   *groupPlan
	demand feasible.Demand
	node   *structs.Node       // in per-node jobs: the node that it belongs to
	prev   *structs.Allocation // replaced by this one, or nil
	data   *structs.Allocation // of kindNew: ended long ago, and this one takes over its data, or nil
	canary bool                // placed beside the allocations of older versions
	delay  int64               // of kindReschedule, nanoseconds

	ended   bool     // the plan has stopped prev already: it moves, or stops for the successor of another
	held    bool     // the plan left the update to a later one: its deployment continues in batches
	victims []string // the allocations that it displaces

	count int             // of kindSeveral
	taken map[int]bool    // of kindSeveral: the indexes in use
	nodes []*structs.Node // of kindEachNode, sorted by ID
}

// replacedReason is the description of an allocation with the cause StopReplaced.
const replacedReason = "replaced by a newer version of the job"

// newPlacement returns the placement of an allocation with an index that replaces none.
func newPlacement(g *groupPlan, index int) placement {
	return placement{
		plan:   g,
		demand: feasible.Demand{Group: g.spec, Index: index},
	}
}

// placeCanary returns the placement of a canary with an index.
func placeCanary(g *groupPlan, index int) *placement {
	w := newPlacement(g, index)
	w.canary = true
	return &w
}

// placeSeveral returns the placement of a number of allocations that replace none. They get the lowest
// indexes that are not taken.
func placeSeveral(g *groupPlan, count int, taken map[int]bool) *placement {
	w := newPlacement(g, 0)
	w.kind = kindSeveral
	w.count = count
	w.taken = taken
	return &w
}

// placeOnEach returns the placement of one allocation on each node of a list, which is sorted by ID.
func placeOnEach(g *groupPlan, nodes []*structs.Node) *placement {
	w := newPlacement(g, 0)
	w.kind = kindEachNode
	w.nodes = nodes
	return &w
}

// replace returns the placement of the successor of an allocation.
func replace(g *groupPlan, k kind, prev *structs.Allocation) *placement {
	w := newPlacement(g, prev.Index())
	w.kind = k
	w.prev = prev
	w.ended = k == kindMove
	if k == kindUpdate {
		w.demand.Leaves = prev
	}
	return &w
}

// replaceOnNode returns the placement of the successor of an allocation of a per-node job, on the node that
// the successor belongs to.
func replaceOnNode(g *groupPlan, k kind, prev *structs.Allocation, n *structs.Node) *placement {
	w := replace(g, k, prev)
	w.demand.Index = 0
	w.node = n
	return w
}

// isUpdate reports whether the placement replaces an allocation of an older version, which runs until there
// is a place.
func (w *placement) isUpdate() bool {
	return w.kind == kindUpdate
}

// size returns the number of allocations to place.
func (w *placement) size() int {
	switch w.kind {
	case kindSeveral:
		return w.count
	case kindEachNode:
		return len(w.nodes)
	}
	return 1
}

// place returns the place of the allocation in its group.
func (w *placement) place() rollout.Place {
	if w.node != nil {
		return rollout.Place{Node: w.node.ID}
	}
	return rollout.Place{Index: w.demand.Index}
}

// order returns the rank of a placement in its plan.
func (w *placement) order() int {
	switch {
	case w.isUpdate():
		return 1
	case w.plan.updates.PrecedesUpdates():
		return 0
	}
	return 2
}
