package place

import (
	"cmp"
	"slices"
	"time"

	"berth/scheduler/feasible"
	"berth/scheduler/rejects"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// Options are the inputs of a placer besides the outlook.
type Options struct {
	Enough int  // feasible nodes of a sample
	Anew   bool // repeats no trial of a node: tests compare both
}

// Placer finds the nodes of the placements and adds them to the plan.
type Placer struct {
	Unbounded      bool            // the plan becomes no log entry
	Groups         []*Group        // in the order of AddGroup
	More           bool            // another plan has to follow
	ExhaustedNodes map[string]bool // without capacity for a per-node job, by ID

	outlook    *feasible.Outlook
	allNodes   source // the widest one
	options    Options
	placements []*Placement
	rollout    *rollout.Rollout // of the job's version
	start      string           // the result of origin
	placed     int              // bytes of the allocations of the plan's last part, about
	parts      []int            // the numbers of allocations at which later parts of the plan begin

	spares   map[jobGroup]*groupSpare                // a group without a pace has nil
	dataLeft map[state.DataPlace]*structs.Allocation // see state.DataLeft; nil until dataOf
}

// New returns a placer for an outlook.
func New(o *feasible.Outlook, with Options) *Placer {
	return &Placer{
		outlook:        o,
		allNodes:       allNodes(o),
		options:        with,
		ExhaustedNodes: map[string]bool{},
		spares:         map[jobGroup]*groupSpare{},
	}
}

// PlaceAll places all placements. Updates precede others, because the allocations that they stop may be in
// the way of these.
func (p *Placer) PlaceAll(placements []*Placement, r *rollout.Rollout) {
	p.placements = placements
	p.rollout = r
	for _, w := range placements {
		if w.Prev != nil {
			p.outlook.Hosts.Reserve(w.Prev)
		}
	}
	slices.SortStableFunc(p.placements, func(a, b *Placement) int {
		return cmp.Compare(a.order(), b.order())
	})
	for _, w := range p.placements {
		switch {
		case w.IsUpdate() && w.Ended: // placed with the update for which its predecessor was stopped
		case w.kind == KindSeveral:
			p.placeFresh(w)
		case w.kind == KindEachNode:
			p.placeOnNodes(w)
		// One whose predecessor the plan has stopped is placed beyond the bound: else the job would miss it.
		case p.full() && !w.Ended:
			p.More = true
			w.Group.Queued++
		default:
			p.placeOne(w)
		}
	}
}

// placedBytes is an approximate bound of the size of a plan's allocations. The rest of the plan has to fit
// into the same log entry: see structs.MaxEntry.
const placedBytes = structs.MaxEntry / 4

// full reports whether the plan, or its last part, has reached its bounds.
func (p *Placer) full() bool {
	return !p.Unbounded &&
		(p.partPlaced() >= structs.MaxPlaced || p.placed >= placedBytes)
}

// placeFresh places allocations that replace none, one by one, until one finds no place: a job that was
// stored before counts were bounded may demand any number.
func (p *Placer) placeFresh(w *Placement) {
	g := w.Group
	left := w.count
	var one Placement // placeOne keeps none that stops nothing
	for index := 0; left > 0; index++ {
		switch {
		case w.taken[index]:
			continue
		case p.full():
			p.More = true
			g.Queued += left
			return
		case g.Failed == nil:
		// With volumes per allocation each index is a question of its own, up to the bound of counts.
		case !storage.HostVolumesDiffer(g.Spec.TaskGroup) || w.count-left >= structs.MaxGroupCount:
			g.Failed.Metric.CoalescedFailures += left // the plan frees no capacity
			g.Queued += left
			return
		}

		one = newPlacement(g, index)
		one.data = p.dataOf(g, one.place())
		p.placeOne(&one)
		left--
	}
}

// placeOnNodes places an allocation on each node of a list, which is sorted by ID.
func (p *Placer) placeOnNodes(w *Placement) {
	p.outlook.ExpectViews(len(w.nodes))
	useOf := state.UsesFrom(p.outlook, w.nodes[0].ID)
	var one Placement // see placeFresh
	for at, n := range w.nodes {
		if p.full() && !p.beginPart() {
			p.More = true
			w.Group.Queued += len(w.nodes) - at
			return
		}

		// The sums of all nodes are read in one pass, in the order of the IDs.
		p.outlook.ViewWith(n, useOf(n.ID))
		one = newPlacement(w.Group, 0)
		one.node = n
		one.data = p.dataOf(w.Group, one.place())
		p.placeOne(&one)
	}
}

// placeOne finds a node for a placement and adds it to the plan, or records why there is none.
func (p *Placer) placeOne(w *Placement) {
	g := w.Group
	if g.Failed != nil &&
		w.node == nil &&
		!w.IsUpdate() &&
		!storage.HostVolumesDiffer(g.Spec.TaskGroup) {
		g.Failed.Metric.CoalescedFailures++ // an equal placement has failed before
		g.Queued++
		return
	}

	switch {
	case w.Ended:
	case w.IsUpdate() && !g.Pace.MayUpdate():
		w.Held = true
		return
	case w.IsUpdate():
		// The successor may have the capacity of its predecessor, so it is stopped for the trial.
		p.outlook.StopAlloc(w.Prev, structs.StopReplaced, ReplacedReason)
	}

	top, t := p.chooseNode(w)
	stays := w.IsUpdate() && !w.Ended // unless there is a place

	// Others of the same update come first: they stop anyway, and no other job suffers.
	if len(top) == 0 && (stays && p.placeByStops(w) || p.placeByPreemption(w, t)) {
		return
	}

	if len(top) == 0 {
		if stays {
			p.outlook.UnstopAlloc(w.Prev)
			g.Pace.NoteRejected()
		}

		if w.node != nil {
			p.ExhaustedNodes[w.node.ID] = true
		}

		g.recordFailure(w, t)
		return
	}

	t.Metric.ScoreMetaData = p.scores(w, top)
	p.addToPlan(w, top[0].view, t)
}

// chooseNode returns the best feasible nodes: of a sample, or of all nodes if the sample has none. It returns
// none if every node rejected, or if all nodes alike are blocked.
func (p *Placer) chooseNode(w *Placement) (topN, *rejects.Count) {
	g := w.Group
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
	if w.IsUpdate() {
		// The place of the predecessor is free now, and is the likely one.
		if n := state.Node(p.outlook, w.Prev.NodeID); n != nil {
			o.moveToFront(n)
		}
	}

	// After an unblock the nodes without freed capacity reject as before, so few of them are tried.
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

	// No node of the sample fits. Before it reports a failure, the plan tries every node.
	g.Filter(p.outlook.AllNodes())
	return p.tryAll(w, g.Passing)
}

// lastRejections returns the rejections of all nodes for the evaluation's last plan, and the nodes with
// capacity freed since, if nothing else has changed since; else nil. Such a group depends on nodes only.
func (p *Placer) lastRejections(w *Placement) (*rejects.Count, []*structs.Node) {
	g := w.Group
	e := p.outlook.Eval
	before := e.FailedTGAllocs[g.Spec.TaskGroup.Name]
	if before == nil ||
		len(before.QuotaExhausted) > 0 || // it has not tried all nodes
		len(e.BlockedOn) == 0 ||
		e.JobModifyIndex != p.outlook.Job.JobModifyIndex ||
		w.demand.UsesVolumes() ||
		w.IsUpdate() ||
		g.Spec.Limited() ||
		g.Spec.Job != p.outlook.Job {
		return nil, nil
	}

	// The state keeps a bounded history of freed nodes. Beyond it, all nodes are tried.
	ids, known := unblock.NodesFreedSince(p.outlook, e.SnapshotIndex)
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
func (p *Placer) tryAll(w *Placement, candidates []*structs.Node) (topN, *rejects.Count) {
	// static counts the nodes that the group's filters reject, so only Check is left to do.
	t := w.Group.static.Clone()
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
func (p *Placer) addToPlan(w *Placement, v *feasible.NodeView, t *rejects.Count) {
	a := newAlloc(p, w, v.Node, t)
	p.outlook.Add(a, &w.demand, v)
	p.placed += allocBytes(a)
	if w.IsUpdate() {
		w.Group.Pace.NoteUpdated(w.place(), w.Ended, p.outlook.Now.UnixNano())
	} else {
		// A successor within one deployment has the part of the pace that its predecessor had.
		countedBefore := w.kind == KindReschedule && w.Prev.DeploymentID == a.DeploymentID
		w.Group.Pace.NoteAdded(w.place(), countedBefore)
	}
}

// newAlloc returns the allocation of a placement on a node, without what Outlook.Add gives it.
func newAlloc(p *Placer, w *Placement, n *structs.Node, t *rejects.Count) *structs.Allocation {
	plan := p.outlook.Plan
	job := p.outlook.Job
	version := w.Group.Spec.Job
	group := w.Group.Spec.TaskGroup.Name
	a := &structs.Allocation{
		ID:                newAllocID(plan.Place),
		Namespace:         p.outlook.Namespace,
		EvalID:            p.outlook.Eval.ID,
		Name:              structs.AllocName(job.ID, group, w.demand.Index),
		NodeID:            n.ID,
		NodeName:          n.Name,
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

	if prev := cmp.Or(w.Prev, w.data); prev != nil {
		a.PreviousAllocation = prev.ID
	}

	if w.Canary && a.DeploymentID != "" {
		a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
	}

	return a
}

// trackerFor returns the reschedules that the replacement remembers.
func (p *Placer) trackerFor(w *Placement) *structs.RescheduleTracker {
	// A new version begins without a past: it may have mended the cause of the failures.
	if w.Prev == nil || w.IsUpdate() {
		return nil
	}

	var newest *structs.RescheduleEvent
	if w.kind == KindReschedule {
		newest = &structs.RescheduleEvent{
			RescheduleTime: p.outlook.Now.UnixNano(),
			PrevAllocID:    w.Prev.ID,
			PrevNodeID:     w.Prev.NodeID,
			Delay:          time.Duration(w.Delay),
		}
	}

	return rescheduleTracker(ReschedulePolicyOf(p.outlook.Job, w.Group.Spec.TaskGroup), w.Prev, newest)
}

// allocBytes returns about the size of an allocation in a log entry.
func allocBytes(a *structs.Allocation) int {
	size := 512 + 160*len(rescheduleEvents(a)) + rejects.MetricBytes(a.Metrics)
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
	size += 160 * len(a.CSIVolumes)
	size += 40*len(a.AwaitedAllocations) + 240*len(a.PreemptedAllocations) // with their stops
	return size + len(a.Name) + len(a.NodeName)
}
