package scheduler

import (
	"maps"
	"slices"

	"berth/state"
	"berth/structs"
)

// An update stops an allocation once its successor has a place. Two groups, or two jobs, may exchange a
// static port, devices, a volume, or their room on a full node: then the successor of each waits for the
// allocation of the other, and none would ever stop. The scheduler finds such a circle at the last of its
// updates, and stops the allocation of that one first: if all of the circle stopped, all their successors
// would have a place, and without this one they have none.

// circle is the search for the allocations that may be in a circle with one, which the plan has stopped.
type circle struct {
	*planner
	target *member
	others []*member
	known  map[string]bool         // allocations
	newest map[jobGroup]*groupPlan // see newestPlan
	unsure map[*groupPlan]bool     // of jobs that are about to be evaluated: they may wait for a place then
	moving bool                    // the others are also those that wait for nothing
}

// member is an allocation that is about to be replaced.
type member struct {
	alloc  *structs.Allocation
	plan   *groupPlan      // of its successor
	nodes  []*structs.Node // on which its successor is likely to be
	claims []*structs.CSIClaim
}

// mostInCircle is the most allocations that the search considers, and the most nodes for one successor.
const mostInCircle = 32

// isInCircle reports whether an update that found no place waits for others that wait for its own allocation.
func (p *planner) isInCircle(w *placement) bool {
	if p.Older || w.plan.isAtItsPace() {
		return false
	}
	c := p.newCircle(w.prev, w.plan)
	c.findOthers()
	if !c.needsTarget() {
		return false
	}
	waits := c.isUnderWay()
	p.waits = p.waits || waits
	return !waits
}

// needsTarget reports whether others exchange their places with the target, and the successor of the target
// would have none if others exchanged theirs without it. If it has one beside all others, its plan has found
// none for a reason that a trial does not consider, and that no exchange changes.
func (c *circle) needsTarget() bool {
	if len(c.others) == 0 || c.fitsAfter(nil) {
		return false
	}
	var moving []*member
	waits := false
	for _, m := range c.others {
		if c.mayMove(m) {
			moving = append(moving, m)
			waits = waits || m.plan.job != c.job
		}
	}
	if c.fitsAfter(c.exchangeOf(moving)) {
		c.waits = c.waits || waits
		return false
	}
	return c.isExchanged()
}

// mayMove reports whether an other one may exchange its place without the target: the plan has not tried to
// replace it, or its job is about to be evaluated. The rest waits, perhaps for the target.
func (c *circle) mayMove(m *member) bool {
	if m.plan.job == c.job {
		return !c.tried[m.alloc.ID]
	}
	return c.isEvaluatedNow(m.plan.job)
}

func (p *planner) newCircle(a *structs.Allocation, g *groupPlan) *circle {
	c := &circle{
		planner: p,
		known:   map[string]bool{a.ID: true},
		newest:  map[jobGroup]*groupPlan{},
		unsure:  map[*groupPlan]bool{},
	}
	c.target = c.newMember(a, g)
	return c
}

func (c *circle) newMember(a *structs.Allocation, g *groupPlan) *member {
	m := &member{alloc: a, plan: g}
	for _, alias := range slices.Sorted(maps.Keys(g.group.Volumes)) {
		if r := g.group.Volumes[alias]; r.Type == structs.VolumeTypeCSI {
			claim := r.Claim(a.Namespace, a.Index())
			claim.JobID = a.JobID
			claim.TaskGroup = a.TaskGroup
			m.claims = append(m.claims, claim)
		}
	}
	m.nodes = c.nodesFor(m)
	for _, n := range m.nodes {
		c.viewOf(n) // made without the stops of an exchange
	}
	return m
}

