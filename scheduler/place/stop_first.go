package place

import (
	"cmp"
	"slices"

	"berth/scheduler/feasible"
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
func (p *Placer) placeByStops(w *Placement) bool {
	g := w.Group
	// An update of a larger version waits for its quota, and its predecessors run meanwhile.
	if feasible.QuotaRejection(p.outlook, &w.demand) != nil {
		return false
	}

	volume := p.outlook.BlockedEverywhere(&w.demand) != nil // its users have it on any node

	// On a per-node job's node only a volume can be held by others of the group. The bound keeps a group that
	// fits nowhere from trying sets for each of its updates.
	if w.node != nil && !volume || g.rejectedStops >= rollout.MostRejected {
		return false
	}

	others := p.stoppable(w)

	// A volume may be free after stops on several nodes. Capacity is free on one node only.
	sets := [][]*Placement{others}
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

	// Each such search tries several sets of stops, so a group that gains nothing from them stops to search.
	g.rejectedStops++
	return false
}

// stoppable returns the updates of a group that come after one in the plan: those on the node of its
// predecessor first.
func (p *Placer) stoppable(w *Placement) (others []*Placement) {
	at := slices.Index(p.placements, w)
	for _, other := range p.placements[at+1:] {
		if other.Group == w.Group && other.IsUpdate() && !other.Ended && len(others) < mostStoppable {
			others = append(others, other)
		}
	}

	slices.SortStableFunc(others, func(a, b *Placement) int {
		switch own := w.Prev.NodeID; {
		case a.Prev.NodeID == b.Prev.NodeID:
			return 0
		case a.Prev.NodeID == own:
			return -1
		case b.Prev.NodeID == own:
			return 1
		}
		return cmp.Compare(a.Prev.NodeID, b.Prev.NodeID)
	})

	return others
}

// byNode splits updates, which are sorted by the nodes of their predecessors, by these.
func byNode(updates []*Placement) (sets [][]*Placement) {
	for i, w := range updates {
		if i == 0 || updates[i-1].Prev.NodeID != w.Prev.NodeID {
			sets = append(sets, nil)
		}
		last := len(sets) - 1
		sets[last] = append(sets[last], w)
	}
	return sets
}

// stopUntilFits stops the predecessors of a set, one by one, until an update fits, and lets those run on that
// it does not need. It returns the best nodes. If there is none, it stops none.
func (p *Placer) stopUntilFits(w *Placement, set []*Placement) (topN, *rejects.Count) {
	var stops []*Placement
	for _, other := range set[:min(len(set), w.Group.Pace.MostStops())] {
		p.outlook.StopAlloc(other.Prev, structs.StopReplaced, ReplacedReason)
		stops = append(stops, other)
		top, t := p.tryWithStops(w, stops)
		if len(top) == 0 {
			continue
		}

		// The last one made it fit, so it is needed. Of the others each may have been stopped for nothing.
		for _, needed := range stops[:len(stops)-1] {
			p.outlook.UnstopAlloc(needed.Prev)
			better, count := p.tryWithStops(w, stops)
			if len(better) == 0 {
				p.outlook.StopAlloc(needed.Prev, structs.StopReplaced, ReplacedReason)
				continue
			}

			top = better
			t = count
		}

		return top, t
	}

	// UnstopAlloc looks for the newest stops first.
	for _, other := range slices.Backward(stops) {
		p.outlook.UnstopAlloc(other.Prev)
	}

	return nil, nil
}

// tryWithStops tries the nodes of the predecessors that stop for an update.
func (p *Placer) tryWithStops(w *Placement, stops []*Placement) (topN, *rejects.Count) {
	if p.outlook.BlockedEverywhere(&w.demand) != nil {
		return nil, nil
	}

	w.Group.Filter(p.outlook.AllNodes()) // tryAll begins with its counts
	if w.node != nil {
		return p.tryAll(w, []*structs.Node{w.node})
	}

	var nodes []*structs.Node
	known := map[string]bool{}
	for _, other := range append([]*Placement{w}, stops...) {
		n := p.outlook.NodeOf(other.Prev)
		if n != nil && !known[n.ID] && w.Group.Spec.CheckNode(n) == nil {
			nodes = append(nodes, n)
		}

		known[other.Prev.NodeID] = true
	}

	return p.tryAll(w, nodes)
}

// placeStopped places the successors of the predecessors of a set that the plan has stopped.
func (p *Placer) placeStopped(set []*Placement) {
	// All are marked before one is placed: the pace counts each place that is empty.
	for _, w := range set {
		if !p.outlook.Stops(w.Prev.ID) {
			continue
		}

		w.Ended = true
		w.Group.Pace.NoteEmptied(w.place())
	}

	for _, w := range set {
		switch {
		case !w.Ended:
		case p.full():
			p.More = true
			w.Group.Queued++
		default:
			p.placeOne(w)
		}
	}
}
