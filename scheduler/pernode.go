package scheduler

import (
	"maps"
	"slices"
	"strings"

	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
)

// reconcilePerNode compares a system or sysbatch job, which has one allocation of each group on every
// feasible node, with its allocations: on all nodes, or on the one node of the evaluation. If the job limits
// the number of its allocations with one property, a change of one node matters to others.
func (p *planner) reconcilePerNode() {
	// The scope tells the outlook that allocations on other nodes are not read.
	nodes := p.outlook.AllNodes
	if p.outlook.Eval.NodeID != "" && !p.outlook.Job.LimitsProperty() {
		p.outlook.Scope = p.outlook.Eval.NodeID
		nodes = func() []*structs.Node {
			if n := state.Node(p.outlook, p.outlook.Scope); n != nil {
				return []*structs.Node{n}
			}
			return nil
		}
	}

	for _, a := range p.liveAllocs() {
		p.endWithoutGroup(a)
	}

	for _, group := range p.outlook.Job.TaskGroups {
		g := p.addGroup(group)
		if group.Count > 0 {
			g.Filter(nodes())
			before := len(p.placements)
			p.reconcileNodes(g, nodes())
			p.beginBatch(g, p.placements[before:])
		}
	}
}

// reconcileNodes decides on a group's allocations on the nodes, and stops those on nodes that are gone.
func (p *planner) reconcileNodes(g *place.Group, nodes []*structs.Node) {
	before := len(p.placements)
	var empty []*structs.Node // without an allocation of the group

	// A plan of a single node cannot tell whether the job runs on another one.
	anywhere := p.outlook.Scope != ""
	own := p.outlook.OwnByNode()
	passing := g.Passing
	used := 0
	for _, n := range nodes {
		// Both lists have the order of the IDs, so one pass joins them.
		passes := len(passing) > 0 && passing[0].ID == n.ID
		if passes {
			passing = passing[1:]
		}

		allocs := own[n.ID]
		if len(allocs) > 0 {
			used++
		}

		served := p.reconcileNode(g, n, allocs)
		anywhere = anywhere || served
		if !served && passes {
			empty = append(empty, n)
		}
	}

	if len(empty) > 0 {
		p.placements = append(p.placements, place.NewOnEach(g, empty))
	}

	// The job has allocations on nodes that the loop has not met: these nodes are gone.
	if used < len(own) {
		p.endWithoutNode(g, nodes)
	}

	if !anywhere && len(p.placements) == before {
		g.RejectAll()
		p.nowhere = true
	}
}

// endWithoutNode stops the group's allocations on nodes that are gone.
func (p *planner) endWithoutNode(g *place.Group, nodes []*structs.Node) {
	own := p.outlook.OwnByNode()
	for _, id := range slices.Sorted(maps.Keys(own)) {
		_, found := slices.BinarySearchFunc(nodes, id, func(n *structs.Node, id string) int {
			return strings.Compare(n.ID, id)
		})
		for _, a := range own[id] {
			if !found && a.TaskGroup == g.Spec.TaskGroup.Name {
				p.endAlloc(a, "node is gone")
			}
		}
	}
}

// reconcileNode decides on the group's allocations on one node, among the job's. It reports whether the node
// is served and needs no placement.
func (p *planner) reconcileNode(g *place.Group, n *structs.Node, allocs []*structs.Allocation) bool {
	best := p.bestOnNode(g, n, allocs)
	if best == nil {
		return false
	}

	k := place.KindUpdate
	switch best.Action {
	case rollout.Keep, rollout.Hold, rollout.Refresh, rollout.Await:
		p.planAction(g, *best)
		return true
	// Its place is on the lost node, so nothing replaces it before the node is back.
	case rollout.Lose:
		p.endAlloc(best.Alloc, best.Why)
		return true
	case rollout.Move:
		if !p.endToMove(*best) {
			return true
		}

		k = place.KindMove

	case rollout.Reschedule:
		k = place.KindReschedule
	}

	// A node that is not eligible, for example, keeps the allocation that runs and gets no successor.
	if g.Spec.CheckNode(n) == nil {
		w := place.NewSuccessorOn(g, k, best.Alloc, n)
		w.Delay = best.Delay
		p.placements = append(p.placements, w)
	}

	return true
}

// bestOnNode returns the decision on the allocation that serves the group on the node, nil for none. It stops
// the others.
func (p *planner) bestOnNode(
	g *place.Group, n *structs.Node, allocs []*structs.Allocation,
) (best *rollout.Decision) {
	for _, a := range allocs {
		if a.TaskGroup != g.Spec.TaskGroup.Name {
			continue
		}

		s := p.classifyOnNode(g, n, a)
		surplus := a
		switch {
		case s.Action == rollout.None:
			continue
		case best == nil:
			best = &s
			continue
		case s.Action < best.Action,
			s.Action == best.Action && a.CreateIndex > best.Alloc.CreateIndex:
			surplus = best.Alloc
			best = &s
		}

		p.endAlloc(surplus, "another allocation serves this node")
	}

	return best
}

// classifyOnNode is classify for a per-node job. It stops an allocation that may no longer be on its node.
func (p *planner) classifyOnNode(g *place.Group, n *structs.Node, a *structs.Allocation) rollout.Decision {
	s := p.classify(g, a, n)
	if s.Action != rollout.Update && s.Action != rollout.Refresh {
		return s
	}
	why := g.Spec.CheckRunning(n)
	if why == "" && p.outlook.IsCrowded(g.Spec, a) {
		why = "its constraints admit no more allocations"
	}
	if why != "" {
		p.endAlloc(a, "the job is no longer for this node: "+why)
		s.Action = rollout.None
	}
	return s
}
