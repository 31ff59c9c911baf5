package scheduler

import (
	"cmp"
	"slices"
	"time"

	"berth/scheduler/feasible"
	"berth/scheduler/preempt"
	"berth/scheduler/rejects"
	"berth/scheduler/reschedule"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
)

// mostPlaced is the most allocations that one plan places, and the most that it moves, because a plan is one
// log entry. If there are more, the evaluation stays pending for another plan.
const mostPlaced = structs.MaxPlaced

// placerOptions are the inputs of a placer besides the outlook.
type placerOptions struct {
	enough int  // feasible nodes of a sample
	anew   bool // repeats no trial of a node: tests compare both
}

// placer finds the nodes of the placements and adds them to the plan.
type placer struct {
	outlook *feasible.Outlook
	options placerOptions

	unbounded  bool // the plan becomes no log entry
	groups     []*groupPlan
	placements []*placement
	rollout    *rollout.Rollout // of the job's version
	start      string           // the result of origin
	placed     int              // bytes of the allocations of the plan's last part, about
	parts      []int            // the numbers of allocations at which later parts of the plan begin
	more       bool             // another plan has to follow

	exhaustedNodes map[string]bool                         // without capacity for a per-node job, by ID
	spares         map[jobGroup]*preempt.Spare             // a group without a pace has nil
	dataLeft       map[state.DataPlace]*structs.Allocation // see state.DataLeft; nil until dataOf
}

func newPlacer(o *feasible.Outlook, with placerOptions) *placer {
	return &placer{
		outlook:        o,
		options:        with,
		exhaustedNodes: map[string]bool{},
		spares:         map[jobGroup]*preempt.Spare{},
	}
}

// placeAll places all placements. Updates precede others, because the allocations that they stop may be in
// the way of these.
func (p *placer) placeAll(placements []*placement, r *rollout.Rollout) {
	p.placements = placements
	p.rollout = r
	slices.SortStableFunc(p.placements, func(a, b *placement) int {
		return cmp.Compare(a.order(), b.order())
	})
	for _, w := range p.placements {
		switch {
		case w.isUpdate() && w.ended: // placed with the update for which its predecessor was stopped
		case w.kind == kindSeveral:
			p.placeFresh(w)
		case w.kind == kindEachNode:
			p.placeOnNodes(w)
		case p.full() && !w.ended:
			p.more = true
			w.plan.queued++
		default:
			p.placeOne(w)
		}
	}
}

// placedBytes is an approximate bound of the size of a plan's allocations. The rest of the plan has to fit
// into the same log entry: see structs.MaxEntry.
const placedBytes = structs.MaxEntry / 4

// full reports whether the plan, or its last part, has reached its bounds.
func (p *placer) full() bool {
	return !p.unbounded &&
		(p.partPlaced() >= mostPlaced || p.placed >= placedBytes)
}

// placeFresh places allocations that replace none, one by one, until one finds no place: a job that was
// stored before counts were bounded may demand any number.
func (p *placer) placeFresh(w *placement) {
	g := w.plan
	left := w.count
	var one placement // placeOne keeps none that stops nothing
	for index := 0; left > 0; index++ {
		switch {
		case w.taken[index]:
			continue
		case p.full():
			p.more = true
			g.queued += left
			return
		case g.failed == nil:
		case !g.spec.TaskGroup.HasPerAlloc() || w.count-left >= structs.MaxGroupCount:
			g.failed.Metric.CoalescedFailures += left // the plan frees no capacity
			g.queued += left
			return
		}

		one = newPlacement(g, index)
		one.data = p.dataOf(g, one.place())
		p.placeOne(&one)
		left--
	}
}

// placeOnNodes places an allocation on each node of a list, which is sorted by ID.
func (p *placer) placeOnNodes(w *placement) {
	p.outlook.ExpectViews(len(w.nodes))
	useOf := state.UsesFrom(p.outlook, w.nodes[0].ID)
	var one placement // see placeFresh
	for at, n := range w.nodes {
		if p.full() && !p.beginPart() {
			p.more = true
			w.plan.queued += len(w.nodes) - at
			return
		}
		p.outlook.ViewWith(n, useOf(n.ID))
		one = newPlacement(w.plan, 0)
		one.node = n
		one.data = p.dataOf(w.plan, one.place())
		p.placeOne(&one)
	}
}

