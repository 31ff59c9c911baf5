package scheduler

import (
	"berth/state"
	"berth/structs"
)

// mostPlaced is how many allocations one plan places, and how many it moves: a plan is one entry of the log,
// however many instances a job has. When there are more the evaluation stays pending, and the next plan goes
// on.
const mostPlaced = structs.MaxPlaced

// placeAll places what is wanted, in order.
func (p *planner) placeAll() {
	for _, w := range p.wants {
		switch {
		case w.fresh > 0:
			p.placeFresh(w)
		case p.full() && !w.ended:
			p.more = true
			w.plan.queued++
		default:
			p.place(w)
		}
	}
}

// placedBytes is about how many bytes the allocations of one plan may have. What stands beside them in the same
// log entry must fit as well: see structs.MaxEntry.
const placedBytes = structs.MaxEntry / 4

// full reports whether the plan places as many as it may.
func (p *planner) full() bool { return len(p.plan.Place) >= mostPlaced || p.placed >= placedBytes }

// placeFresh places those that replace none. It makes them one by one, and no more than find a place: a job
// that was stored before counts were bounded may ask for any number.
func (p *planner) placeFresh(w *want) {
	g, left, tried := w.plan, w.fresh, 0
	for index := 0; left > 0; index++ {
		switch {
		case w.taken[index]:
			continue
		case p.full():
			p.more = true
			g.queued += left
			return
		case g.failed != nil && (!g.perAlloc() || tried >= structs.MaxGroupCount):
			g.failed.metric.CoalescedFailures += left // the plan makes no room
			g.queued += left
			return
		}
		p.place(&want{plan: g, index: index})
		tried++
		left--
	}
}

// place finds a node for what is wanted and adds it to the plan, or notes why there is none.
func (p *planner) place(w *want) {
	g := w.plan
	if g.failed != nil && w.node == nil && !w.update && !g.perAlloc() {
		g.failed.metric.CoalescedFailures++ // what there was no room for before, there is none for now
		g.queued++
		return
	}
	if w.update {
		p.stop(w.prev, "replaced by a newer version of the job", "")
	}
	top, t := p.choose(w)
	if len(top) == 0 {
		if w.update {
			p.unstop(w.prev)
		}
		if w.node != nil {
			p.short[w.node.ID] = true
		}
		g.fail(w, t)
		return
	}
	t.metric.ScoreMetaData = top.scores(w)
	p.add(w, top[0].view, t)
}

// fail keeps the first failure of a group, and of a job per node what each node says.
func (g *groupPlan) fail(w *want, t *tally) {
	g.queued++
	switch {
	case g.failed == nil:
		g.failed = t
	case w.node == nil:
		g.failed.metric.CoalescedFailures++
		for k := range t.keys {
			g.failed.keys[k] = true
		}
	default:
		g.failed.merge(g.static, t)
	}
}

// merge adds what other has beyond base, the tally both began with.
func (t *tally) merge(base, other *tally) {
	for at, n := range other.refusals {
		t.refusals[at] += n - base.refusals[at]
	}
	for k := range other.keys {
		t.keys[k] = true
	}
	add := func(to, from, less map[string]int) {
		for k, n := range from {
			if n > less[k] {
				to[k] += n - less[k]
			}
		}
	}
	m, o, b := &t.metric, &other.metric, &base.metric
	m.NodesFiltered += o.NodesFiltered - b.NodesFiltered
	m.NodesExhausted += o.NodesExhausted - b.NodesExhausted
	add(m.ConstraintFiltered, o.ConstraintFiltered, b.ConstraintFiltered)
	add(m.ClassFiltered, o.ClassFiltered, b.ClassFiltered)
	add(m.ClassExhausted, o.ClassExhausted, b.ClassExhausted)
	add(m.DimensionExhausted, o.DimensionExhausted, b.DimensionExhausted)
}

