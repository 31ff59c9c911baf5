package explain

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/capacity"
	"berth/structs/storage"
)

// volumeID names a volume.
type volumeID struct{ namespace, id string }

// candidates yields the first nodes on which a job may run, as far as its pool and datacenters tell.
func (x *jobExplainer) candidates(j *structs.Job) iter.Seq[*structs.Node] {
	return func(yield func(*structs.Node) bool) {
		searched := 0
		for n := range state.Nodes(x.tx) {
			if searched == mostSearched {
				return
			}

			if n.Ready() && j.InPool(n) && j.InDatacenter(n) {
				searched++
				if !yield(n) {
					return
				}
			}
		}
	}
}

// limitHolders explains which allocations have the volumes that count against the limit of a node, for the
// plugins of a group's volumes.
func (x *jobExplainer) limitHolders(j *structs.Job, g *structs.TaskGroup) []*structs.Reason {
	wanted := map[string][]volumeID{}
	for _, u := range g.CSIUses(0, "") {
		v := csi.Volume(x.tx, j.Namespace, u.VolumeID)
		if v != nil {
			wanted[v.PluginID] = append(wanted[v.PluginID], volumeID{j.Namespace, u.VolumeID})
		}
	}

	var found sample
	for n := range x.candidates(j) {
		for _, plugin := range slices.Sorted(maps.Keys(wanted)) {
			x.limitOn(&found, n, plugin, wanted[plugin])
		}
	}

	return found.list("volumes")
}

// limitOn adds the volumes of a plugin on a node that has no place for the wanted ones.
func (x *jobExplainer) limitOn(found *sample, n *structs.Node, plugin string, wanted []volumeID) {
	instance := csi.Instance(x.tx, plugin, structs.CSIKindNode, n.ID)
	limit := instance.NodeReport().MaxVolumes
	if instance == nil || limit <= 0 {
		return
	}

	users := x.volumesOn(n, plugin)

	// A volume that is there already takes no more of the limit, for any number of allocations.
	more := 0
	for _, id := range wanted {
		if _, there := users[id]; !there {
			more++
		}
	}

	if int64(len(users)+more) <= limit {
		return
	}

	ids := slices.SortedFunc(maps.Keys(users), func(a, b volumeID) int {
		return slices.Compare([]string{a.namespace, a.id}, []string{b.namespace, b.id})
	})
	for _, id := range ids {
		if found.full() {
			found.rest++
			continue
		}

		found.add(x.limitHolder(n, id, users[id]))
	}
}

// volumeOf names a volume for a reader that may know it.
func (r reader) volumeOf(id volumeID) string {
	if !r.seesNamespace(id.namespace) {
		return "a volume of another namespace"
	}
	return "volume " + id.id
}

// limitHolder explains that a volume counts against the limit of a node.
func (x *jobExplainer) limitHolder(n *structs.Node, id volumeID, user string) *structs.Reason {
	if a := state.Alloc(x.tx, user); a != nil && !a.ClientTerminal() {
		return x.holder(a, x.reader.volumeOf(id))
	}
	if !x.reader.seesNamespace(id.namespace) {
		r := reason("%s is attached to node %s, and no allocation there uses it", x.reader.volumeOf(id),
			x.nodeName(n.ID))
		r.Remedy = "add nodes, or raise the limit of the plugin"
		return r
	}
	r := reason("volume %s is attached to node %s, and no allocation there uses it", id.id, x.nodeName(n.ID))
	r.Remedy = command(id.namespace, "volume why", id.id)
	return r
}

// volumesOn returns the volumes of a plugin that count against the limit of a node, each with an allocation
// that uses or is to use it, "" if there is none.
func (x *explainer) volumesOn(n *structs.Node, plugin string) map[volumeID]string {
	users := map[volumeID]string{}
	for a := range csi.AttachmentsByNode(x.tx, n.ID) {
		if a.PluginID == plugin {
			users[volumeID{a.Namespace, a.VolumeID}] = ""
		}
	}

	// A placed allocation counts before it claims, as it does for the scheduler.
	for a := range state.LiveAllocsByNode(x.tx, n.ID) {
		for _, c := range state.IntendedBy(x.tx, a) {
			if c.PluginID == plugin {
				users[volumeID{c.Namespace, c.VolumeID}] = c.AllocID
			}
		}
	}

	// A claim comes last: of all that name the volume, its allocation is the one that has it.
	for c := range csi.ClaimsByNode(x.tx, n.ID) {
		if c.PluginID == plugin {
			users[volumeID{c.Namespace, c.VolumeID}] = c.AllocID
		}
	}

	return users
}

// fitsWithout reports whether the group fits on a node without some allocations there, if there are any. It
// considers capacity, static ports, and each demand for devices by itself.
func (s *search) fitsWithout(n *structs.Node, goes func(*structs.Allocation) bool) bool {
	sums := capacity.NewNodeCapacity(n)
	gone := map[string]bool{}
	devices := capacity.DeviceUse{}
	for a := range state.HoldersByNode(s.tx, n.ID) {
		sums.Hold(a)
		if goes(a) {
			gone[a.ID] = true
			sums.Stop(a)
			continue
		}

		// The devices of leaving allocations count as free.
		devices = devices.Add(a)
	}
	return len(gone) > 0 && sums.Short(s.group.Ask()) == "" &&
		s.portsFit(n, gone) && s.devicesFit(n, devices)
}

// isLower reports whether an allocation is one that the job displaces if it may.
func (s *search) isLower(a *structs.Allocation) bool {
	return !a.Terminal() && len(a.CSIPlugins) == 0 &&
		state.AllocPriority(s.tx, a) <= s.job.Priority-structs.PreemptionGap
}

