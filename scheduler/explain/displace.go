package explain

import (
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/capacity"
)

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

		// The devices of those that go count as free.
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
