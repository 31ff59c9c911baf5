package scheduler

import (
	"slices"

	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
)

// An update of a job that runs on every node replaces at most max_parallel allocations of a group at a time:
// a batch. The next batch follows `stagger` later. The allocations that the job has tell which of them were
// replaced meanwhile. So whatever evaluates the job, and whoever leads, the pace is the same.
//
// Only an evaluation of all nodes replaces allocations in batches, because plans of single nodes are made at
// the same time and do not know of each other.

// beginBatch sets how many of the updates of a per-node group the plan may do.
func (p *planner) beginBatch(g *place.Group, placements []*place.Placement) {
	updates := slices.ContainsFunc(placements, func(w *place.Placement) bool { return w.IsUpdate() })
	if !updates || !g.Spec.TaskGroup.Update.Rolls() {
		return
	}

	if p.outlook.Scope != "" {
		// A pace without a batch admits no update here: an evaluation of all nodes does it.
		g.Pace = rollout.NewPace(p.outlook.Job, g.Spec.TaskGroup, nil)
		return
	}

	filled := map[string]bool{} // nodes
	empty := p.emptyPlaces(g, func(at rollout.Place) bool {
		own := p.outlook.OwnByNode()[at.Node]
		filled[at.Node] = slices.ContainsFunc(own, func(a *structs.Allocation) bool { return hasAlloc(g, a) })
		return filled[at.Node]
	})

	// Those younger than the stagger are the present batch, and BeginBatch counts them against max_parallel.
	// Those of the future, before the cluster time was set back, would be younger for as long.
	var replaced []int64
	begin := p.outlook.Now.Add(-g.Spec.TaskGroup.Update.Stagger).UnixNano()
	end := p.outlook.Now.Add(clustertime.Tolerance).UnixNano()
	clock := clustertime.Of(p.outlook)
	for a := range p.outlook.JobAllocs() {
		created := clustertime.Corrected(clock, a.CreateTime)
		if hasAlloc(g, a) && created > begin && created <= end &&
			(p.isUpdated(a) || filled[a.NodeID] && !p.outlook.IsOlder(a)) {
			replaced = append(replaced, created)
		}
	}

	g.Pace = rollout.NewPace(p.outlook.Job, g.Spec.TaskGroup, empty)
	g.Pace.BeginBatch(replaced, p.outlook.Now, retryDelay)
}

// hasAlloc reports whether an allocation of the job belongs to a group.
func hasAlloc(g *place.Group, a *structs.Allocation) bool {
	return a.TaskGroup == g.Spec.TaskGroup.Name
}

// isUpdated reports whether an allocation of the job's version took the place of one of an older version.
func (p *planner) isUpdated(a *structs.Allocation) bool {
	if a.PreviousAllocation == "" || p.outlook.IsOlder(a) {
		return false
	}
	prev := state.Alloc(p.outlook, a.PreviousAllocation)
	return prev == nil || p.outlook.IsOlder(prev)
}

// wants reports whether a group wants an allocation at the place of one.
func (p *planner) wants(g *place.Group, a *structs.Allocation) bool {
	if !g.Spec.Job.PerNode() {
		return a.Index() < g.Spec.TaskGroup.Count
	}
	n := p.outlook.NodeOf(a)
	return n != nil && g.Spec.CheckNode(n) == nil
}

// isReplaced reports whether an allocation was stopped for a successor of a newer version, and no allocation
// names it as the one that it replaces.
func isReplaced(a *structs.Allocation) bool {
	return a.ServerTerminal() && a.NextAllocation == "" && a.StopCause == structs.StopReplaced
}

// emptyPlaces returns the places of a group whose allocations earlier plans have stopped for the update.
func (p *planner) emptyPlaces(g *place.Group, taken func(rollout.Place) bool) map[rollout.Place]bool {
	empty := map[rollout.Place]bool{}
	for _, a := range p.replaced {
		at := rollout.PlaceOf(p.outlook.Job, a)
		if hasAlloc(g, a) && p.outlook.IsOlder(a) && p.wants(g, a) && !taken(at) {
			empty[at] = true
		}
	}
	return empty
}
