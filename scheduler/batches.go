package scheduler

import (
	"slices"

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

	r := &rollout{groupPlan: g, strategy: g.spec.group.Update}
	g.updates = r
	if p.scope != "" {
		return
	}

	filled := map[string]bool{} // nodes
	r.empty = p.emptyPlaces(g, func(at place) bool {
		filled[at.node] = slices.ContainsFunc(p.ownByNode()[at.node], g.has)
		return filled[at.node]
	})
	r.left = r.strategy.MaxParallel - len(r.empty)
	begin := p.now.Add(-r.strategy.Stagger).UnixNano()
	for a := range p.jobAllocs() {
		if g.has(a) && a.CreateTime > begin && (p.isUpdated(a) || filled[a.NodeID] && !p.isOlder(a)) {
			r.left--
			r.noteReplaced(a.CreateTime)
		}
	}

	r.left = max(0, r.left)
	if r.next == 0 && len(r.empty) > 0 {
		r.next = p.now.Add(max(r.strategy.Stagger, retryDelay)).UnixNano()
	}
}

// has reports whether an allocation of the job belongs to the group.
func (g *groupPlan) has(a *structs.Allocation) bool {
	return a.TaskGroup == g.spec.group.Name
}

// isUpdated reports whether an allocation of the job's version took the place of one of an older version.
func (p *planner) isUpdated(a *structs.Allocation) bool {
	if a.PreviousAllocation == "" || p.isOlder(a) {
		return false
	}
	prev := state.Alloc(p, a.PreviousAllocation)
	return prev == nil || p.isOlder(prev)
}

// noteReplaced counts an allocation that was replaced at a time, UnixNano, in the last stagger.
func (r *rollout) noteReplaced(at int64) {
	due := at + int64(r.strategy.Stagger)
	if r.next == 0 || due < r.next {
		r.next = due
	}
}

// addNextBatch adds the evaluation that continues the updates which the plan leaves to a later one.
func (p *planner) addNextBatch() {
	due := int64(0)
	for _, w := range p.placements {
		if !w.held || !w.plan.spec.job.PerNode() || w.plan.mayUpdate() {
			continue
		}

		next := max(w.plan.updates.next, p.now.UnixNano())
		if due == 0 || next < due {
			due = next
		}
	}

	if due == 0 {
		return
	}

	for e := range state.LaterEvalsByJob(p, p.ns, p.job.ID) {
		if e.TriggeredBy == structs.TriggerRollingUpdate && e.ID != p.eval.ID &&
			(p.scope != "" || e.WaitUntil <= due) {
			p.nextBatch = e.ID
			return
		}
	}

	e := p.evalAt(due)
	e.NodeID = ""
	e.TriggeredBy = structs.TriggerRollingUpdate
	p.nextBatch = e.ID
	p.plan.Followups = append(p.plan.Followups, e)
}
