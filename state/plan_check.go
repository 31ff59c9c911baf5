package state

import (
	"cmp"
	"fmt"
	"iter"

	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/capacity"
	"berth/structs/storage"
)

// planApply carries out a plan. It checks that the placements fit their nodes, since the scheduler has made
// the plan on an older state, and writes the rows of fitting ones.
type planApply struct {
	Reader

	plan    *structs.Plan
	jobOf   func(*structs.Allocation) *structs.Job
	stopped map[string]bool                  // the allocations that the plan stops, not its placements
	ending  map[string][]*structs.Allocation // the live ones of them, by node
	used    map[string]*nodeUse              // by node
}

func newPlanApply(tx Reader, p *structs.Plan) *planApply {
	return &planApply{
		Reader:  tx,
		plan:    p,
		jobOf:   jobLookup(tx),
		stopped: map[string]bool{},
		ending:  map[string][]*structs.Allocation{},
		used:    map[string]*nodeUse{},
	}
}

// rejectedNodes checks for each node of the placements that it accepts allocations, that each allocation has
// its job's version, that all fit into the capacity that is free or that the plan's own stops give, and that
// each has free devices and ports. It returns the reasons of the nodes that reject.
func (c *planApply) rejectedNodes(place []*structs.Allocation) map[string]string {
	for _, s := range c.plan.Stop {
		a := Alloc(c, s.AllocID)
		if a != nil && !a.Terminal() && !c.stopped[a.ID] {
			c.ending[a.NodeID] = append(c.ending[a.NodeID], a)
		}

		c.stopped[s.AllocID] = a != nil
	}

	rejected := map[string]string{}
	for _, a := range place {
		// One rejection suffices: nothing of the plan takes effect on that node.
		if rejected[a.NodeID] != "" {
			continue
		}

		why := c.rejection(a)
		if why != "" {
			rejected[a.NodeID] = why
		}
	}

	return rejected
}

// rejection returns why the node of a placement rejects it, or counts it and returns "".
func (c *planApply) rejection(a *structs.Allocation) string {
	// The use of a node is counted once, and grows with each placement of the plan.
	use := c.used[a.NodeID]
	if use == nil {
		n := Node(c, a.NodeID)
		if n == nil {
			return "it does not exist"
		}

		use = c.useOf(n)
		c.used[a.NodeID] = use
	}

	job := c.jobOf(a)
	if job == nil || job.Group(a.TaskGroup) == nil {
		return fmt.Sprintf("version %d of job %s has no group %q",
			a.JobVersion, a.JobID, a.TaskGroup)
	}

	n := use.node
	if !n.Ready() && !NeedsPlugin(c, n, job, job.Group(a.TaskGroup)) {
		why := n.SchedulingEligibility
		if n.Returning {
			why = "still releases what it lost"
		}

		return fmt.Sprintf("it is %s and %s", n.Status, why)
	}

	// The priorities may have changed since the plan was made.
	for _, id := range a.PreemptedAllocations {
		victim := Alloc(c, id)
		now := Job(c, a.Namespace, a.JobID)
		if victim != nil && !victim.Terminal() && now != nil &&
			AllocPriority(c, victim) > now.Priority-structs.PreemptionGap {
			return fmt.Sprintf("allocation %s has too high a priority to be displaced", id)
		}
	}

	group := job.Group(a.TaskGroup)
	why := cmp.Or(csi.JobVolumeRejection(c, job, a), csi.HostClaimRejection(c, group, a, c.stopped))
	if why != "" {
		return why
	}
	return use.add(c, a, storage.GroupWithHostVolumes(group, a.CSIVolumes))
}

// quotaRejection returns why the quota of a namespace rejects the plan, "" if it does not: another plan may
// have had what was left. place has the placements of the nodes that do not reject.
func (c *planApply) quotaRejection(
	ns string, place []*structs.Allocation, rejected map[string]string,
) string {
	change := namespace.NewQuotaChange(c, ns)
	if change == nil || len(place) == 0 {
		return ""
	}

	for _, a := range place {
		job := c.jobOf(a)
		change.Place(a, job.Group(a.TaskGroup).Ask)
		for _, v := range csi.NewJobVolumes(c, job, a) {
			change.AddVolume(v)
		}
	}

	for node, ending := range c.ending {
		for _, a := range ending {
			if rejected[node] == "" {
				change.Stop(a)
			}
		}
	}

	return change.Rejection()
}

// nodeUse is the use of a node by the allocations that the plan does not stop.
type nodeUse struct {
	node     *structs.Node
	capacity capacity.NodeCapacity
	given    map[string]*structs.Resources // the capacity of the stopped ones, as far as no placement has it
	devices  capacity.DeviceUse
	ports    *capacity.NodePorts  // nil until an allocation has or demands some
	placed   []*structs.TaskGroup // those with host volumes that the plan has placed here
}

