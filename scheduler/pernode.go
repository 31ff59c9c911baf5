package scheduler

import (
	"maps"
	"slices"

	"berth/structs"
)

// reconcilePerNode compares a system or sysbatch job, which has one of each group on every node that is
// fit for it, with its allocations; on the one node that the evaluation is about, if it is about one.
func (p *planner) reconcilePerNode() {
	nodes := p.all
	if p.eval.NodeID != "" {
		p.scope, nodes = p.eval.NodeID, p.alone
	}
	byGroup := map[string]map[string][]*structs.Allocation{}
	for _, a := range p.live() {
		group := p.job.Group(a.TaskGroup)
		if group == nil || group.Count == 0 {
			p.end(a, "its group is no longer in the job")
			continue
		}
		if byGroup[a.TaskGroup] == nil {
			byGroup[a.TaskGroup] = map[string][]*structs.Allocation{}
		}
		byGroup[a.TaskGroup][a.NodeID] = append(byGroup[a.TaskGroup][a.NodeID], a)
	}
	for _, group := range p.job.TaskGroups {
		g := newGroupPlan(p.job, group)
		p.groups = append(p.groups, g)
		if group.Count > 0 {
			g.sift(nodes())
			p.reconcileNodes(g, nodes(), byGroup[group.Name])
		}
	}
}

// alone is the node that the evaluation is about, if it is there.
func (p *planner) alone() []*structs.Node {
	if n := p.node(p.scope); n != nil {
		return []*structs.Node{n}
	}
	return nil
}

func (p *planner) reconcileNodes(g *groupPlan, nodes []*structs.Node, byNode map[string][]*structs.Allocation) {
	before, anywhere := len(p.wants), p.scope != ""
	for _, n := range nodes {
		served := p.reconcileNode(g, n, byNode[n.ID])
		anywhere = anywhere || served
		if !served && g.candidate(n) {
			p.wants = append(p.wants, &want{plan: g, node: n})
		}
		delete(byNode, n.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(byNode)) {
		for _, a := range byNode[id] {
			p.end(a, "node is gone")
		}
	}
	if !anywhere && len(p.wants) == before {
		g.failed, p.nowhere = g.static, true // no node's fault, but nothing of the group runs: say why
	}
}

// reconcileNode deals with the group's allocations on one node and reports whether it is served: nothing
// more is to be placed there.
func (p *planner) reconcileNode(g *groupPlan, n *structs.Node, allocs []*structs.Allocation) bool {
	var best *slot
	for _, a := range allocs {
		s := p.judgeOn(g, n, a)
		switch {
		case s.fate == gone:
		case best == nil:
			best = &s
		case s.fate < best.fate || s.fate == best.fate && a.CreateIndex > best.alloc.CreateIndex:
			p.end(best.alloc, "another allocation serves this node")
			best = &s
		default:
			p.end(a, "another allocation serves this node")
		}
	}
	if best == nil {
		return false
	}
	switch best.fate {
	case keep, held, refresh:
		p.act(g, *best)
	case lose:
		p.end(best.alloc, best.why)
	case move:
		if p.endToMove(*best) && g.refuses(n) == nil {
			p.wants = append(p.wants, &want{plan: g, node: n, prev: best.alloc, ended: true})
		}
	case update, reschedule:
		if g.refuses(n) == nil {
			p.wants = append(p.wants, &want{plan: g, node: n, prev: best.alloc, update: best.fate == update,
				rescheduled: best.fate == reschedule, delay: best.delay})
		}
	}
	return true
}

// judgeOn is judge for a job per node: one that may no longer be on its node is stopped.
func (p *planner) judgeOn(g *groupPlan, n *structs.Node, a *structs.Allocation) slot {
	s := p.judge(g, a)
	if s.fate != update && s.fate != refresh {
		return s
	}
	if why := g.fits(n); why != "" {
		p.end(a, "the job is no longer for this node: "+why)
		s.fate = gone
	}
	return s
}