// placeOne finds a node for a placement and adds it to the plan, or records why there is none.
func (p *placer) placeOne(w *placement) {
	g := w.plan
	if g.failed != nil &&
		w.node == nil &&
		!w.isUpdate() &&
		!g.spec.TaskGroup.HasPerAlloc() {
		g.failed.Metric.CoalescedFailures++ // an equal placement has failed before
		g.queued++
		return
	}

	switch {
	case w.ended:
	case w.isUpdate() && !g.updates.MayUpdate():
		w.held = true
		return
	case w.isUpdate():
		p.outlook.StopAlloc(w.prev, structs.StopReplaced, replacedReason)
	}

	top, t := p.chooseNode(w)
	stays := w.isUpdate() && !w.ended // unless there is a place
	if len(top) == 0 && (stays && p.placeByStops(w) || p.placeByPreemption(w, t)) {
		return
	}

	if len(top) == 0 {
		if stays {
			p.outlook.UnstopAlloc(w.prev)
			g.updates.NoteRejected()
		}

		if w.node != nil {
			p.exhaustedNodes[w.node.ID] = true
		}

		g.recordFailure(w, t)
		return
	}

	t.Metric.ScoreMetaData = p.scores(w, top)
	p.addToPlan(w, top[0].view, t)
}

// chooseNode returns the best feasible nodes: of a sample, or of all nodes if the sample has none. It returns
// none if every node rejected, or if all nodes alike are blocked.
func (p *placer) chooseNode(w *placement) (topN, *rejects.Count) {
	g := w.plan
	blocked := p.outlook.BlockedEverywhere(&w.demand)
	switch {
	case w.node != nil && blocked != nil:
		t := g.static.Clone()
		t.AddRejection(w.node, *blocked)
		return nil, t
	case w.node != nil:
		return p.tryAll(w, []*structs.Node{w.node})
	case blocked != nil:
		t := rejects.NewCount()
		t.CountBlocked(*blocked)
		return nil, t
	}

	top, t := p.placeSticky(w)
	if len(top) > 0 {
		return top, t
	}

	o := p.candidatesOf(w)
	if w.isUpdate() {
		if n := state.Node(p.outlook, w.prev.NodeID); n != nil {
			o.moveToFront(n)
		}
	}

	past, freed := p.lastRejections(w)
	for _, n := range freed {
		o.moveToFront(n)
	}

	most := 0
	if past != nil {
		most = len(freed) + retriedNodes
	}

	keys := p.outlook.Keys
	var all bool
	top, t, all = p.sampleNodes(w, o, most)
	p.outlook.Keys = keys // only all nodes together decide the keys
	switch {
	case len(top) > 0 || all:
		return top, t
	case past != nil:
		return nil, past
	}

	g.filterNodes(p.outlook.AllNodes())
	return p.tryAll(w, g.passing)
}

// lastRejections returns the rejections of all nodes for the evaluation's last plan, and the nodes with
// capacity freed since, if nothing else has changed since; else nil. Such a group depends on nodes only.
func (p *placer) lastRejections(w *placement) (*rejects.Count, []*structs.Node) {
	g := w.plan
	e := p.outlook.Eval
	before := e.FailedTGAllocs[g.spec.TaskGroup.Name]
	if before == nil ||
		len(e.BlockedOn) == 0 ||
		e.JobModifyIndex != p.outlook.Job.JobModifyIndex ||
		len(w.demand.Uses) > 0 ||
		w.isUpdate() ||
		g.spec.Limited() ||
		g.spec.Job != p.outlook.Job {
		return nil, nil
	}

	ids, known := state.NodesFreedSince(p.outlook, e.SnapshotIndex)
	if !known || len(p.outlook.Plan.Stop) > readBatch {
		return nil, nil
	}

	for _, s := range p.outlook.Plan.Stop {
		a := state.Alloc(p.outlook, s.AllocID)
		if a != nil {
			ids = append(ids, a.NodeID)
		}
	}

	var freed []*structs.Node
	for _, id := range ids {
		if n := state.Node(p.outlook, id); n != nil {
			freed = append(freed, n)
		}
	}

	return rejects.CountOf(before), freed
}

