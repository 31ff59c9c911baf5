package explain

import (
	"fmt"
	"maps"
	"slices"

	"berth/state"
	"berth/structs"
	"berth/structs/inquiry"
)

// mostSearched bounds the nodes whose allocations are searched: the first ones that are ready.
const mostSearched = 64

// The dimensions of structs.AllocMetric that have holders.
const (
	dimensionPorts   = "ports"
	dimensionDevices = "devices"
)

// search looks for the allocations that have what a group of a job needs.
type search struct {
	*jobExplainer
	group     *structs.TaskGroup
	ports     bool
	devices   bool
	displaces bool // whether it looks for less important allocations
	found     sample
	important bool // the group fits in the place of less important allocations
}

// holders explains which allocations have the static ports and the devices that a group needs, that its
// canaries wait for the group itself, and that it may not displace others. The scheduler's figures tell what
// is exhausted.
func (x *jobExplainer) holders(
	j *structs.Job, g *structs.TaskGroup, m *structs.AllocMetric,
) []*inquiry.Reason {
	if g == nil {
		return nil
	}

	config := state.SchedulerConfig(x.tx).PreemptionConfig
	s := &search{
		jobExplainer: x,
		group:        g,
		ports:        m.DimensionExhausted[dimensionPorts] > 0,
		devices:      m.DimensionExhausted[dimensionDevices] > 0,
		displaces:    !config.Enabled(j.Type),
	}

	// The promotion comes first: until then nothing that others free helps the group on this node.
	if r := s.ownCanary(m); r != nil {
		return []*inquiry.Reason{r}
	}

	older := s.predecessors(m)
	if len(m.DimensionExhausted) == 0 {
		return older
	}

	for n := range x.candidates(j) {
		s.searchNode(n)
	}

	reasons := append(s.found.list("holders"), older...)
	if s.important {
		r := reason("it fits in the place of others, which its priority %d exceeds by %d or more, "+
			"but jobs of type %s may not displace them", j.Priority, structs.PreemptionGap, j.Type)
		r.Remedy = fmt.Sprintf("berth operator scheduler set-config -preempt-%s-scheduler=true", j.Type)
		reasons = append(reasons, r)
	}

	return reasons
}

// searchNode adds the holders on one node, and whether the group fits there in the place of others.
func (s *search) searchNode(n *structs.Node) {
	if s.ports {
		s.searchPorts(n)
	}
	for a := range state.AllocsByNode(s.tx, n.ID) {
		if s.devices && !a.ClientTerminal() {
			s.searchDevices(a)
		}
	}
	s.important = s.important || s.displaces && s.fitsWithout(n, s.isLower)
}

// searchPorts finds the holders by the index of ports in use, without a pass over the allocations.
func (s *search) searchPorts(n *structs.Node) {
	use := state.PortsInUse(s.tx, n)
	for _, demand := range s.group.PortDemands() {
		if !demand.Static() {
			continue
		}

		for _, address := range n.HostAddresses(demand.HostNetwork) {
			holder := state.Alloc(s.tx, use.HolderOf(address, demand.Value))
			if holder != nil {
				s.found.add(s.holder(holder, fmt.Sprintf("port %d of %s", demand.Value, address.Address)))
			}
		}
	}
}

func (s *search) searchDevices(a *structs.Allocation) {
	for _, task := range slices.Sorted(maps.Keys(a.Devices)) {
		for _, d := range a.Devices[task] {
			if s.demands(d) {
				s.found.add(s.holder(a, fmt.Sprintf("%s of %s", count(len(d.DeviceIDs), "device"), d.ID())))
			}
		}
	}
}

// demands reports whether a task of the group demands devices such as these.
func (s *search) demands(d *structs.AllocatedDeviceResource) bool {
	group := &structs.NodeDeviceResource{Vendor: d.Vendor, Type: d.Type, Name: d.Name}
	matches := func(r *structs.RequestedDevice) bool { return r.Matches(group) }
	return slices.ContainsFunc(s.group.Tasks, func(t *structs.Task) bool {
		return t.Resources != nil && slices.ContainsFunc(t.Resources.Devices, matches)
	})
}

// holder explains that an allocation has a thing of its node, which another one needs.
func (x *explainer) holder(a *structs.Allocation, thing string) *inquiry.Reason {
	r := reason("%s on node %s has %s", x.reader.allocOf(a), x.nodeName(a.NodeID), thing)
	x.freeing(r, a, "add nodes, lower the count, or change what its groups ask for")
	return r
}

// freeing adds to the reason that an allocation has a thing how the thing becomes free. It advises no stop of
// an allocation that stops already, nor of the job that is explained, whose way out is another one.
func (x *explainer) freeing(r *inquiry.Reason, a *structs.Allocation, wayOut string) {
	switch {
	case !x.reader.seesNamespace(a.Namespace):
		r.Remedy = wayOut
	case a.ServerTerminal():
		r.Text += ", and is stopping"
		r.Remedy = x.endingRemedy(a)
	case x.isOwn(a):
		r.Remedy = x.ownWayOut(a, wayOut)
	default:
		r.Remedy = "it is free when that allocation ends: " + command(a.Namespace, "job stop", a.JobID)
	}
}
