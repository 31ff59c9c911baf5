package scheduler

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"berth/state"
	"berth/structs"
)

// A deployment rolls out one version of a service job. It replaces allocations of older versions a few at a
// time, as their successors become healthy. While it awaits the promotion of canaries, while it is paused and
// after it has failed, it is held: allocations of older versions stay, and if one is lost or moved, its
// successor has the older version, too.

// deployer rolls out the job's version by its deployment.
type deployer struct {
	*planner

	deployed bool                       // the job's version has, or had, a deployment
	former   map[formerGroup]*groupPlan // groups in older versions, which are placed again
	held     *state.HeldGroups          // by deployment
}

func newDeployer(p *planner) *deployer {
	d := &deployer{planner: p, former: map[formerGroup]*groupPlan{}}
	d.findDeployment()
	return d
}

// findDeployment finds the deployment of the job's version, and what it holds.
func (p *deployer) findDeployment() {
	d := state.LatestDeployment(p, p.ns, p.job.ID)
	p.deployed = d != nil && d.JobVersion == p.job.Version
	p.deployment = state.DeploymentOfVersion(p, p.job)
	p.held = &state.HeldGroups{Job: p.job, Deployment: p.deployment}
}

// rollout is the update of one group in one plan.
type rollout struct {
	*groupPlan
	strategy *structs.UpdateStrategy
	state    *structs.DeploymentState // nil: no deployment tracks the group
	held     bool
	left     int            // allocations that may still be replaced
	empty    map[place]bool // see emptyPlaces
	absent   int            // allocations that the group misses for other reasons, such as a drain
	rejected int            // that found no place for their successor
	next     int64          // in per-node jobs: the time from which on more may be replaced, UnixNano, 0 for now
}

// rollOut compares a group that deployments track with its allocations.
func (p *deployer) rollOut(g *groupPlan, allocs []*structs.Allocation) {
	canaries, others := p.splitCanaries(allocs)
	r := &rollout{groupPlan: g, strategy: g.spec.group.Update}
	slots := make([]classified, 0, len(others))
	for _, a := range others {
		s := p.classify(g, a, p.nodeOf(a))
		if s.action != actionNone || p.isOlder(a) {
			slots = append(slots, s)
		}
	}

	p.beginDeployment(r, slots)
	r.held = p.held.Holds(r.spec.group)
	slots = p.holdOlder(r, slots)
	kept := p.trimToCount(g, slots)
	taken := make(map[int]bool, len(kept))
	for _, s := range kept {
		taken[s.index] = true
	}

	r.empty = p.emptyPlaces(g, func(at place) bool { return taken[at.index] })
	p.setPace(r, kept)
	missing := g.spec.group.Count - len(taken)
	r.absent += max(0, missing-len(r.empty))
	g.updates = r
	for _, s := range kept {
		p.planAction(g, s)
	}

	p.rollCanaries(r, canaries, kept)
	switch {
	case missing <= 0:
	case r.held:
		p.placeTakenAway(r, taken)
	default:
		p.placements = append(p.placements, &placement{
			plan:  g,
			fresh: missing,
			taken: taken,
		})
	}

	g.settled = missing == 0 && p.allHealthy(kept)
}

// splitCanaries returns the canaries of the active deployment, and the other allocations without the canaries
// of ended deployments. It stops these.
func (p *deployer) splitCanaries(allocs []*structs.Allocation) (canaries, others []*structs.Allocation) {
	d := p.deployment
	for _, a := range allocs {
		switch {
		case !a.DeploymentStatus.IsCanary():
			others = append(others, a)
		case d != nil && d.Active() && a.DeploymentID == d.ID:
			canaries = append(canaries, a)
		default:
			p.endAlloc(a, "a canary of a deployment that has ended")
		}
	}
	return canaries, others
}

