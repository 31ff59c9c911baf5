package scheduler

import (
	"cmp"
	"slices"

	"berth/scheduler/rejects"
	"berth/scheduler/rollout"
	"berth/structs"
)

// An update stops an allocation once its successor has a place. If other predecessors of the same update hold
// the place, some of them stop, too, before their own successors have one. The place of such a predecessor in
// its group is empty until its successor is placed, and it counts for the pace of the group until then.

// mostStoppable is the most predecessors that are considered for one successor.
const mostStoppable = 256

// placeByStops places an update that has no place beside the other predecessors of its group: it stops as
// few of these as let it fit. It reports false, and stops none, if no such stops help or the group may not
// miss so many. The predecessor of the update itself is stopped already.
func (p *placer) placeByStops(w *placement) bool {
	g := w.plan
	volume := p.outlook.BlockedEverywhere(&w.demand) != nil // its users have it on any node
	if w.node != nil && !volume || g.rejectedStops >= rollout.MostRejected {
		return false
	}

	others := p.stoppable(w)
	sets := [][]*placement{others}
	if !volume {
		sets = byNode(others)
	}

	for _, set := range sets {
		top, t := p.stopUntilFits(w, set)
		if len(top) == 0 {
			continue
		}

		t.Metric.ScoreMetaData = p.scores(w, top)
		p.addToPlan(w, top[0].view, t)
		p.placeStopped(set)
		return true
	}

	g.rejectedStops++
	return false
}

// stoppable returns the updates of a group that come after one in the plan: those on the node of its
// predecessor first.
func (p *placer) stoppable(w *placement) (others []*placement) {
	at := slices.Index(p.placements, w)
	for _, other := range p.placements[at+1:] {
		if other.plan == w.plan && other.isUpdate() && !other.ended && len(others) < mostStoppable {
			others = append(others, other)
		}
	}

	slices.SortStableFunc(others, func(a, b *placement) int {
		switch own := w.prev.NodeID; {
		case a.prev.NodeID == b.prev.NodeID:
			return 0
		case a.prev.NodeID == own:
			return -1
		case b.prev.NodeID == own:
			return 1
		}
		return cmp.Compare(a.prev.NodeID, b.prev.NodeID)
	})

	return others
}

// byNode splits updates, which are sorted by the nodes of their predecessors, by these.
func byNode(updates []*placement) (sets [][]*placement) {
	for i, w := range updates {
		if i == 0 || updates[i-1].prev.NodeID != w.prev.NodeID {
			sets = append(sets, nil)
		}
		last := len(sets) - 1
		sets[last] = append(sets[last], w)
	}
	return sets
}

// stopUntilFits stops the predecessors of a set, one by one, until an update fits, and lets those run on that
// it does not need. It returns the best nodes. If there is none, it stops none.
func (p *placer) stopUntilFits(w *placement, set []*placement) (topN, *rejects.Count) {
	var stops []*placement
	for _, other := range set[:min(len(set), w.plan.updates.MostStops())] {
		p.outlook.StopAlloc(other.prev, structs.StopReplaced, replacedReason)
		stops = append(stops, other)
		top, t := p.tryWithStops(w, stops)
		if len(top) == 0 {
			continue
		}

		for _, needed := range stops[:len(stops)-1] {
			p.outlook.UnstopAlloc(needed.prev)
			better, count := p.tryWithStops(w, stops)
			if len(better) == 0 {
				p.outlook.StopAlloc(needed.prev, structs.StopReplaced, replacedReason)
				continue
			}

			top = better
			t = count
		}

		return top, t
	}

	for _, other := range slices.Backward(stops) {
		p.outlook.UnstopAlloc(other.prev)
	}

	return nil, nil
}

// tryWithStops tries the nodes of the predecessors that stop for an update.
func (p *placer) tryWithStops(w *placement, stops []*placement) (topN, *rejects.Count) {
	if p.outlook.BlockedEverywhere(&w.demand) != nil {
		return nil, nil
	}

	w.plan.filterNodes(p.outlook.AllNodes()) // tryAll begins with its counts
	if w.node != nil {
		return p.tryAll(w, []*structs.Node{w.node})
	}

	var nodes []*structs.Node
	known := map[string]bool{}
	for _, other := range append([]*placement{w}, stops...) {
		n := p.outlook.NodeOf(other.prev)
		if n != nil && !known[n.ID] && w.plan.spec.CheckNode(n) == nil {
			nodes = append(nodes, n)
		}

		known[other.prev.NodeID] = true
	}

	return p.tryAll(w, nodes)
}

// placeStopped places the successors of the predecessors of a set that the plan has stopped.
func (p *placer) placeStopped(set []*placement) {
	for _, w := range set {
		if !p.outlook.Stops(w.prev.ID) {
			continue
		}

		w.ended = true
		w.plan.updates.NoteEmptied(w.place())
	}

	for _, w := range set {
		switch {
		case !w.ended:
		case p.full():
			p.more = true
			w.plan.queued++
		default:
			p.placeOne(w)
		}
	}
}
