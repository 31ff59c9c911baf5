package place

import (
	"cmp"

	"berth/scheduler/rejects"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
)

// placeSticky returns the node of the replaced allocation if the group keeps its data and the node is
// feasible, else none.
func (p *Placer) placeSticky(w *Placement) (topN, *rejects.Count) {
	// The data is on the node of the predecessor. It is moved from there only if that node is not feasible.
	prev := cmp.Or(w.Prev, w.data)
	if prev == nil || !w.Group.Spec.TaskGroup.KeepsData() {
		return nil, nil
	}
	n := state.Node(p.outlook, prev.NodeID)
	t := rejects.NewCount()
	if n == nil || !w.Group.Spec.Admit(t, n) {
		return nil, nil
	}

	// This node alone is no reason for which the evaluation waits, so its keys do not count.
	keys := p.outlook.Keys
	var s sample
	s.try(p.outlook, w, &nodeClass{}, &candidate{node: n})
	p.outlook.Keys = keys
	return s.top, t
}

// dataOf returns the allocation whose data a new one at a place takes over although it replaces none, nil for
// none: see state.DataLeft.
func (p *Placer) dataOf(g *Group, at rollout.Place) *structs.Allocation {
	if !g.Spec.TaskGroup.KeepsData() {
		return nil
	}
	if p.dataLeft == nil {
		p.dataLeft = state.DataLeft(p.outlook, p.outlook.Job, p.outlook.JobAllocs())
	}
	return p.dataLeft[state.DataPlace{
		Name: structs.AllocName(p.outlook.Job.ID, g.Spec.TaskGroup.Name, at.Index),
		Node: at.Node,
	}]
}
