package scheduler

import (
	"cmp"
	"slices"

	"berth/state"
	"berth/structs"
)

// An allocation that fits nowhere may displace others: those of jobs whose priority is lower by at least
// priorityGap, on one node, and no more than it needs. Only cpu, memory, disk, ports and devices are taken
// from others. An allocation that runs a CSI plugin is never displaced, because the volumes of the node need
// it.
const (
	priorityGap     = structs.PreemptionGap
	preemptionNodes = 64 // nodes with enough victims that are compared
)

// displacement are the allocations of a node that a placement displaces.
type displacement struct {
	view    *nodeView
	victims []*structs.Allocation
	order   [4]int // compared: number of victims, sum of their priorities, those beyond migrate, their room
}

// mayPreempt reports whether the placement may displace others.
func (p *planner) mayPreempt(w *placement) bool {
	config := state.SchedulerConfig(p).PreemptionConfig
	return !p.Older && config.Enabled(p.job.Type) && p.blockedEverywhere(w) == nil
}

// placeByPreemption places an allocation that fits nowhere in the place of others. It reports false if there
// are none.
func (p *planner) placeByPreemption(w *placement, t *refusalCount) bool {
	if !p.mayPreempt(w) {
		return false
	}
	best := p.chooseDisplacement(w)
	if best == nil {
		return false
	}
	for _, victim := range best.victims {
		p.stopAlloc(victim, "", "")
		w.victims = append(w.victims, victim.ID)
		if s := p.spareOf(victim); s != nil {
			s.left--
		}
	}
	p.addToPlan(w, best.view, t)
	id := p.plan.Place[len(p.plan.Place)-1].ID
	for _, s := range p.plan.Stop[len(p.plan.Stop)-len(best.victims):] {
		s.PreemptedBy = id
		s.Description = "Preempted by alloc ID " + id
	}
	return true
}

// chooseDisplacement returns the best displacement: the fewest allocations, then those of the lowest
// priorities, then those that their groups can miss, then the least room. It is nil if no node has one. Each
// evaluation begins at another node, so that the same nodes do not always suffer.
func (p *planner) chooseDisplacement(w *placement) *displacement {
	nodes := []*structs.Node{w.node}
	if w.node == nil {
		w.plan.filterNodes(p.allNodes())
		nodes = p.fromOrigin(w.plan.passing)
	}
	var best *displacement
	found := 0
	for _, n := range nodes {
		d := p.displacementOn(w, p.viewOf(n))
		if d == nil {
			continue
		}
		if best == nil || d.betterThan(best) {
			best = d
		}
		found++
		if found == preemptionNodes {
			break
		}
	}
	return best
}

// fromOrigin returns nodes, which are sorted by ID, from the evaluation's origin on.
func (p *planner) fromOrigin(nodes []*structs.Node) []*structs.Node {
	origin := p.origin()
	first := max(0, slices.IndexFunc(nodes, func(n *structs.Node) bool { return n.ID >= origin }))
	return slices.Concat(nodes[first:], nodes[:first])
}

// displacementOn returns the best displacement on one node, nil if there is none.
func (p *planner) displacementOn(w *placement, v *nodeView) *displacement {
	r := p.checkPlacement(w, v)
	if r != nil && r.filter != filterResources {
		return nil
	}
	from := p.displaceable(v)
	all := allocsOf(from)
	if len(all) == 0 || !p.fitsWithout(w, v, all) {
		return nil
	}
	best, exact := p.searchVictims(w, v, from)
	if exact {
		return best
	}
	d := p.newDisplacement(v, p.withoutSuperfluous(w, v, all)...)
	if best == nil || d.betterThan(best) {
		best = d
	}
	return best
}

func (d *displacement) betterThan(other *displacement) bool {
	return slices.Compare(d.order[:], other.order[:]) < 0
}

// displaceable returns the allocations of a node that the job may displace: the least important first, then
// those that their groups can miss, then the largest. An agent of an older version would not wait for their
// end.
func (p *planner) displaceable(v *nodeView) []candidateVictim {
	if v.node.Protocol() < preemptionProtocol {
		return nil
	}
	var all []candidateVictim
	for a := range state.LiveAllocsByNode(p, v.node.ID) {
		priority := state.AllocPriority(p, a)
		if !p.stopped[a.ID] && len(a.CSIPlugins) == 0 && priority <= p.job.Priority-priorityGap {
			all = append(all, candidateVictim{alloc: a, priority: priority})
		}
	}
	slices.SortFunc(all, func(a, b candidateVictim) int {
		return cmp.Or(
			cmp.Compare(a.priority, b.priority),
			cmp.Compare(roomOf(b.alloc), roomOf(a.alloc)),
			cmp.Compare(a.alloc.ID, b.alloc.ID))
	})
	p.missedLast(all)
	return all
}

