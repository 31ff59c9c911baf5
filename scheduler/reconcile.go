package scheduler

import (
	"slices"

	"berth/scheduler/feasible"
	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/state"
	"berth/structs"
)

// reconcile compares a service or batch job with its allocations.
func (p *planner) reconcile() {
	// This precedes the rollout: it stops what the new version no longer has, and lists what is live.
	byGroup := p.allocsByGroup()
	p.rollout = rollout.Find(p.outlook, p.outlook.Job)
	for _, group := range p.outlook.Job.TaskGroups {
		g := p.addGroup(group)
		if state.Deploys(p.outlook.Job, group) {
			p.rollOut(g, byGroup[group.Name])
		} else {
			p.reconcileGroup(g, byGroup[group.Name])
		}
	}

	if p.rollout.Begun {
		p.outlook.Plan.Deployment = p.rollout.Deployment()
	}

	if update := p.rollout.Complete(); update != nil {
		p.outlook.Plan.DeploymentUpdates = append(p.outlook.Plan.DeploymentUpdates, update)
	}
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
	group := p.outlook.Job.Group(a.TaskGroup)
	gone := group == nil || group.Count == 0 && p.outlook.Job.PerNode()
	if gone {
		p.endAlloc(a, "its group is no longer in the job")
	}
	return gone
}

// reconcileGroup compares a group that no deployment tracks with its allocations: all updates may go at once.
func (p *planner) reconcileGroup(g *place.Group, allocs []*structs.Allocation) {
	allocs = settleAway(p, g, allocs)
	slots := make([]rollout.Decision, 0, len(allocs))
	for _, a := range allocs {
		s := p.classify(g, a, p.outlook.NodeOf(a))
		if s.Action != rollout.None {
			slots = append(slots, s)
		}
	}

	kept := p.trimToCount(g, slots)
	taken := make(map[int]bool, len(kept))
	for _, s := range kept {
		taken[s.Index] = true
		p.planAction(g, s)
	}

	missing := g.Spec.TaskGroup.Count - len(taken)
	if missing > 0 {
		p.placements = append(p.placements, place.NewSeveral(g, missing, taken))
	}
}

// classify decides on an allocation of the group on a node, apart from the group's other allocations.
func (p *planner) classify(g *place.Group, a *structs.Allocation, n *structs.Node) rollout.Decision {
	s := rollout.Decision{Alloc: a, Index: a.Index()}
	switch {
	case a.ClientTerminal():
		return p.classifyEnded(g, a)
	// This precedes the drain: an allocation on a lost node cannot be moved, only given up.
	case n.Lost() || a.IsUnknown():
		return classifyAway(p, g, a)
	case a.Migrate:
		s.Action = rollout.Move
		s.Why = "stopped by an operator, to be placed again"
		if n.Drain {
			s.Why = "moved by the drain of its node"
		}

	case a.JobVersion == p.outlook.Job.Version:
		s.Action = rollout.Keep
	default:
		s.Action = classifyVersion(p.outlook, g.Spec, a, n)
	}
	return s
}

// classifyVersion compares the running version of an allocation with the new version of the job.
func classifyVersion(
	o *feasible.Outlook, g *feasible.Group, a *structs.Allocation, n *structs.Node,
) rollout.Action {
	if mayContinue(o, g, a, n) && !o.IsCrowded(g, a) {
		return rollout.Refresh
	}
	return rollout.Update
}

// mayContinue reports whether an allocation of an older version may continue on its node as one of this
// group.
func mayContinue(
	o *feasible.Outlook, g *feasible.Group, a *structs.Allocation, n *structs.Node,
) bool {
	old := state.JobOf(o, a)
	if old == nil {
		return false
	}
	older := old.Group(a.TaskGroup)
	return sameRunSpec(old, older, g.Job, g.TaskGroup) &&
		!g.AgentDropsChange(older, n) &&
		g.CheckRunning(n) == ""
}

