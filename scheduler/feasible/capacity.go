package feasible

import (
	"slices"

	"berth/state"
	"berth/structs"
)

// A placement that has the capacity of allocations which the plan stops names them: it waits on the node for
// their end. The others may start at once.

// freedCapacity is the capacity of an allocation that the plan stops.
type freedCapacity struct {
	alloc *structs.Allocation
	left  structs.Resources // that no placement has
}

// addFreed adds the capacity of an allocation that the plan stops.
func (v *NodeView) addFreed(a *structs.Allocation) {
	given := &freedCapacity{alloc: a}
	if a.Resources != nil {
		given.left = *a.Resources
	}
	v.stops = append(v.stops, given)
}

// takeCapacity gives a placement its capacity: first from the allocations that it replaces and displaces,
// then free capacity, then from others that the plan stops. It returns these others. The log counts the
// capacity of the allocations that a placement names in the same order: else a later one would name others
// than it has.
func (v *NodeView) takeCapacity(a *structs.Allocation) (from []*structs.Allocation) {
	need := a.Resources.Least(*a.Resources)
	for id := range a.Awaits() {
		for _, given := range v.stops {
			if given.alloc.ID == id {
				given.take(&need)
			}
		}
	}
	need = need.Sub(v.Capacity.TakeFree(need))
	for _, given := range v.stops {
		if given.take(&need) {
			from = append(from, given.alloc)
		}
	}
	return from
}

// take moves capacity to a placement that needs it, and reports whether there was any.
func (g *freedCapacity) take(need *structs.Resources) bool {
	part := need.Least(g.left)
	g.left = g.left.Sub(part)
	*need = need.Sub(part)
	return structs.Resources{}.Exceeded(part) != ""
}

// nameAwaited names the allocations that a placement waits for besides its predecessor and its victims. They
// give it capacity, or one of all these waits for them and may end first.
func (p *Outlook) nameAwaited(a *structs.Allocation, v *NodeView) {
	from := v.takeCapacity(a)

	// Most placements wait for nobody, and the node starts them at once.
	if a.PreviousAllocation == "" && len(a.PreemptedAllocations)+len(from) == 0 {
		return
	}

	add := func(id string) {
		if !slices.Contains(slices.Collect(a.Awaits()), id) {
			a.AwaitedAllocations = append(a.AwaitedAllocations, id)
		}
	}

	// The list is collected first, because add makes it longer. A predecessor that has not started yet waits
	// itself, for allocations that still have the capacity.
	for _, id := range slices.Collect(a.Awaits()) {
		if other := state.Alloc(p, id); other != nil {
			eachAwaited(p, other, add)
		}
	}

	for _, other := range from {
		add(other.ID)
		eachAwaited(p, other, add)
	}
}

// eachAwaited calls fn with the allocations that have not ended and that a waits for.
func eachAwaited(tx state.Reader, a *structs.Allocation, fn func(id string)) {
	for id := range a.Awaits() {
		other := state.Alloc(tx, id)
		if other != nil && !other.ClientTerminal() {
			fn(id)
		}
	}
}
