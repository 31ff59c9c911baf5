package scheduler

import (
	"berth/state"
)

// placeSticky returns the node of the replaced allocation if the group keeps its data and the node is
// feasible, else none.
func (p *planner) placeSticky(w *placement) (topN, *refusalCount) {
	d := w.plan.group.EphemeralDisk
	if w.prev == nil || d == nil || !d.Sticky {
		return nil, nil
	}
	n := state.Node(p, w.prev.NodeID)
	t := newRefusalCount()
	if n == nil || !w.plan.admit(t, n) {
		return nil, nil
	}
	named := p.namedVolumes
	tooMany := p.tooManyKeys
	var s trials
	s.tryNode(p, w, n)
	p.namedVolumes = named
	p.tooManyKeys = tooMany
	var top topN
	for _, r := range s.fitting {
		top.insert(r)
	}
	return top, t
}
