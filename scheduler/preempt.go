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
	mostVictims     = 64 // allocations of a node, the least important ones, among which victims are chosen
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
	return !p.older && config.Enabled(p.job.Type) && p.blockedEverywhere(w) == nil
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
// priorities, then those that their groups can miss, then the least room. It is nil if no node has one.
func (p *planner) chooseDisplacement(w *placement) *displacement {
	nodes := []*structs.Node{w.node}
	if w.node == nil {
		w.plan.filterNodes(p.allNodes())
		nodes = w.plan.passing
	}
	var best *displacement
	found := 0
	for _, n := range nodes {
		d := p.displacementOn(w, p.viewOf(n))
		if d == nil {
			continue
		}
		if best == nil || slices.Compare(d.order[:], best.order[:]) < 0 {
			best = d
		}
		found++
		if found == preemptionNodes {
			break
		}
	}
	return best
}

// displacementOn returns the best displacement on one node, nil if there is none.
func (p *planner) displacementOn(w *placement, v *nodeView) *displacement {
	r := p.checkPlacement(w, v)
	if r != nil && r.filter != filterResources {
		return nil
	}
	all := p.displaceable(v)
	if len(all) == 0 || !p.fitsWithout(w, v, all) {
		return nil
	}
	best := p.fewVictims(w, v, all)
	if best == nil {
		best = p.newDisplacement(v, p.withoutSuperfluous(w, v, all)...)
	}
	return best
}

// displaceable returns the allocations of a node that the job may displace: the least important first, the
// largest first among equal ones. An agent of an older version would not wait for their end.
func (p *planner) displaceable(v *nodeView) []*structs.Allocation {
	if v.node.Protocol() < preemptionProtocol {
		return nil
	}
	var all []*structs.Allocation
	for a := range state.LiveAllocsByNode(p, v.node.ID) {
		if !p.stopped[a.ID] && len(a.CSIPlugins) == 0 &&
			state.AllocPriority(p, a) <= p.job.Priority-priorityGap {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *structs.Allocation) int {
		return cmp.Or(
			cmp.Compare(state.AllocPriority(p, a), state.AllocPriority(p, b)),
			cmp.Compare(roomOf(b), roomOf(a)),
			cmp.Compare(a.ID, b.ID))
	})
	p.missedLast(all)
	return all[:min(len(all), mostVictims)]
}

// missedLast moves the allocations that their groups cannot miss behind the others of their priority.
func (p *planner) missedLast(all []*structs.Allocation) {
	missed := map[string]int{}
	counts := map[*spare]int{}
	for _, a := range all {
		if s := p.spareOf(a); s != nil {
			counts[s]++
			missed[a.ID] = max(0, counts[s]-s.left)
		}
	}
	slices.SortStableFunc(all, func(a, b *structs.Allocation) int {
		return cmp.Or(
			cmp.Compare(state.AllocPriority(p, a), state.AllocPriority(p, b)),
			cmp.Compare(missed[a.ID], missed[b.ID]))
	})
}

// spare is the number of allocations that a group can miss now: max_parallel of its migrate block without
// those that it misses already.
type spare struct{ left int }

// spareOf returns the spare of an allocation's group, nil if the group has no pace.
func (p *planner) spareOf(a *structs.Allocation) *spare {
	key := spareGroup{a.Namespace, a.JobID, a.TaskGroup}
	if s, known := p.spares[key]; known {
		return s
	}
	var s *spare
	j := state.Job(p, a.Namespace, a.JobID)
	if j != nil && j.Group(a.TaskGroup) != nil && j.Group(a.TaskGroup).Migrate != nil {
		g := j.Group(a.TaskGroup)
		s = &spare{left: g.Migrate.MaxParallel - g.Count}
		for other := range state.LiveAllocsByJob(p, a.Namespace, a.JobID) {
			if other.TaskGroup == g.Name {
				s.left++
			}
		}
	}
	p.spares[key] = s
	return s
}

// spareGroup names a group of a job.
type spareGroup struct{ ns, job, group string }

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

// fewVictims returns the best displacement of one allocation or two, nil if these do not suffice.
func (p *planner) fewVictims(w *placement, v *nodeView, all []*structs.Allocation) *displacement {
	var best *displacement
	try := func(victims ...*structs.Allocation) {
		d := p.newDisplacement(v, victims...)
		better := best == nil || slices.Compare(d.order[:], best.order[:]) < 0
		if better && p.fitsWithout(w, v, victims) {
			best = d
		}
	}
	for _, a := range all {
		try(a)
	}
	if best != nil {
		return best
	}
	for i, a := range all {
		for _, b := range all[:i] {
			try(a, b)
		}
	}
	return best
}

// withoutSuperfluous leaves out each allocation without which the others suffice: the most important and the
// smallest first.
func (p *planner) withoutSuperfluous(
	w *placement, v *nodeView, all []*structs.Allocation,
) []*structs.Allocation {
	for i := len(all) - 1; i >= 0; i-- {
		others := slices.Delete(slices.Clone(all), i, i+1)
		if p.fitsWithout(w, v, others) {
			all = others
		}
	}
	return all
}

// fitsWithout reports whether a placement fits on a node without some allocations.
func (p *planner) fitsWithout(w *placement, v *nodeView, victims []*structs.Allocation) bool {
	room := v.room
	for _, a := range victims {
		room.Stop(a)
	}
	if room.Short(w.plan.ask) != "" {
		return false
	}
	for _, a := range victims {
		p.stopped[a.ID] = true
		v.stop(p, a)
	}
	r := p.checkPlacement(w, v)
	for _, a := range victims {
		delete(p.stopped, a.ID)
		v.unstop(p, a)
	}
	return r == nil
}