// nodesFor returns the nodes on which the successor of a member is likely to be: that of its allocation, or a
// few others if its group may not be there, or has not its volumes there.
func (c *circle) nodesFor(m *member) (nodes []*structs.Node) {
	g := m.plan
	n := state.Node(c, m.alloc.NodeID)
	if n != nil && g.checkNode(n) == nil && c.reachesVolumes(m, n) {
		return []*structs.Node{n}
	}
	if g.job.PerNode() {
		return nil
	}
	g.filterNodes(c.allNodes())
	for _, n := range g.passing {
		if len(nodes) < mostInCircle && c.reachesVolumes(m, n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// reachesVolumes reports whether a node can mount the volumes of a member once nothing excludes it: no
// exchange brings a plugin, and none that begins with the plugin itself would end.
func (c *circle) reachesVolumes(m *member, n *structs.Node) bool {
	return !slices.ContainsFunc(m.claims, func(claim *structs.CSIClaim) bool {
		v := state.Volume(c, claim.Namespace, claim.VolumeID)
		if v == nil {
			return true
		}
		half := state.Instance(c, v.PluginID, structs.CSIKindNode, n.ID)
		return half == nil || !half.Healthy || c.stopped[half.AllocID] || !state.InstanceStays(c, half) ||
			!v.ReachableFrom(half.NodeReport().AccessibleTopology)
	})
}

// findOthers finds the members on the nodes of members, and those that use their volumes.
func (c *circle) findOthers() {
	c.findAround(c.target)
	for at := 0; at < len(c.others); at++ {
		c.findAround(c.others[at])
	}
}

func (c *circle) findAround(m *member) {
	for _, n := range m.nodes {
		for a := range state.LiveAllocsByNode(c, n.ID) {
			c.consider(a)
		}
	}
	for _, claim := range m.claims {
		for _, id := range c.volumeUsers(claim) {
			c.consider(state.Alloc(c, id))
		}
	}
}

// consider adds an allocation to the others if it is about to be replaced.
func (c *circle) consider(a *structs.Allocation) {
	if a == nil || a.Terminal() || c.stopped[a.ID] || c.known[a.ID] || len(c.others) == mostInCircle {
		return
	}
	c.known[a.ID] = true
	g := c.successor(a)
	if g == nil {
		return
	}
	c.others = append(c.others, c.newMember(a, g))
}

// successor returns the group in the version that is to replace an allocation, nil if none is about to. Two
// jobs that are evaluated at the same time know neither of the other's wait: this one is tried again then.
func (c *circle) successor(a *structs.Allocation) *groupPlan {
	key := jobGroup{a.Namespace, a.JobID, a.TaskGroup}
	g, known := c.newest[key]
	if !known {
		g = c.newestPlan(key)
		c.newest[key] = g
	}
	if g == nil || g.job.Version == a.JobVersion {
		return nil
	}
	g = g.replacing(a)
	if c.unsure[g] {
		c.waits = true
		return nil
	}
	return g
}

// newestPlan returns a group of the newest version of its job, nil if it is not about to replace allocations.
func (c *circle) newestPlan(key jobGroup) *groupPlan {
	if key.ns == c.ns && key.job == c.job.ID {
		at := slices.IndexFunc(c.groups, func(g *groupPlan) bool {
			return g.job == c.job && g.group.Name == key.group && (c.moving || g.mayUpdate())
		})
		if at < 0 {
			return nil
		}
		return c.groups[at]
	}
	j := state.Job(c, key.ns, key.job)
	if j == nil || j.Stop || j.Group(key.group) == nil {
		return nil
	}
	group := j.Group(key.group)
	blocked := state.BlockedEval(c, key.ns, key.job)
	waits := c.moving || blocked != nil && blocked.FailedTGAllocs[key.group] != nil || c.isAboutToUpdate(j)
	if !waits && !c.isEvaluatedNow(j) || c.isHeldBack(j, group) {
		return nil
	}
	g := newGroupPlan(j, group)
	g.planner = c.planner
	c.unsure[g] = !waits
	return g
}

// replacing returns the group if it replaces an allocation, nil if the allocation may continue.
func (g *groupPlan) replacing(a *structs.Allocation) *groupPlan {
	n := state.Node(g.planner, a.NodeID)
	if n == nil || g.mayContinue(a, n) {
		return nil
	}
	return g
}

// isAboutToUpdate reports whether another job has a new version that was not planned yet.
func (c *circle) isAboutToUpdate(j *structs.Job) bool {
	d := state.LatestDeployment(c, j.Namespace, j.ID)
	return state.HasPendingEval(c, j.Namespace, j.ID) && (d == nil || d.JobVersion != j.Version)
}

// isHeldBack reports whether the deployment of another job keeps the older allocations of a group.
func (c *circle) isHeldBack(j *structs.Job, g *structs.TaskGroup) bool {
	d := state.LatestDeployment(c, j.Namespace, j.ID)
	return d != nil && d.JobVersion == j.Version &&
		(d.Status != structs.DeploymentRunning || d.Group(g.Name).AwaitsPromotion())
}

// volumeUsers returns the allocations that have a claim, or will make one, that excludes another.
func (c *circle) volumeUsers(claim *structs.CSIClaim) (ids []string) {
	class := claim.Class()
	for other := range state.ClaimsOf(c.ReadTx, claim.Namespace, claim.VolumeID) {
		if other.Class().Conflicts(class) {
			ids = append(ids, other.AllocID)
		}
		if len(ids) == mostInCircle {
			return ids
		}
	}
	for other := range state.IntendedAgainst(c, claim) {
		ids = append(ids, other.AllocID)
	}
	return ids
}

// exchangeOf returns those of the members whose successors all have a place if these members stop. It leaves
// out one without a place after the other.
func (c *circle) exchangeOf(members []*member) []*member {
	members = slices.Clone(members)
	for {
		misfit := c.fitting(members)
		if misfit == len(members) {
			return members
		}
		members = slices.Delete(members, misfit, misfit+1)
	}
}

// fitsAfter reports whether the successor of the target has a place once others are exchanged.
func (c *circle) fitsAfter(exchanged []*member) bool {
	d := c.newTrial(exchanged...)
	defer d.end()
	for _, m := range exchanged {
		d.place(m)
	}
	d.stop(c.target)
	return d.place(c.target)
}
