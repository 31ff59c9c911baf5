package place

import (
	"slices"

	"berth/scheduler/feasible"
	"berth/scheduler/rejects"
	"berth/state"
	"berth/structs"
)

// An allocation that fits nowhere may displace allocations of jobs whose priority is lower by at least
// priorityGap, on one node, and no more than it needs. Only cpu, memory, disk, ports and devices are taken
// from others. An allocation that runs a CSI plugin is never displaced, because the volumes of the node need
// it.
const (
	priorityGap     = structs.PreemptionGap
	preemptionNodes = 64 // nodes with enough victims that are compared
)

// mayPreempt reports whether the placement may displace others.
func (p *Placer) mayPreempt(w *Placement) bool {
	config := state.SchedulerConfig(p.outlook).PreemptionConfig

	// Nobody is displaced for an allocation that a volume keeps from every node.
	return config.Enabled(p.outlook.Job.Type) && p.outlook.BlockedEverywhere(&w.demand) == nil
}

// placeByPreemption places an allocation that fits nowhere in the place of others. It reports false if there
// are none.
func (p *Placer) placeByPreemption(w *Placement, t *rejects.Count) bool {
	if !p.mayPreempt(w) {
		return false
	}

	v, victims := p.chooseVictims(w)
	if len(victims) == 0 {
		return false
	}

	for _, victim := range victims {
		p.outlook.StopAlloc(victim.Alloc, "", "")
		w.victims = append(w.victims, victim.Alloc.ID)
		if victim.Spare != nil {
			// The pace of the victim's group counts all victims of the plan.
			victim.Spare.Left--
		}
	}

	p.addToPlan(w, v, t)
	id := p.outlook.Plan.Place[len(p.outlook.Plan.Place)-1].ID

	// The stops are the newest of the plan. Only now does the allocation have an ID.
	for _, s := range p.outlook.Plan.Stop[len(p.outlook.Plan.Stop)-len(victims):] {
		s.PreemptedBy = id
		s.Description = "Preempted by alloc ID " + id
	}

	return true
}

// chooseVictims returns the best victims of a node, none if no node has any. Each evaluation begins at
// another node, so that the same nodes do not always suffer.
func (p *Placer) chooseVictims(w *Placement) (node *feasible.NodeView, best []preemptible) {
	nodes := []*structs.Node{w.node}
	if w.node == nil {
		w.Group.Filter(p.outlook.AllNodes())
		nodes = p.fromOrigin(w.Group.Passing)
	}

	found := 0
	for _, n := range nodes {
		v := p.outlook.ViewOf(n)
		victims := p.victimsOn(&w.demand, v)
		if len(victims) == 0 {
			continue
		}

		if node == nil || compareVictims(victims, best) < 0 {
			node = v
			best = victims
		}

		found++
		if found == preemptionNodes {
			break
		}
	}

	return node, best
}

// fromOrigin returns nodes, which are sorted by ID, from the evaluation's origin on.
func (p *Placer) fromOrigin(nodes []*structs.Node) []*structs.Node {
	origin := p.origin()
	first := max(0, slices.IndexFunc(nodes, func(n *structs.Node) bool { return n.ID >= origin }))
	return slices.Concat(nodes[first:], nodes[:first])
}

// victimsOn returns the victims on one node, none if they do not suffice.
func (p *Placer) victimsOn(d *feasible.Demand, v *feasible.NodeView) []preemptible {
	r := p.outlook.Check(d, v)

	// Victims help against this filter only.
	if r != nil && r.Filter != rejects.FilterResources {
		return nil
	}
	from := p.displaceable(v)

	// The sums of all candidates are a bound: Choose tries sets of them, which costs more.
	capacity := v.Capacity
	for _, c := range from {
		capacity.Stop(c.Alloc)
	}
	if capacity.Short(d.Group.Ask) != "" {
		return nil
	}
	return chooseVictims(feasible.NewTrial(p.outlook, d, v), from)
}

// displaceable returns the allocations of a node that the job may displace.
func (p *Placer) displaceable(v *feasible.NodeView) []preemptible {
	var all []preemptible
	for a := range state.LiveAllocsByNode(p.outlook, v.Node.ID) {
		priority := state.AllocPriority(p.outlook, a)
		if !p.outlook.Stops(a.ID) && len(a.CSIPlugins) == 0 &&
			priority <= p.outlook.Job.Priority-priorityGap {
			all = append(all, preemptible{Alloc: a, Priority: priority, Spare: p.spareOf(a)})
		}
	}
	return all
}

// spareOf returns the spare of an allocation's group, nil if the group has no pace.
func (p *Placer) spareOf(a *structs.Allocation) *groupSpare {
	key := jobGroup{a.Namespace, a.JobID, a.TaskGroup}
	if s, known := p.spares[key]; known {
		return s
	}

	var s *groupSpare
	j := state.Job(p.outlook, a.Namespace, a.JobID)
	if j != nil && j.Group(a.TaskGroup) != nil && j.Group(a.TaskGroup).Migrate != nil {
		g := j.Group(a.TaskGroup)

		// What the group misses already counts against max_parallel.
		s = &groupSpare{Left: g.Migrate.MaxParallel - g.Count}
		for other := range state.LiveAllocsByJob(p.outlook, a.Namespace, a.JobID) {
			if other.TaskGroup == g.Name && !other.DeploymentStatus.IsCanary() {
				s.Left++
			}
		}
	}

	p.spares[key] = s
	return s
}

// jobGroup names a group of a job.
type jobGroup struct{ ns, job, group string }
