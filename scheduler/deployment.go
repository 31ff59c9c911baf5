package scheduler

import (
	"cmp"
	"slices"

	"berth/scheduler/place"
	"berth/scheduler/rollout"
	"berth/structs"
)

// A deployment rolls out one version of a service job. It replaces allocations of older versions a few at a
// time, as their successors become healthy. While it awaits the promotion of canaries, while it is paused and
// after it has failed, it is held: allocations of older versions stay, and if one is lost or moved, its
// successor has the older version, too.

// rollOut compares a group that deployments track with its allocations.
func (p *planner) rollOut(g *place.Group, allocs []*structs.Allocation) {
	group := g.Spec.TaskGroup
	canaries, ended, others := p.rollout.SplitCanaries(allocs)
	for _, a := range ended {
		p.endAlloc(a, "a canary of a deployment that has ended")
	}

	slots := p.rolledSlots(g, settleAway(p, g, others))

	// The order matters: whether the group is held follows from the deployment, which Begin may have added,
	// and the pace counts only what the count of the group leaves.
	tracked := p.rollout.Begin(group, slots, p.outlook.Eval.Priority)
	held := p.rollout.Held.Holds(group)
	slots = p.holdOlder(group, slots, held)
	kept := p.trimToCount(g, slots)
	taken := make(map[int]bool, len(kept))
	for _, s := range kept {
		taken[s.Index] = true
	}

	empty := p.emptyPlaces(g, func(at rollout.Place) bool { return taken[at.Index] })
	g.Pace = rollout.NewPace(p.outlook.Job, group, empty)
	missing := group.Count - len(taken)
	if !held {
		p.rollout.SetPace(g.Pace, kept, missing)
	}

	for _, s := range kept {
		p.planAction(g, s)
	}

	p.rollCanaries(g, tracked, canaries, kept)
	switch {
	case missing <= 0:
	// A held group grows no further. It gets back only what it had.
	case held:
		p.placeTakenAway(g, taken)
	default:
		p.placements = append(p.placements, place.NewSeveral(g, missing, taken))
	}

	if missing == 0 {
		p.rollout.Settle(group.Name, kept)
	}
}

// rolledSlots decides on the allocations of a group that a deployment may track.
func (p *planner) rolledSlots(g *place.Group, others []*structs.Allocation) []rollout.Decision {
	slots := make([]rollout.Decision, 0, len(others))
	for _, a := range others {
		s := p.classify(g, a, p.outlook.NodeOf(a))

		// Ended ones of older versions stay in the list: a held group replaces them in their own version.
		if s.Action != rollout.None || p.outlook.IsOlder(a) {
			slots = append(slots, s)
		}
	}

	return slots
}

// placeTakenAway places successors for allocations of a held group that were lost or moved and found no place
// at that time. They have the version of their predecessors.
func (p *planner) placeTakenAway(g *place.Group, taken map[int]bool) {
	for _, a := range p.rollout.Held.Misses(p.outlook, g.Spec.TaskGroup, taken) {
		if p.outlook.Stops(a.ID) {
			continue
		}
		version := g
		if p.outlook.IsOlder(a) {
			// A version that is no longer kept cannot be placed, so the successor has the newest one.
			version = cmp.Or(p.formerPlan(a), g)
		}
		p.placements = append(p.placements, place.NewSuccessor(version, place.KindReturn, a))
	}
}

// holdOlder changes the decisions on allocations of older versions in a held group: each stays, or its
// successor has its version. It drops the allocations that do not count for the group.
func (p *planner) holdOlder(
	group *structs.TaskGroup, slots []rollout.Decision, held bool,
) []rollout.Decision {
	if !held {
		return slices.DeleteFunc(slots, func(s rollout.Decision) bool { return s.Action == rollout.None })
	}

	// A place may have several allocations: an ended one of the old version, and what took its index.
	newest := map[int]uint64{}
	for _, s := range slots {
		newest[s.Index] = max(newest[s.Index], s.Alloc.CreateIndex)
	}

	var out []rollout.Decision
	for _, s := range slots {
		older := p.outlook.IsOlder(s.Alloc)
		if older && s.Action == rollout.Update {
			s.Action = rollout.Keep
		}

		var former *place.Group
		if older {
			former = p.formerPlan(s.Alloc)
		}

		if former != nil && s.Alloc.ClientTerminal() {
			s = p.classifyEndedAs(former, s.Alloc)
			switch {
			case s.Alloc.CreateIndex < newest[s.Index]:
				s.Action = rollout.None // a newer version has taken its index
			case s.Action == rollout.Reschedule &&
				p.rollout.Held.ExcludesCanaries(former.Spec.TaskGroup, s.Index):
				// Its canaries would get no volume beside it, so it stays ended until they are promoted.
				s.Action = rollout.Hold
			}
		}

		s.Former = former != nil
		if s.Action != rollout.None {
			out = append(out, s)
		}
	}

	return out
}

// formerPlan returns the plan of the group in the version of an allocation, nil if the version is gone.
func (p *planner) formerPlan(a *structs.Allocation) *place.Group {
	// Each call of addGroupOf compiles the group, and many allocations may have one old version.
	key := formerGroup{a.TaskGroup, a.JobVersion}
	if g := p.former[key]; g != nil {
		return g
	}

	old := p.rollout.Held.Former(p.outlook, a)
	if old == nil {
		return nil
	}

	if p.former == nil {
		p.former = map[formerGroup]*place.Group{}
	}

	g := p.addGroupOf(old, old.Group(a.TaskGroup))
	p.former[key] = g
	return g
}

// formerGroup names a group in an older version of the job.
type formerGroup struct {
	group   string
	version uint64
}

// rollCanaries keeps up the number of canaries of a group whose deployment awaits their promotion.
func (p *planner) rollCanaries(
	g *place.Group, tracked *structs.DeploymentState,
	canaries []*structs.Allocation, slots []rollout.Decision,
) {
	taken := map[int]bool{}
	count := 0
	for _, a := range canaries {
		s := p.classify(g, a, p.outlook.NodeOf(a))
		if s.Action == rollout.None {
			continue
		}

		if count >= tracked.DesiredCanaries {
			p.endAlloc(a, "more canaries than its group needs")
			continue
		}

		count++
		taken[s.Index] = true
		p.planAction(g, s)
	}

	group := g.Spec.TaskGroup
	most := p.rollout.Held.MissedCanaries(group, count)
	for _, index := range p.rollout.CanaryIndexes(group, slots, taken, most) {
		p.placements = append(p.placements, place.NewCanary(g, index))
	}
}
