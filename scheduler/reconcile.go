package scheduler

import (
	"cmp"
	"slices"

	"berth/scheduler/change"
	"berth/state"
	"berth/structs"
)

// placement is one allocation to place, or several that replace none.
type placement struct {
	plan  *groupPlan
	index int
	node  *structs.Node       // in per-node jobs: the node that it belongs to
	prev  *structs.Allocation // replaced by this one, or nil
	data  *structs.Allocation // without prev: ended long ago, and this one takes over its data, or nil

	update      bool  // prev runs until its replacement is placed
	held        bool  // the plan left the update to a later one: its deployment continues in batches
	canary      bool  // placed beside the allocations of older versions
	rescheduled bool  // prev failed
	delay       int64 // of the reschedule, nanoseconds

	uses   []volumeUse // looked up once
	looked bool

	victims []string // the allocations that it displaces

	ended bool         // the plan has stopped prev already: it moves, or stops for the successor of another
	fresh int          // if not 0: this number of allocations that replace none, with the lowest free indexes
	taken map[int]bool // for fresh: the indexes in use

	nodes []*structs.Node // if not nil: one allocation on each, which replaces none
}

// action is the decision on an allocation that counts for its group.
type action int

const (
	actionKeep       action = iota
	actionRefresh           // continues under the new version of the job
	actionUpdate            // replaced by the new version once that has a place
	actionMove              // stopped now and placed again
	actionLose              // lost with its node and placed again
	actionReschedule        // ended, and replaced now
	actionHold              // ended, and not replaced now or ever
	actionNone              // no longer counts
)

// classified is an allocation with the decision on it.
type classified struct {
	alloc  *structs.Allocation
	index  int // of alloc
	action action
	former *groupPlan // not nil: it is placed again in its own, older version
	why    string
	delay  int64
	due    int64 // of actionHold: the time of the replacement, 0 for never
}

// replacedReason is the description of an allocation with the cause StopReplaced.
const replacedReason = "replaced by a newer version of the job"

// reconcile compares a service or batch job with its allocations.
func (p *planner) reconcile() {
	byGroup := p.allocsByGroup()
	d := newDeployer(p)
	for _, group := range p.job.TaskGroups {
		g := p.addGroup(group)
		if state.Deploys(p.job, group) {
			d.rollOut(g, byGroup[group.Name])
		} else {
			p.reconcileGroup(g, byGroup[group.Name])
		}
	}
	d.completeDeployment()
}

// allocsByGroup returns the live allocations by their group. It stops those whose group is gone.
func (p *planner) allocsByGroup() map[string][]*structs.Allocation {
	byGroup := map[string][]*structs.Allocation{}
	for _, a := range p.liveAllocs() {
		if !p.endWithoutGroup(a) {
			byGroup[a.TaskGroup] = append(byGroup[a.TaskGroup], a)
		}
	}
	return byGroup
}

// endWithoutGroup stops an allocation whose group is gone, and reports whether it is. A group of a per-node
// job is also gone if its count is 0.
func (p *planner) endWithoutGroup(a *structs.Allocation) bool {
	group := p.job.Group(a.TaskGroup)
	gone := group == nil || group.Count == 0 && p.job.PerNode()
	if gone {
		p.endAlloc(a, "its group is no longer in the job")
	}
	return gone
}

func (p *planner) reconcileGroup(g *groupPlan, allocs []*structs.Allocation) {
	slots := make([]classified, 0, len(allocs))
	for _, a := range allocs {
		s := p.classify(g, a, p.nodeOf(a))
		if s.action != actionNone {
			slots = append(slots, s)
		}
	}

	kept := p.trimToCount(g, slots)
	taken := make(map[int]bool, len(kept))
	for _, s := range kept {
		taken[s.index] = true
		p.planAction(g, s)
	}

	missing := g.spec.group.Count - len(taken)
	if missing > 0 {
		p.placements = append(p.placements, &placement{
			plan:  g,
			fresh: missing,
			taken: taken,
		})
	}
}

// classify decides on an allocation of the group on a node, apart from the group's other allocations.
func (p *planner) classify(g *groupPlan, a *structs.Allocation, n *structs.Node) classified {
	s := classified{alloc: a, index: a.Index()}
	switch {
	case a.ClientTerminal():
		return p.classifyEnded(g, a)
	case n.Lost():
		s.action = actionLose
		s.why = state.NodeIsDown
	case a.Migrate:
		s.action = actionMove
		s.why = "stopped by an operator, to be placed again"
		if n.Drain {
			s.why = "moved by the drain of its node"
		}

	case a.JobVersion == p.job.Version:
		s.action = actionKeep
	default:
		s.action = classifyVersion(p.outlook, g.spec, a, n)
	}
	return s
}