// tryAll tries each of the candidates.
func (p *placer) tryAll(w *placement, candidates []*structs.Node) (topN, *rejects.Count) {
	t := w.plan.static.Clone()
	var top topN
	for _, n := range candidates {
		v := p.outlook.ViewOf(n)
		r := p.outlook.Check(&w.demand, v)
		if r != nil {
			t.AddRejection(n, *r)
			continue
		}
		top.insert(rankNode(w, v))
	}
	return top, t
}

// Each nearIDs allocations of a plan that follow each other have IDs that begin with the same nearDigits
// digits. Their keys share a path of the tree of allocations, of which an entry copies each node. Without it
// the entry takes a seventh more time. With more such IDs, or digits, they would be harder to abbreviate.
const (
	nearIDs    = 16
	nearDigits = 3
)

// newAllocID returns a random ID for the allocation that a plan places after others.
func newAllocID(placed []*structs.Allocation) string {
	id := structs.NewID()
	first := len(placed) / nearIDs * nearIDs
	if first == len(placed) {
		return id
	}
	return placed[first].ID[:nearDigits] + id[nearDigits:]
}

// addToPlan adds the allocation to the plan and counts it from here on.
func (p *placer) addToPlan(w *placement, v *feasible.NodeView, t *rejects.Count) {
	plan := p.outlook.Plan
	job := p.outlook.Job
	version := w.plan.spec.Job
	group := w.plan.spec.TaskGroup.Name
	a := &structs.Allocation{
		ID:                newAllocID(plan.Place),
		Namespace:         p.outlook.Namespace,
		EvalID:            p.outlook.Eval.ID,
		Name:              structs.AllocName(job.ID, group, w.demand.Index),
		NodeID:            v.Node.ID,
		NodeName:          v.Node.Name,
		JobID:             job.ID,
		JobVersion:        version.Version,
		TaskGroup:         group,
		DesiredStatus:     structs.AllocDesiredRun,
		ClientStatus:      structs.AllocPending,
		DeploymentID:      p.rollout.CountedBy(version, group),
		RescheduleTracker: p.trackerFor(w),
		Metrics:           t.ToMetric(structs.MaxReasons),

		PreemptedAllocations: w.victims,
	}

	if prev := cmp.Or(w.prev, w.data); prev != nil {
		a.PreviousAllocation = prev.ID
	}

	if w.canary && a.DeploymentID != "" {
		a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
	}

	p.outlook.Add(a, &w.demand, v)
	p.placed += allocBytes(a)
	if w.isUpdate() {
		w.plan.updates.NoteUpdated(w.place(), w.ended, p.outlook.Now.UnixNano())
	} else {
		countedBefore := w.kind == kindReschedule && w.prev.DeploymentID == a.DeploymentID
		w.plan.updates.NoteAdded(w.place(), countedBefore)
	}
}

// trackerFor returns the reschedules that the replacement remembers.
func (p *placer) trackerFor(w *placement) *structs.RescheduleTracker {
	if w.prev == nil || w.isUpdate() {
		return nil
	}

	var newest *structs.RescheduleEvent
	if w.kind == kindReschedule {
		newest = &structs.RescheduleEvent{
			RescheduleTime: p.outlook.Now.UnixNano(),
			PrevAllocID:    w.prev.ID,
			PrevNodeID:     w.prev.NodeID,
			Delay:          time.Duration(w.delay),
		}
	}

	return reschedule.Tracker(reschedule.PolicyOf(p.outlook.Job, w.plan.spec.TaskGroup), w.prev, newest)
}

// allocBytes returns about the size of an allocation in a log entry.
func allocBytes(a *structs.Allocation) int {
	size := 512 + 160*len(reschedule.Events(a)) + rejects.MetricBytes(a.Metrics)
	size += len(a.Namespace) + len(a.JobID) + len(a.TaskGroup)
	for task, groups := range a.Devices {
		size += len(task)
		for _, d := range groups {
			size += d.Bytes()
		}
	}
	for _, port := range a.Ports {
		size += 48 + len(port.Label) + len(port.HostIP)
	}
	size += 40*len(a.AwaitedAllocations) + 240*len(a.PreemptedAllocations) // with their stops
	return size + len(a.Name) + len(a.NodeName)
}
