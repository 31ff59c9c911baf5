package scheduler

import (
	"slices"

	"berth/state"
	"berth/structs"
)

// An update that exchanges room, ports, devices or volumes with others stops an allocation before there is a
// place for its successor. Its place is empty until then. The allocation counts for the pace of its group
// until its successor is healthy.

// place is the place of an allocation in its group: its index, or in a per-node job its node.
type place struct {
	node  string
	index int
}

func (w *placement) place() place {
	if w.node != nil {
		return place{node: w.node.ID}
	}
	return place{index: w.index}
}

func (g *groupPlan) placeOf(a *structs.Allocation) place {
	if g.job.PerNode() {
		return place{node: a.NodeID}
	}
	return place{index: a.Index()}
}

// wants reports whether the group wants an allocation at the place of one.
func (g *groupPlan) wants(a *structs.Allocation) bool {
	if !g.job.PerNode() {
		return a.Index() < g.group.Count
	}
	n := state.Node(g.planner, a.NodeID)
	return n != nil && g.checkNode(n) == nil
}

// isReplaced reports whether an allocation was stopped for a successor of a newer version, and no allocation
// names it as the one that it replaces.
func isReplaced(a *structs.Allocation) bool {
	return a.ServerTerminal() && a.NextAllocation == "" && a.StopCause == structs.StopReplaced
}

// emptyPlaces returns the places of a group whose allocations earlier plans have stopped first.
func (p *planner) emptyPlaces(g *groupPlan, taken func(place) bool) map[place]bool {
	empty := map[place]bool{}
	for _, a := range p.replaced {
		at := g.placeOf(a)
		if g.has(a) && p.isOlder(a) && g.wants(a) && !taken(at) {
			empty[at] = true
		}
	}
	return empty
}

// mayReplace reports whether another allocation of a group may be replaced by the new version now. One is
// replaced beyond the pace if nothing else helps: the group misses only those at empty places, none of these
// finds an allocation, and nothing that they may wait for goes on.
func (p *planner) mayReplace(g *groupPlan) bool {
	r := g.updates
	if r == nil || r.left > 0 || !r.exceeds || r.stands {
		return g.mayUpdate()
	}
	r.stands = true
	for _, a := range p.replaced {
		if g.has(a) && r.empty[g.placeOf(a)] && p.waitsForOthers(a, g) {
			r.exceeds = false
			p.waits = true
			break
		}
	}
	return r.exceeds
}

// waitsForOthers reports whether the successor of an allocation that was stopped first may find a place
// without another stop: others are about to end on its node, or their updates go on. Nothing tells when these
// come to a stand, so an evaluation that waits for them is tried again later.
func (p *planner) waitsForOthers(a *structs.Allocation, g *groupPlan) bool {
	for other := range state.HoldersByNode(p, a.NodeID) {
		if other.ServerTerminal() {
			return true
		}
	}
	c := p.newCircle(a, g)
	c.moving = true
	c.findOthers()
	return slices.ContainsFunc(c.otherGroups(), c.goesOn)
}

// otherGroups returns the groups of the others without that of the target.
func (c *circle) otherGroups() (groups []*groupPlan) {
	for _, m := range c.others {
		if m.plan != c.target.plan && !slices.Contains(groups, m.plan) {
			groups = append(groups, m.plan)
		}
	}
	return groups
}

// isUnderWay reports whether another group of the circle has empty places and goes on. The target waits for
// it, because each of the two may take the pace of the other.
func (c *circle) isUnderWay() bool {
	return slices.ContainsFunc(c.otherGroups(), func(g *groupPlan) bool {
		return c.hasEmptyPlaces(g) && c.goesOn(g)
	})
}

// hasEmptyPlaces reports whether earlier plans have stopped an allocation of a group first whose successor
// has no place yet.
func (c *circle) hasEmptyPlaces(g *groupPlan) bool {
	empty := map[place]bool{}
	for a := range state.AllocsByJob(c, g.job.Namespace, g.job.ID) {
		if g.has(a) && a.JobVersion != g.job.Version && isReplaced(a) && g.wants(a) {
			empty[g.placeOf(a)] = true
		}
	}
	for a := range state.LiveAllocsByJob(c, g.job.Namespace, g.job.ID) {
		if g.has(a) {
			delete(empty, g.placeOf(a))
		}
	}
	return len(empty) > 0
}

// goesOn reports whether nodes or plans have something to do for the update of a group: an allocation is
// about to end or is not healthy yet, or its job is about to be evaluated.
func (c *circle) goesOn(g *groupPlan) bool {
	j := g.job
	if j != c.job && c.isEvaluatedNow(j) {
		return true
	}
	for a := range state.AllocsByJob(c, j.Namespace, j.ID) {
		if g.has(a) && !a.ClientTerminal() && (a.ServerTerminal() || g.isFresh(a)) {
			return true
		}
	}
	return false
}

// isEvaluatedNow reports whether a job has an evaluation that waits for no time, or whose time has come.
func (p *planner) isEvaluatedNow(j *structs.Job) bool {
	if state.HasPendingEval(p, j.Namespace, j.ID) {
		return true
	}
	for e := range state.LaterEvalsByJob(p, j.Namespace, j.ID) {
		if e.WaitUntil <= p.now.UnixNano() {
			return true
		}
	}
	return false
}

// isFresh reports whether an allocation of the newest version may become healthy, or in a per-node job is one
// of the last stagger.
func (g *groupPlan) isFresh(a *structs.Allocation) bool {
	if a.JobVersion != g.job.Version || !g.group.Update.Rolls() {
		return false
	}
	if g.job.PerNode() {
		return a.CreateTime > g.planner.now.Add(-g.group.Update.Stagger).UnixNano()
	}
	return a.DeploymentID != "" && !a.DeploymentStatus.IsHealthy() && !a.DeploymentStatus.IsUnhealthy()
}

// stopFirst leaves an allocation stopped, although its successor has no place yet. The successor is tried
// again after the other updates of the plan.
func (p *planner) stopFirst(w *placement) {
	w.together = true
	p.stoppedFirst = append(p.stoppedFirst, w)
	if w.plan.updates != nil {
		w.plan.updates.left--
	}
}

// placeStoppedFirst places the successors of the allocations that stop first.
func (p *planner) placeStoppedFirst() {
	for _, w := range p.stoppedFirst {
		if w.plan.updates != nil {
			w.plan.updates.left++
		}
		if p.full() {
			p.more = true
			w.plan.queued++
			continue
		}
		p.placeOne(w)
	}
	p.stoppedFirst = nil
}