// missedLast moves the allocations that their groups cannot miss behind the others of their priority.
func (p *planner) missedLast(all []candidateVictim) {
	counts := map[*spare]int{}
	for i := range all {
		if s := p.spareOf(all[i].alloc); s != nil {
			counts[s]++
			all[i].missed = max(0, counts[s]-s.left)
		}
	}
	slices.SortStableFunc(all, func(a, b candidateVictim) int {
		return cmp.Or(
			cmp.Compare(a.priority, b.priority),
			cmp.Compare(a.missed, b.missed))
	})
}

// spare is the number of allocations that a group can miss now: max_parallel of its migrate block without
// those that it misses already.
type spare struct{ left int }

// spareOf returns the spare of an allocation's group, nil if the group has no pace.
func (p *planner) spareOf(a *structs.Allocation) *spare {
	key := jobGroup{a.Namespace, a.JobID, a.TaskGroup}
	if s, known := p.spares[key]; known {
		return s
	}
	var s *spare
	j := state.Job(p, a.Namespace, a.JobID)
	if j != nil && j.Group(a.TaskGroup) != nil && j.Group(a.TaskGroup).Migrate != nil {
		g := j.Group(a.TaskGroup)
		s = &spare{left: g.Migrate.MaxParallel - g.Count}
		for other := range state.LiveAllocsByJob(p, a.Namespace, a.JobID) {
			if other.TaskGroup == g.Name && !other.DeploymentStatus.IsCanary() {
				s.left++
			}
		}
	}
	p.spares[key] = s
	return s
}

// jobGroup names a group of a job.
type jobGroup struct{ ns, job, group string }

// preemptionProtocol is the structs.NodeProtocol of the first agent that waits for the end of others.
const preemptionProtocol = 1

// roomOf returns the room of an allocation as one number, to compare.
func roomOf(a *structs.Allocation) int {
	if a.Resources == nil {
		return 0
	}
	return a.Resources.CPU + a.Resources.MemoryMB + a.Resources.DiskMB
}

func (p *planner) newDisplacement(v *nodeView, victims ...*structs.Allocation) *displacement {
	d := &displacement{view: v, victims: victims}
	for i, a := range victims {
		d.order[0]++
		d.order[1] += state.AllocPriority(p, a)
		d.order[3] += roomOf(a)
		s := p.spareOf(a)
		before := 0
		for _, other := range victims[:i] {
			if p.spareOf(other) == s {
				before++
			}
		}
		if s != nil && before >= s.left {
			d.order[2]++
		}
	}
	return d
}

// demandsFrom reports whether an allocation has a static port that the group demands, or devices if the group
// demands some.
func (g *groupPlan) demandsFrom(a *structs.Allocation) bool {
	if len(g.devices) > 0 && len(a.Devices) > 0 {
		return true
	}
	return slices.ContainsFunc(g.ports, func(d structs.Port) bool {
		return d.Static() && slices.ContainsFunc(a.Ports, func(has structs.AllocatedPort) bool {
			return has.Value == d.Value
		})
	})
}

// withoutSuperfluous leaves out each allocation without which the others suffice: the most important and the
// smallest first. A node may have many allocations, so each is tried once and alone.
func (p *planner) withoutSuperfluous(
	w *placement, v *nodeView, all []*structs.Allocation,
) (victims []*structs.Allocation) {
	p.setAside(v, all)
	for _, a := range slices.Backward(all) {
		p.putBack(v, a)
		if !p.fitsNow(w, v) {
			p.setAside(v, []*structs.Allocation{a})
			victims = append(victims, a)
		}
	}
	for _, a := range slices.Backward(victims) {
		p.putBack(v, a)
	}
	slices.Reverse(victims)
	return victims
}

// fitsWithout reports whether a placement fits on a node without some allocations.
func (p *planner) fitsWithout(w *placement, v *nodeView, victims []*structs.Allocation) bool {
	if !hasRoomWithout(w, v, victims) {
		return false
	}
	p.setAside(v, victims)
	fits := p.fitsNow(w, v)
	for _, a := range slices.Backward(victims) {
		p.putBack(v, a)
	}
	return fits
}

// hasRoomWithout reports whether the room of a node suffices without some allocations.
func hasRoomWithout(w *placement, v *nodeView, victims []*structs.Allocation) bool {
	room := v.room
	for _, a := range victims {
		room.Stop(a)
	}
	return room.Short(w.plan.ask) == ""
}

// fitsNow reports whether a placement fits on a node as its view is.
func (p *planner) fitsNow(w *placement, v *nodeView) bool {
	return v.room.Short(w.plan.ask) == "" && p.checkPlacement(w, v) == nil
}

// setAside takes allocations from the view of a node, to try a placement without them.
func (p *planner) setAside(v *nodeView, allocs []*structs.Allocation) {
	for _, a := range allocs {
		p.stopped[a.ID] = true
		v.stop(p, a)
	}
}

// putBack undoes setAside for one allocation.
func (p *planner) putBack(v *nodeView, a *structs.Allocation) {
	delete(p.stopped, a.ID)
	v.unstop(p, a)
}