// portsFit reports whether each static port is free on an address, or held there by an allocation that goes.
func (s *search) portsFit(n *structs.Node, gone map[string]bool) bool {
	use := state.PortsInUse(s.tx, n)
	for _, demand := range s.group.PortDemands() {
		free := func(address *structs.NodeNetworkAddress) bool {
			holder := use.HolderOf(address, demand.Value)
			return (holder == "" || gone[holder]) && !use.Reserves(address, demand.Value)
		}

		if demand.Static() && !slices.ContainsFunc(n.HostAddresses(demand.HostNetwork), free) {
			return false
		}
	}

	return true
}

// devicesFit considers each demand by itself: two demands for one device both fit. So it may promise too
// much, never too little.
func (s *search) devicesFit(n *structs.Node, used capacity.DeviceUse) bool {
	for _, t := range s.group.Tasks {
		if t.Resources == nil {
			continue
		}

		for _, demand := range t.Resources.Devices {
			enough := func(g *structs.NodeDeviceResource) bool {
				free := slices.DeleteFunc(g.Healthy(), func(id string) bool { return used[g.ID()][id] != "" })
				return demand.Matches(g) && len(free) >= demand.Number()
			}

			if n.NodeResources == nil || !slices.ContainsFunc(n.NodeResources.Devices, enough) {
				return false
			}
		}
	}

	return true
}

// isOlder reports whether an allocation runs in an older version of the job that is explained.
func (x *explainer) isOlder(a *structs.Allocation) bool {
	return x.isOwn(a) && !a.Terminal() && a.JobVersion != x.job.Version
}

// isOwn reports whether an allocation belongs to the job that is explained.
func (x *explainer) isOwn(a *structs.Allocation) bool {
	return x.job != nil && a.Namespace == x.job.Namespace && a.JobID == x.job.ID
}

// ownWayOut returns what frees a thing that an allocation of the job that is explained has: an update stops
// predecessors of its own group only, and not more than its pace admits.
func (x *explainer) ownWayOut(a *structs.Allocation, otherwise string) string {
	g := x.job.Group(a.TaskGroup)
	again := ", or run it again after: " + command(a.Namespace, "job stop", a.JobID)
	switch {
	case !x.isOlder(a) || g == nil || x.group == "":
		return "it is of the same job: " + otherwise
	case a.TaskGroup != x.group:
		return fmt.Sprintf("it is of group %s, which waits for its own update: first run the job with "+
			"another port, device, volume or size for one of the two groups", a.TaskGroup) + again
	case g.Update.Rolls() && x.job.PerNode():
		return "it is of an older version of the group: run the job with max_parallel = 0, " +
			"to replace all at once" + again
	case g.Update.Rolls() && g.Update.MaxParallel < g.Count:
		return fmt.Sprintf("it is of an older version of the group: run the job with max_parallel = %d, "+
			"to replace all at once", g.Count) + again
	}

	return "it is of the same job: " + otherwise
}

// predecessors explains which allocations of older versions of the job have a host volume that a group needs,
// and without which allocations of other groups a node has capacity for it.
func (s *search) predecessors(m *structs.AllocMetric) []*structs.Reason {
	capacity := false
	for dimension := range m.DimensionExhausted {
		// Ports and devices have holders of their own in the list before this one.
		capacity = capacity || dimension != dimensionPorts && dimension != dimensionDevices
	}

	volume := slices.ContainsFunc(m.Rejections, func(r *structs.PlacementRejection) bool {
		return r.Filter == hostVolumeFilter
	})
	if !capacity && !volume {
		return nil
	}

	var found sample
	for n := range s.candidates(s.job) {
		fits := capacity && s.fitsWithout(n, s.isOlder)
		for a := range state.LiveAllocsByNode(s.tx, n.ID) {
			old := state.JobOf(s.tx, a)
			if !s.isOlder(a) || old == nil {
				continue
			}

			name := ""
			if volume {
				name = storage.HostVolumeConflict(s.group, old.Group(a.TaskGroup))
			}

			switch {
			case name != "":
				found.add(s.holder(a, "host volume "+name))
			// An update of the group itself stops its own predecessors for the capacity.
			case fits && a.TaskGroup != s.group.Name:
				found.add(s.holder(a, "cpu, memory and disk that the group needs"))
			}
		}
	}

	return found.list("holders")
}

// emptyPlaces explains the allocations that an update has stopped for a successor that has no place.
func (x *jobExplainer) emptyPlaces(j *structs.Job) []*structs.Reason {
	// Without a blocked evaluation each successor has a place, or a plan is about to look for one.
	if j.PerNode() || state.BlockedEval(x.tx, j.Namespace, j.ID) == nil {
		return nil
	}

	taken := map[string]bool{}
	for a := range state.LiveAllocsByJob(x.tx, j.Namespace, j.ID) {
		taken[a.Name] = true
	}

	var all sample
	for a := range state.AllocsByJob(x.tx, j.Namespace, j.ID) {
		g := j.Group(a.TaskGroup)
		stopped := a.ServerTerminal() && a.StopCause == structs.StopReplaced && a.NextAllocation == ""
		switch {
		case !stopped || g == nil || a.JobVersion == j.Version || taken[a.Name] || a.Index() >= g.Count:
		case all.full():
			all.rest++
		default:
			r := x.alloc(a, "was stopped for a successor, which has no place now; until it has one, "+
				"the update stops no more for others")
			r.Remedy = "add nodes, or go back: " + command(j.Namespace, "job revert", j.ID, "VERSION")
			all.add(r)
		}
	}

	return all.list("allocations that were stopped")
}