// useOf counts the allocations that have something of a node.
func (c *planApply) useOf(n *structs.Node) *nodeUse {
	use := &nodeUse{node: n, capacity: capacity.NewNodeCapacity(n)}

	// The sums cost one lookup. Devices, and what else they leave out, need the allocations themselves.
	if sums := UseOfNode(c, n.ID); sums.Suffices() {
		use.capacity.HoldAll(sums)
	} else {
		for a := range HoldersByNode(c, n.ID) {
			use.capacity.Hold(a)
			use.devices = use.devices.Add(a)
		}
	}
	for _, a := range c.ending[n.ID] {
		use.giveCapacity(a)
		use.capacity.Stop(a)
		use.devices.Remove(a)
	}
	return use
}

// add counts an allocation of a group, or returns why the node rejects it.
func (u *nodeUse) add(c *planApply, a *structs.Allocation, g *structs.TaskGroup) string {
	ask := resourcesOf(a, g)
	short := u.capacity.Short(ask)
	if short != "" {
		return "no " + short + " left"
	}

	if !u.takeCapacity(a, ask) {
		return "no capacity left at once, and it waits for too few of those that end"
	}

	u.capacity.Place(ask)
	why := u.devices.Rejection(u.node, a, g)
	if why != "" {
		return why
	}

	u.devices = u.devices.Add(a)
	if len(g.HostVolumes()) > 0 {
		why = u.hostVolumeRejection(c, g)
		if why != "" {
			return why
		}

		u.placed = append(u.placed, g)
	}

	if len(a.Ports)+len(g.Networks) == 0 {
		return ""
	}

	if u.ports == nil {
		u.ports = PortsInUse(c, u.node)
	}

	why = u.ports.Rejection(a, g, c.stopped)
	if why == "" {
		u.ports.Add(a)
	}

	return why
}

// giveCapacity adds the capacity of an allocation that the plan stops.
func (u *nodeUse) giveCapacity(a *structs.Allocation) {
	if a.Resources == nil {
		return
	}
	if u.given == nil {
		u.given = map[string]*structs.Resources{}
	}
	u.given[a.ID] = new(*a.Resources)
}

// takeCapacity gives an allocation the capacity that it waits for, and then free capacity. It reports false
// if that is too little: the plan was made when more was free, and the allocation would start too early.
func (u *nodeUse) takeCapacity(a *structs.Allocation, ask structs.Resources) bool {
	need := ask.Least(ask)
	for id := range a.Awaits() {
		left := u.given[id]
		if left == nil {
			continue
		}
		part := need.Least(*left)
		*left = left.Sub(part)
		need = need.Sub(part)
	}
	return need.Equal(u.capacity.TakeFree(need))
}

// hostVolumeRejection returns why the group cannot have its host volumes beside the other allocations.
func (u *nodeUse) hostVolumeRejection(c *planApply, g *structs.TaskGroup) string {
	name, _ := hostVolumeHolder(c, HoldersByNode(c, u.node.ID), g, c.stopped)
	for _, other := range u.placed {
		if name == "" {
			name = storage.HostVolumeConflict(g, other)
		}
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf("host volume %s has a writer", name)
}

// HostVolumeHolder returns a host volume of a node that no allocation of the group can have now, and the
// allocation that has it; "" if there is none. An allocation has its volumes until its node reports the end.
// A stopped one gives them up, also volumes that it has in turn from one that is still to end.
func HostVolumeHolder(
	tx Reader, nodeID string, g *structs.TaskGroup, stopped map[string]bool,
) (volume, allocID string) {
	return hostVolumeHolder(tx, HoldersByNode(tx, nodeID), g, stopped)
}

// hostVolumeHolder is HostVolumeHolder among some allocations of the node, the ones that are to end first.
func hostVolumeHolder(
	tx Reader, holders iter.Seq[*structs.Allocation], g *structs.TaskGroup, stopped map[string]bool,
) (volume, allocID string) {
	if len(g.HostVolumes()) == 0 {
		return "", ""
	}

	ending := map[string]string{} // the holder by volume
	for a := range holders {
		name := storage.HostVolumeConflict(g, storage.GroupWithHostVolumes(groupOf(tx, a), a.CSIVolumes))
		switch {
		case name == "":
		case a.ServerTerminal():
			ending[name] = a.ID
		case stopped[a.ID]:
			delete(ending, name)
		default:
			return name, a.ID
		}
	}

	for _, r := range g.HostVolumes() {
		if ending[r.Source] != "" {
			return r.Source, ending[r.Source]
		}
	}

	return "", ""
}