// choose finds the best nodes of those that take the allocation: of a sample, and where nobody in it does, of
// all. It finds none when every node refused, or when the allocation is barred from all alike.
func (p *planner) choose(w *want) (podium, *tally) {
	g, barred := w.plan, p.barred(w)
	switch {
	case w.node != nil && barred != nil:
		t := g.static.clone()
		t.refuse(w.node, *barred)
		return nil, t
	case w.node != nil:
		return p.askAll(w, []*structs.Node{w.node})
	case barred != nil:
		t := newTally()
		t.bar(*barred)
		return nil, t
	}
	o := p.poolOf(w)
	if w.update {
		if n := p.node(w.prev.NodeID); n != nil {
			o.ahead(n)
		}
	}
	past, rooms := p.refusedBefore(w)
	for _, n := range rooms {
		o.ahead(n)
	}
	most := 0
	if past != nil {
		most = len(rooms) + stretch
	}
	wakes, crowded := p.wakes, p.crowded
	top, t, all := p.sample(w, o, most)
	p.wakes, p.crowded = wakes, crowded // what it waits for is said by all
	switch {
	case len(top) > 0 || all:
		return top, t
	case past != nil:
		return nil, past
	}
	g.sift(p.all())
	return p.askAll(w, g.candidates)
}

// refusedBefore is what every node said when the evaluation looked last, if nothing but room on a few nodes has
// come since, with these nodes; else nil. A group that it speaks for depends on nothing but the nodes.
func (p *planner) refusedBefore(w *want) (*tally, []*structs.Node) {
	g, e := w.plan, p.eval
	before := e.FailedTGAllocs[g.group.Name]
	if before == nil || len(e.BlockedOn) == 0 || e.JobModifyIndex != p.job.JobModifyIndex || len(w.uses) > 0 || w.update || g.distinct != "" {
		return nil, nil
	}
	ids, known := state.RoomSince(p.tx, e.SnapshotIndex)
	if !known || len(p.plan.Stop) > stride {
		return nil, nil
	}
	for _, s := range p.plan.Stop {
		if a := state.Alloc(p.tx, s.AllocID); a != nil {
			ids = append(ids, a.NodeID)
		}
	}
	var rooms []*structs.Node
	for _, id := range ids {
		if n := p.node(id); n != nil {
			rooms = append(rooms, n)
		}
	}
	return tallyOf(before), rooms
}

// askAll asks each of the candidates.
func (p *planner) askAll(w *want, candidates []*structs.Node) (podium, *tally) {
	t := w.plan.static.clone()
	var top podium
	for _, n := range candidates {
		v := p.view(n)
		if r := p.refuses(w, v); r != nil {
			t.refuse(n, *r)
			continue
		}
		top.add(rank(w, v))
	}
	return top, t
}

func (p *planner) refuses(w *want, v *view) *refusal {
	for _, f := range placeFilters {
		if r := f.check(p, w, v); r != nil {
			r := *r
			r.filter = f.name
			return &r
		}
	}
	return nil
}

// add puts the allocation into the plan and counts it from here on.
func (p *planner) add(w *want, v *view, t *tally) {
	ask := w.plan.ask
	a := &structs.Allocation{
		ID: structs.NewID(), Namespace: p.ns, EvalID: p.eval.ID, Name: structs.AllocName(p.job.ID, w.plan.group.Name, w.index),
		NodeID: v.node.ID, NodeName: v.node.Name, JobID: p.job.ID, JobVersion: p.job.Version, TaskGroup: w.plan.group.Name,
		Resources: &ask, DesiredStatus: structs.AllocDesiredRun, ClientStatus: structs.AllocPending,
		RescheduleTracker: p.trackerFor(w), Metrics: t.finished(structs.MaxReasons),
	}
	if w.prev != nil {
		a.PreviousAllocation = w.prev.ID
	}
	p.plan.Place = append(p.plan.Place, a)
	p.placed += allocBytes(a)
	v.add(p, a, 1)
	p.intend(a, w.uses, v)
}

// allocBytes is about the size of an allocation in a log entry.
func allocBytes(a *structs.Allocation) int {
	size := 512 + len(a.Namespace) + len(a.Name) + len(a.NodeName) + len(a.JobID) + len(a.TaskGroup)
	if a.RescheduleTracker != nil {
		size += 160 * len(a.RescheduleTracker.Events)
	}
	return size + metricBytes(a.Metrics)
}
