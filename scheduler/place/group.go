package place

import (
	"maps"

	"berth/scheduler/feasible"
	"berth/scheduler/rejects"
	"berth/scheduler/rollout"
	"berth/structs"
)

// Group is a group in the plan: the nodes that it may get and the placements that found none.
type Group struct {
	Spec    *feasible.Group
	Pace    *rollout.Pace   // nil: all allocations of older versions are replaced at once
	Passing []*structs.Node // of all nodes, by ID; nil until Filter
	Failed  *rejects.Count  // the first failure to place
	Queued  int             // placements that found no node

	candidateSets map[string]*candidateSet // by source
	static        *rejects.Count           // of all nodes; nil until a reader needs all
	rejectedStops int                      // updates that fit after no stops: see placeByStops
}

// AddGroup adds a group to the plan.
func (p *Placer) AddGroup(spec *feasible.Group) *Group {
	g := &Group{
		Spec:          spec,
		candidateSets: map[string]*candidateSet{},
	}
	p.Groups = append(p.Groups, g)
	return g
}

// RejectAll makes the rejections of all nodes the failure of the group: no node has rejected a placement, but
// the group runs nowhere.
func (g *Group) RejectAll() {
	g.Failed = g.static
}

// Filter keeps the nodes that pass the group's own filters and counts the others, once.
func (g *Group) Filter(nodes []*structs.Node) {
	if g.static != nil {
		return
	}
	g.static = rejects.NewCount()
	for _, n := range nodes {
		if g.Spec.Admit(g.static, n) {
			g.Passing = append(g.Passing, n)
		}
	}
}

// recordFailure keeps the first failure of a group, and for a per-node job the rejection of each node.
func (g *Group) recordFailure(w *Placement, t *rejects.Count) {
	g.Queued++
	t.AddKeys(w.demand.HostKeys())
	switch {
	case g.Failed == nil:
		g.Failed = t
	case w.node == nil:
		// The dialect counts the failures after the first one here.
		g.Failed.Metric.CoalescedFailures++
		g.Failed.AddKeys(maps.Keys(t.Keys))
	default:
		// Each try begins with the counts of all nodes, so only what it adds is merged.
		g.Failed.Merge(g.static, t)
	}
}
