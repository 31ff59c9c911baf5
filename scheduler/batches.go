package scheduler

import (
	"slices"

	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
)

// An update of a job that runs on every node replaces at most max_parallel allocations of a group at a time:
// a batch. The next batch follows `stagger` later. The allocations that the job has tell which of them were
// replaced meanwhile. So whatever evaluates the job, and whoever leads, the pace is the same.
//
// Only an evaluation of all nodes replaces allocations in batches, because plans of single nodes are made at
// the same time and do not know of each other.

// beginBatch sets how many of the updates of a per-node group the plan may do.
func (p *planner) beginBatch(g *groupPlan, placements []*placement) {
	updates := slices.ContainsFunc(placements, func(w *placement) bool { return w.update })
	if !updates || !g.spec.group.Update.Rolls() {
		return
	}

	if p.outlook.scope != "" {
		g.updates = rollout.NewPace(p.outlook.job, g.spec.group, nil)
		return
	}

	filled := map[string]bool{} // nodes
	empty := p.emptyPlaces(g, func(at rollout.Place) bool {
		filled[at.Node] = slices.ContainsFunc(p.outlook.ownByNode()[at.Node], g.has)
		return filled[at.Node]
	})
	r := rollout.NewPace(p.outlook.job, g.spec.group, empty)
	g.updates = r
	r.Left = r.Strategy.MaxParallel - len(r.Empty)
	begin := p.outlook.now.Add(-r.Strategy.Stagger).UnixNano()
	for a := range p.outlook.jobAllocs() {
		if g.has(a) && a.CreateTime > begin && (p.isUpdated(a) || filled[a.NodeID] && !p.outlook.isOlder(a)) {
			r.Left--
			r.NoteReplaced(a.CreateTime)
		}
	}

	r.Left = max(0, r.Left)
	if r.Next == 0 && len(r.Empty) > 0 {
		r.Next = p.outlook.now.Add(max(r.Strategy.Stagger, retryDelay)).UnixNano()
	}
}

// has reports whether an allocation of the job belongs to the group.
func (g *groupPlan) has(a *structs.Allocation) bool {
	return a.TaskGroup == g.spec.group.Name
}

// isUpdated reports whether an allocation of the job's version took the place of one of an older version.
func (p *planner) isUpdated(a *structs.Allocation) bool {
	if a.PreviousAllocation == "" || p.outlook.isOlder(a) {
		return false
	}
	prev := state.Alloc(p.outlook, a.PreviousAllocation)
	return prev == nil || p.outlook.isOlder(prev)
}