// trimToCount stops surplus allocations: of allocations with one index all but the best, then those with the
// highest indexes. In a group with volumes per allocation, an index beyond the count has no volume.
func (p *planner) trimToCount(g *place.Group, slots []rollout.Decision) []rollout.Decision {
	// By index, and the best first, so that the others of an index are its duplicates.
	order := make([]slotPlace, len(slots))
	for at, s := range slots {
		order[at] = slotPlace{s.Index, at}
	}

	slices.SortFunc(order, func(a, b slotPlace) int {
		if a.index != b.index {
			return a.index - b.index
		}

		return slots[a.at].Compare(&slots[b.at])
	})

	perAlloc := g.Spec.TaskGroup.HasPerAlloc()
	kept := make([]rollout.Decision, 0, len(slots))
	for i, o := range order {
		s := slots[o.at]
		duplicate := i > 0 && order[i-1].index == s.Index
		if duplicate ||
			len(kept) >= g.Spec.TaskGroup.Count ||
			perAlloc && s.Index >= g.Spec.TaskGroup.Count {
			p.endSurplus(s, duplicate)
			continue
		}

		kept = append(kept, s)
	}

	return kept
}

// slotPlace is the place of a decision in a list. It is much smaller, so it sorts faster.
type slotPlace struct{ index, at int }

// endSurplus stops a surplus allocation. A duplicate of an older version has a successor: a promoted canary.
func (p *planner) endSurplus(s rollout.Decision, duplicate bool) {
	if duplicate && s.Action == rollout.Update {
		p.outlook.StopAlloc(s.Alloc, structs.StopReplaced, place.ReplacedReason)
		return
	}
	p.endAlloc(s.Alloc, "no longer needed by the count of its group")
}

// planAction adds the consequences of a decision to the plan.
func (p *planner) planAction(g *place.Group, s rollout.Decision) {
	var k place.Kind
	switch s.Action {
	case rollout.Keep, rollout.None:
		return
	case rollout.Await:
		holdUnknown(p, s.Alloc, s.Due)
		return
	case rollout.Hold:
		if s.Due > 0 {
			p.delayed = append(p.delayed, s)
		} else {
			p.rollout.Stall(g.Spec.Job, s.Alloc)
		}

		return

	case rollout.Refresh:
		p.outlook.Plan.Update = append(p.outlook.Plan.Update, &structs.PlanUpdate{
			AllocID:       s.Alloc.ID,
			JobVersion:    p.outlook.Job.Version,
			SetJobVersion: true,
			DeploymentID:  p.rollout.CountedBy(g.Spec.Job, g.Spec.TaskGroup.Name),
		})
		return

	case rollout.Move, rollout.Lose:
		if !p.endToMove(s) {
			return
		}

		k = place.KindMove

	case rollout.Replace:
		holdUnknown(p, s.Alloc, s.Due)
		k = place.KindAway
	case rollout.Update:
		k = place.KindUpdate
	case rollout.Reschedule:
		k = place.KindReschedule
	}

	p.placeSuccessor(g, k, s)
}

// placeSuccessor adds the placement of the successor of an allocation, in the version that the decision
// demands.
func (p *planner) placeSuccessor(g *place.Group, k place.Kind, s rollout.Decision) {
	if s.Former {
		g = p.formerPlan(s.Alloc)
	}

	w := place.NewSuccessor(g, k, s.Alloc)

	// A canary that is moved or rescheduled stays one until its deployment promotes it.
	w.Canary = s.Alloc.DeploymentStatus.IsCanary()
	w.Delay = s.Delay
	p.placements = append(p.placements, w)
}

// endToMove stops an allocation that is placed again. If the plan has moved its most, it leaves the
// allocation to the next plan.
func (p *planner) endToMove(s rollout.Decision) bool {
	// A stop without a placement in the same plan would leave the job short until the next plan.
	if p.moves >= structs.MaxPlaced && !p.placer.Unbounded {
		p.placer.More = true
		return false
	}
	p.moves++
	p.endAlloc(s.Alloc, s.Why)
	return true
}
