package scheduler

import (
	"maps"

	"berth/scheduler/feasible"
	"berth/scheduler/rejects"
	"berth/scheduler/rollout"
	"berth/structs"
)

// groupPlan is a group in the plan: the nodes that it may get and the placements that found none.
type groupPlan struct {
	spec *feasible.Group

	candidateSets map[string]*candidateSet // by source
	passing       []*structs.Node          // of all nodes, by ID
	static        *rejects.Count           // of all nodes; nil until a reader needs all
	failed        *rejects.Count           // the first failure to place
	queued        int
	rejectedStops int // updates that fit after no stops: see placeByStops

	updates *rollout.Pace // nil: all allocations of older versions are replaced at once
}

// addGroup adds a group to the plan.
func (p *placer) addGroup(spec *feasible.Group) *groupPlan {
	g := &groupPlan{
		spec:          spec,
		candidateSets: map[string]*candidateSet{},
	}
	p.groups = append(p.groups, g)
	return g
}

// rejectAll makes the rejections of all nodes the failure of the group: no node has rejected a placement, but
// the group runs nowhere.
func (g *groupPlan) rejectAll() {
	g.failed = g.static
}

// filterNodes keeps the nodes that pass the group's own filters and counts the others, once.
func (g *groupPlan) filterNodes(nodes []*structs.Node) {
	if g.static != nil {
		return
	}
	g.static = rejects.NewCount()
	for _, n := range nodes {
		if g.spec.Admit(g.static, n) {
			g.passing = append(g.passing, n)
		}
	}
}

// recordFailure keeps the first failure of a group, and for a per-node job the rejection of each node.
func (g *groupPlan) recordFailure(w *placement, t *rejects.Count) {
	g.queued++
	switch {
	case g.failed == nil:
		g.failed = t
	case w.node == nil:
		g.failed.Metric.CoalescedFailures++
		g.failed.AddKeys(maps.Keys(t.Keys))
	default:
		g.failed.Merge(g.static, t)
	}
}
