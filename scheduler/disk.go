package scheduler

import (
	"cmp"

	"berth/state"
	"berth/structs"
)

// placeSticky returns the node of the replaced allocation if the group keeps its data and the node is
// feasible, else none.
func (p *planner) placeSticky(w *placement) (topN, *refusalCount) {
	prev := cmp.Or(w.prev, w.data)
	if prev == nil || !w.plan.group.KeepsData() {
		return nil, nil
	}
	n := state.Node(p, prev.NodeID)
	t := newRefusalCount()
	if n == nil || !w.plan.admit(t, n) {
		return nil, nil
	}
	named := p.namedVolumes
	tooMany := p.tooManyKeys
	var s sample
	s.try(p, w, &nodeClass{}, &candidate{node: n})
	p.namedVolumes = named
	p.tooManyKeys = tooMany
	return s.top, t
}

// noteData notes an allocation that was stopped to be placed again and has found no place since: the next
// allocation of its name takes over its data.
func (p *planner) noteData(a *structs.Allocation) {
	if !a.ServerTerminal() || a.NextAllocation != "" || p.job == nil || !state.DataDue(p, a) {
		return
	}
	if last := p.leftData[a.Name]; last != nil && last.CreateIndex > a.CreateIndex {
		return
	}
	if p.leftData == nil {
		p.leftData = map[string]*structs.Allocation{}
	}
	p.leftData[a.Name] = a
}

// dataOf returns the allocation whose data a new one with an index takes over although it replaces none, nil
// for none.
func (p *planner) dataOf(g *groupPlan, index int) *structs.Allocation {
	if len(p.leftData) == 0 {
		return nil
	}
	return p.leftData[structs.AllocName(p.job.ID, g.group.Name, index)]
}