// classifyVersion compares the running version of an allocation with the new version of the job.
func classifyVersion(
	o *outlook, g *compiledGroup, a *structs.Allocation, n *structs.Node,
) action {
	if mayContinue(o, g, a, n) && !o.isCrowded(g, a) {
		return actionRefresh
	}
	return actionUpdate
}

// mayContinue reports whether an allocation of an older version may continue on its node as one of this
// group.
func mayContinue(
	o *outlook, g *compiledGroup, a *structs.Allocation, n *structs.Node,
) bool {
	old := state.JobOf(o, a)
	if old == nil {
		return false
	}
	older := old.Group(a.TaskGroup)
	return change.SameRunSpec(old, older, g.job, g.group) &&
		!g.agentDropsChange(older, n) &&
		g.checkRunning(n) == ""
}

// trimToCount stops surplus allocations: of allocations with one index all but the best, then those with the
// highest indexes. In a group with volumes per allocation, an index beyond the count has no volume.
func (p *planner) trimToCount(g *groupPlan, slots []classified) []classified {
	order := make([]slotPlace, len(slots))
	for at, s := range slots {
		order[at] = slotPlace{s.index, at}
	}

	slices.SortFunc(order, func(a, b slotPlace) int {
		if a.index != b.index {
			return a.index - b.index
		}
		return slots[a.at].compare(&slots[b.at])
	})

	perAlloc := g.spec.group.HasPerAlloc()
	kept := make([]classified, 0, len(slots))
	for i, o := range order {
		s := slots[o.at]
		duplicate := i > 0 && order[i-1].index == s.index
		if duplicate ||
			len(kept) >= g.spec.group.Count ||
			perAlloc && s.index >= g.spec.group.Count {
			p.endSurplus(s, duplicate)
			continue
		}

		kept = append(kept, s)
	}

	return kept
}

// slotPlace is the place of a classified allocation in a list. It is much smaller, so it sorts faster.
type slotPlace struct{ index, at int }

// compare orders allocations of one index: the best first. A promoted canary precedes one of an older version
// that moved after the canary was placed.
func (s *classified) compare(o *classified) int {
	return cmp.Or(
		cmp.Compare(s.action, o.action),
		cmp.Compare(o.alloc.JobVersion, s.alloc.JobVersion),
		cmp.Compare(o.alloc.CreateIndex, s.alloc.CreateIndex),
		cmp.Compare(s.alloc.ID, o.alloc.ID),
	)
}

// endSurplus stops a surplus allocation. A duplicate of an older version has a successor: a promoted canary.
func (p *planner) endSurplus(s classified, duplicate bool) {
	if duplicate && s.action == actionUpdate {
		p.stopAlloc(s.alloc, structs.StopReplaced, replacedReason)
		return
	}
	p.endAlloc(s.alloc, "no longer needed by the count of its group")
}

// planAction adds the consequences of a decision to the plan.
func (p *planner) planAction(g *groupPlan, s classified) {
	if s.action == actionKeep {
		return
	}

	w := &placement{
		plan:   g,
		index:  s.index,
		prev:   s.alloc,
		delay:  s.delay,
		canary: s.alloc.DeploymentStatus.IsCanary(),
	}

	if s.former != nil {
		w.plan = s.former
	}

	switch s.action {
	case actionNone:
		return
	case actionHold:
		if s.due > 0 {
			p.delayed = append(p.delayed, s)
		} else if s.alloc.DeploymentID != "" && s.alloc.DeploymentID == p.deploymentOf(g) {
			g.noProgress = true
		}
		return

	case actionRefresh:
		p.plan.Update = append(p.plan.Update, &structs.PlanUpdate{
			AllocID:       s.alloc.ID,
			JobVersion:    p.job.Version,
			SetJobVersion: true,
			DeploymentID:  p.deploymentOf(g),
		})
		return

	case actionMove, actionLose:
		if !p.endToMove(s) {
			return
		}

		w.ended = true

	case actionUpdate:
		w.update = true
	case actionReschedule:
		w.rescheduled = true
	}

	p.placements = append(p.placements, w)
}

// endToMove stops an allocation that is placed again. If the plan has moved its most, it leaves the
// allocation to the next plan.
func (p *planner) endToMove(s classified) bool {
	if p.moves >= mostPlaced && !p.unbounded {
		p.more = true
		return false
	}
	p.moves++
	p.endAlloc(s.alloc, s.why)
	return true
}
