package scheduler

import (
	"maps"
	"slices"

	"berth/state"
	"berth/structs"
)

// An update stops an allocation once its successor has a place. Two groups, or two jobs, may exchange a
// static port, a host volume or a CSI volume: then the successor of each waits for the allocation of the
// other, and none would ever stop. The scheduler finds such a circle at the last of its updates, and stops
// the allocation of that one first.

// circle is the search for a way from the successor of an allocation back to that allocation.
type circle struct {
	*planner
	target string
	seen   map[string]bool // allocations
}

// mostInCircle is the most allocations that the search visits.
const mostInCircle = 64

// isInCircle reports whether an update that found no place waits for others that wait for its own allocation.
// The plan has stopped the allocation.
func (p *planner) isInCircle(w *placement) bool {
	if p.older {
		return false
	}
	c := circle{p, w.prev.ID, map[string]bool{}}
	first := c.holders(w.plan, w.plan.group, w.index, w.prev)
	delete(p.stopped, w.prev.ID)
	found := slices.ContainsFunc(first, c.leadsBack)
	p.stopped[w.prev.ID] = true
	return found
}

// leadsBack reports whether an allocation waits, itself or by way of others, for the target.
func (c *circle) leadsBack(id string) bool {
	if c.seen[id] || len(c.seen) == mostInCircle {
		return false
	}
	c.seen[id] = true
	a := state.Alloc(c, id)
	plan, group := c.successor(a)
	if group == nil {
		return false
	}
	next := c.holders(plan, group, a.Index(), a)
	return slices.Contains(next, c.target) || slices.ContainsFunc(next, c.leadsBack)
}

// successor returns the group in the version that is to replace an allocation, nil if none is about to. Its
// plan is nil for another job.
func (c *circle) successor(a *structs.Allocation) (*groupPlan, *structs.TaskGroup) {
	if c.ofJob(a) {
		at := slices.IndexFunc(c.groups, func(g *groupPlan) bool {
			return g.job == c.job && g.group.Name == a.TaskGroup && g.mayUpdate()
		})
		if at < 0 {
			return nil, nil
		}
		return c.groups[at], c.groups[at].group
	}
	j := state.Job(c, a.Namespace, a.JobID)
	if j == nil || j.Stop || j.Group(a.TaskGroup) == nil {
		return nil, nil
	}
	blocked := state.BlockedEval(c, a.Namespace, a.JobID)
	waits := blocked != nil && blocked.FailedTGAllocs[a.TaskGroup] != nil
	if !waits && !c.isAboutToUpdate(j) {
		return nil, nil
	}
	return nil, j.Group(a.TaskGroup)
}

// isAboutToUpdate reports whether another job has a new version that was not planned yet.
func (c *circle) isAboutToUpdate(j *structs.Job) bool {
	d := state.LatestDeployment(c, j.Namespace, j.ID)
	return state.HasPendingEval(c, j.Namespace, j.ID) && (d == nil || d.JobVersion != j.Version)
}

// holders returns the allocations that are not to end and have something that only one can have and that the
// successor of an allocation needs: static ports and host volumes of its node, and CSI volumes.
func (c *circle) holders(
	plan *groupPlan, g *structs.TaskGroup, index int, prev *structs.Allocation,
) (ids []string) {
	for _, n := range c.nodesFor(plan, prev) {
		ids = append(ids, c.portHolders(g, n)...)
		if len(g.HostVolumes()) > 0 {
			ids = append(ids, c.writers(g, n.ID)...)
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		if r := g.Volumes[alias]; r.Type == structs.VolumeTypeCSI {
			ids = append(ids, c.volumeUsers(r.Claim(prev.Namespace, index))...)
		}
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		a := state.Alloc(c, id)
		return a == nil || a.Terminal() || c.stopped[id]
	})
}

// nodesFor returns the nodes on which the successor of an allocation is likely to be: that of the allocation,
// or a few others if its group may not be there.
func (c *circle) nodesFor(g *groupPlan, prev *structs.Allocation) []*structs.Node {
	n := state.Node(c, prev.NodeID)
	if n != nil && (g == nil || g.checkNode(n) == nil) {
		return []*structs.Node{n}
	}
	if g == nil || g.job.PerNode() {
		return nil
	}
	g.filterNodes(c.allNodes())
	return g.passing[:min(len(g.passing), mostInCircle)]
}

func (c *circle) portHolders(g *structs.TaskGroup, n *structs.Node) (ids []string) {
	demands := slices.DeleteFunc(g.PortDemands(), func(d structs.Port) bool { return !d.Static() })
	if len(demands) == 0 {
		return nil
	}
	use := state.PortsInUse(c, n)
	for _, d := range demands {
		for _, address := range n.HostAddresses(d.HostNetwork) {
			ids = append(ids, use.HolderOf(address, d.Value))
		}
	}
	return ids
}

// writers returns the allocations of a node that exclude a group from one of its host volumes.
func (c *circle) writers(g *structs.TaskGroup, node string) (ids []string) {
	for a := range state.LiveAllocsByNode(c, node) {
		j := state.JobOf(c, a)
		if j != nil && g.HostVolumeConflict(j.Group(a.TaskGroup)) != "" {
			ids = append(ids, a.ID)
		}
	}
	return ids
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

// stopFirst leaves an allocation stopped, although its successor has no place yet. The successor is tried
// again after the other placements of the plan.
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
}