// beginDeployment sets the state of the group in the deployment. If the job's version has none yet, the plan
// begins it, with the first allocation of the version and with the first update to it. Only updates of
// allocations that the count leaves need canaries.
func (p *deployer) beginDeployment(r *rollout, slots []classified) {
	r.state = p.deployment.Group(r.spec.group.Name)
	if r.state != nil || r.spec.group.Count == 0 ||
		p.deployment != nil && p.plan.Deployment == nil {
		return
	}

	updates := 0
	changes := false
	begun := p.deployed
	surplus := r.firstSurplus(slots)
	for _, s := range slots {
		begun = begun || !p.isOlder(s.alloc)
		changes = changes || s.action == actionUpdate || s.action == actionRefresh
		if s.action == actionUpdate && s.index < surplus {
			updates++
		}
	}

	if begun && !changes {
		return
	}

	u := r.strategy
	r.state = &structs.DeploymentState{
		AutoRevert:       u.AutoRevert,
		AutoPromote:      u.AutoPromote,
		ProgressDeadline: u.ProgressDeadline,
		DesiredTotal:     r.spec.group.Count,
	}

	if updates > 0 && p.admitsCanaries(r.spec.group) {
		r.state.DesiredCanaries = u.Canary
	}

	if p.deployment == nil {
		p.deployment = p.newDeployment()
		p.held.Deployment = p.deployment
		p.plan.Deployment = p.deployment
	}

	p.deployment.TaskGroups[r.spec.group.Name] = r.state
	p.deployment.StatusDescription = p.deployment.DefaultDescription()
}

// firstSurplus returns the index from which on trimToCount stops the allocations of a group.
func (g *groupPlan) firstSurplus(slots []classified) int {
	if g.spec.group.HasPerAlloc() {
		return g.spec.group.Count
	}
	var indexes []int
	for _, s := range slots {
		if s.action != actionNone {
			indexes = append(indexes, s.index)
		}
	}
	slices.Sort(indexes)
	indexes = slices.Compact(indexes)
	if len(indexes) <= g.spec.group.Count {
		return math.MaxInt
	}
	return indexes[g.spec.group.Count]
}

// admitsCanaries reports whether canaries of a group can get their volumes. A registration with others is
// rejected, but a rollback is not, and two requests at once may each pass the check without the other. Their
// version is rolled out without canaries.
func (p *deployer) admitsCanaries(g *structs.TaskGroup) bool {
	return state.CanaryConflict(p, p.job, []*structs.TaskGroup{g}) == ""
}

func (p *deployer) newDeployment() *structs.Deployment {
	return &structs.Deployment{
		ID:                 structs.NewID(),
		Namespace:          p.ns,
		JobID:              p.job.ID,
		JobVersion:         p.job.Version,
		JobModifyIndex:     p.job.ModifyIndex,
		JobSpecModifyIndex: p.job.JobModifyIndex,
		JobCreateIndex:     p.job.CreateIndex,
		TaskGroups:         map[string]*structs.DeploymentState{},
		Status:             structs.DeploymentRunning,
		EvalPriority:       p.eval.Priority,
	}
}

// placeTakenAway places successors for allocations of a held group that were lost or moved and found no place
// at that time. They have the version of their predecessors.
func (p *deployer) placeTakenAway(r *rollout, taken map[int]bool) {
	for _, a := range p.held.Misses(p, r.spec.group, taken) {
		if p.stopped[a.ID] {
			continue
		}
		w := &placement{plan: r.groupPlan, index: a.Index(), prev: a}
		if p.isOlder(a) {
			w.plan = cmp.Or(p.formerPlan(a), r.groupPlan)
		}
		p.placements = append(p.placements, w)
	}
}

// holdOlder changes the decisions on allocations of older versions in a held group: each stays, or its
// successor has its version. It drops the allocations that do not count for the group.
func (p *deployer) holdOlder(r *rollout, slots []classified) []classified {
	if !r.held {
		return slices.DeleteFunc(slots, func(s classified) bool { return s.action == actionNone })
	}

	newest := map[int]uint64{}
	for _, s := range slots {
		newest[s.index] = max(newest[s.index], s.alloc.CreateIndex)
	}

	var out []classified
	for _, s := range slots {
		older := p.isOlder(s.alloc)
		if older && s.action == actionUpdate {
			s.action = actionKeep
		}

		var former *groupPlan
		if older {
			former = p.formerPlan(s.alloc)
		}

		if former != nil && s.alloc.ClientTerminal() {
			s = p.classifyEndedAs(former, s.alloc)
			switch {
			case s.alloc.CreateIndex < newest[s.index]:
				s.action = actionNone // a newer version has taken its index
			case s.action == actionReschedule && p.held.ExcludesCanaries(former.spec.group, s.index):
				s.action = actionHold
			}
		}

		s.former = former
		if s.action != actionNone {
			out = append(out, s)
		}
	}

	return out
}

// formerPlan returns the plan of the group in the version of an allocation, nil if the version is gone.
func (p *deployer) formerPlan(a *structs.Allocation) *groupPlan {
	key := formerGroup{a.TaskGroup, a.JobVersion}
	if g := p.former[key]; g != nil {
		return g
	}
	old := p.held.Former(p, a)
	if old == nil {
		return nil
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

// pace returns the number of allocations that an update replaces at a time. One that has a volume for itself
// is replaced alone.
func (r *rollout) pace() int {
	if r.spec.group.HoldsVolumesAlone() {
		return 1
	}
	return r.strategy.MaxParallel
}

// setPace sets the number of allocations that the plan may replace by the new version: its pace less the
// allocations that the group misses because of the update, and none beside an unhealthy one. It misses one at
// each empty place, and the allocations of the deployment whose health is not known or that have ended. One
// that has ended is no longer unhealthy when this plan replaces it: its successor's health is not known.
func (p *deployer) setPace(r *rollout, slots []classified) {
	if r.held {
		return
	}

	fresh := 0
	d := p.deployment
	for _, s := range slots {
		a := s.alloc
		leaves := s.action == actionLose || s.action == actionMove // its successor counts if it has a place
		if leaves {
			r.absent++
		}

		switch {
		case d == nil || a.DeploymentID != d.ID || leaves:
		case a.DeploymentStatus.IsUnhealthy() && s.action != actionReschedule:
			return
		case !a.DeploymentStatus.IsHealthy() || a.ClientTerminal():
			fresh++
		}
	}

	r.left = max(0, r.pace()-fresh-len(r.empty))
}

// rollCanaries keeps up the number of canaries of a group whose deployment awaits their promotion.
func (p *deployer) rollCanaries(r *rollout, canaries []*structs.Allocation, slots []classified) {
	taken := map[int]bool{}
	count := 0
	for _, a := range canaries {
		s := p.classify(r.groupPlan, a, p.nodeOf(a))
		if s.action == actionNone {
			continue
		}

		if count >= r.state.DesiredCanaries {
			p.endAlloc(a, "more canaries than its group needs")
			continue
		}

		count++
		taken[s.index] = true
		p.planAction(r.groupPlan, s)
	}

	for _, index := range r.canaryIndexes(slots, taken, p.held.MissedCanaries(r.spec.group, count)) {
		p.placements = append(p.placements, &placement{
			plan:   r.groupPlan,
			index:  index,
			canary: true,
		})
	}
}

// canaryIndexes returns indexes for canaries: first of the allocations that they are to replace, then free
// ones. An allocation that continues keeps its own, unless no other index has volumes.
func (g *groupPlan) canaryIndexes(slots []classified, taken map[int]bool, most int) (indexes []int) {
	used := maps.Clone(taken)
	add := func(index int) {
		if !used[index] && len(indexes) < most {
			used[index] = true
			indexes = append(indexes, index)
		}
	}

	stays := map[int]bool{}
	for _, s := range slots {
		if g.spec.outlook.isOlder(s.alloc) && s.action != actionRefresh {
			add(s.index)
		} else {
			stays[s.index] = true
		}
	}

	for index := 0; len(indexes) < most; index++ {
		if index == g.spec.group.Count && stays != nil && g.spec.group.HasPerAlloc() {
			stays = nil
			index = 0
		}

		if !stays[index] {
			add(index)
		}
	}

	return indexes
}

// allHealthy reports whether all allocations run the new version and are healthy in its deployment.
func (p *deployer) allHealthy(slots []classified) bool {
	return !slices.ContainsFunc(slots, func(s classified) bool {
		return s.action != actionKeep || p.isOlder(s.alloc) || !s.alloc.DeploymentStatus.IsHealthy()
	})
}

// completeDeployment ends the deployment if every group has reached its aim. It fails one without a deadline
// if a group has an allocation that has ended and is not replaced: no report of a node would end it.
func (p *deployer) completeDeployment() {
	d := p.deployment
	if d == nil || d.Status != structs.DeploymentRunning || p.plan.Deployment != nil {
		return
	}

	update := &structs.DeploymentStatusUpdate{
		DeploymentID: d.ID,
		Status:       structs.DeploymentSuccessful,
		RowIndex:     d.ModifyIndex,
	}

	reached := true
	for _, g := range p.groups {
		s := d.Group(g.spec.group.Name)
		if s == nil || g.spec.job != p.job {
			continue
		}

		if g.noProgress && s.ProgressDeadline == 0 {
			update.Status = structs.DeploymentFailed
			update.StatusDescription = structs.DeploymentFailedByAlloc
		}

		reached = reached && g.settled && !s.AwaitsPromotion()
	}

	if reached || update.Status == structs.DeploymentFailed {
		p.plan.DeploymentUpdates = append(p.plan.DeploymentUpdates, update)
	}
}

// mayUpdate reports whether another allocation of the group may be replaced by the new version now.
func (g *groupPlan) mayUpdate() bool {
	return g.updates == nil || g.updates.left > 0
}

// mostStops returns the most predecessors that the group may miss besides an update's own, for which they
// stop: none while it has an empty place, or misses as many because of a drain.
func (g *groupPlan) mostStops() int {
	r := g.updates
	switch {
	case r == nil:
		return mostStoppable
	case len(r.empty) > 0:
		return 0
	}
	return max(0, r.left-r.absent-1)
}

// noteEmptied counts an allocation that stops before its successor has a place.
func (g *groupPlan) noteEmptied(w *placement) {
	if g.updates != nil {
		g.updates.left--
		g.updates.empty[w.place()] = true
	}
}

// noteUpdated counts an allocation whose successor has found a place at a time, UnixNano.
func (g *groupPlan) noteUpdated(w *placement, at int64) {
	r := g.updates
	if r == nil {
		return
	}
	if !w.ended {
		r.left--
	}
	delete(r.empty, w.place())
	r.noteReplaced(at)
}

// noteAdded counts an allocation of the deployment that replaces no running one. Its health is not known, so
// it counts like an update: see setPace. One at an empty place has counted before, and so has one that
// replaces an allocation of the same deployment. In a per-node job only those at empty places count.
func (g *groupPlan) noteAdded(w *placement, deployment string) {
	r := g.updates
	if r == nil {
		return
	}
	at := w.place()
	empty := r.empty[at]
	delete(r.empty, at)
	counted := empty || w.rescheduled && w.prev.DeploymentID == deployment
	if r.counts() && !counted {
		r.left--
	}
}

// counts reports whether the plan may update the group, at the pace of a deployment.
func (r *rollout) counts() bool {
	return r != nil && r.left > 0 && !r.spec.job.PerNode()
}

// noteRejected counts an allocation whose successor has found no place. A plan leaves the others alone after
// some.
func (g *groupPlan) noteRejected() {
	r := g.updates
	if r == nil || g.spec.job.PerNode() {
		return // each node of a per-node job is a question of its own
	}
	r.rejected++
	if r.rejected >= mostRejected {
		r.left = 0
	}
}
