package feasible

import (
	"cmp"
	"slices"

	"berth/structs"
)

// Trial tries a demand on a node, without some of the allocations there.
type Trial struct {
	outlook *Outlook
	demand  *Demand
	view    *NodeView
}

// NewTrial returns a trial of a demand on a node.
func NewTrial(o *Outlook, d *Demand, v *NodeView) *Trial {
	return &Trial{outlook: o, demand: d, view: v}
}

// Fits reports whether the placement fits on the node as its view is.
func (t *Trial) Fits() bool {
	// The sums come first, because they cost less than all filters of Check.
	return t.view.Capacity.Short(t.demand.Group.Ask) == "" && t.outlook.Check(t.demand, t.view) == nil
}

// SetAside takes an allocation from the view of the node, to try the placement without it.
func (t *Trial) SetAside(a *structs.Allocation) {
	// The plan has no stop for it: this is only a trial.
	t.outlook.stopped[a.ID] = true
	t.view.stop(t.outlook, a)
}

// PutBack undoes SetAside.
func (t *Trial) PutBack(a *structs.Allocation) {
	delete(t.outlook.stopped, a.ID)
	t.view.unstop(t.outlook, a)
}

// Measure looks at devices and ports first: few allocations have the ones that a group demands, and their
// capacity counts, too.
func (t *Trial) Measure() func(a *structs.Allocation) (missing float64, helps bool) {
	g := t.demand.Group

	// The lack is measured once, and each allocation of the node is compared with it.
	lacks := t.view.Capacity.Missing(g.Ask)
	_, device := chooseDevices(g.devices, t.view)
	var port *structs.Port
	if device == nil && len(g.ports) > 0 {
		_, port = t.outlook.choosePorts(g, t.view)
	}

	return func(a *structs.Allocation) (missing float64, helps bool) {
		given := lacks.Least(*cmp.Or(a.Resources, &structs.Resources{}))
		missing = shareOf(lacks.Sub(given), g.Ask)
		switch {
		case device != nil:
			held := devicesFor(a, device.Demand)

			// A device that is missing weighs as much as all of one other dimension.
			return missing + float64(max(0, device.Demand.Number()-held)), held > 0
		case port != nil:
			return missing, t.hasPortFor(a, port)
		}

		return missing, !given.Equal(structs.Resources{})
	}
}

// shareOf returns the sum of the shares that amounts have of a demand.
func shareOf(part, ask structs.Resources) float64 {
	share := func(part, ask int) float64 { return float64(part) / float64(max(1, ask)) }
	return share(part.CPU, ask.CPU) + share(part.MemoryMB, ask.MemoryMB) + share(part.DiskMB, ask.DiskMB)
}

// devicesFor returns the number of an allocation's devices with the name of a demand.
func devicesFor(a *structs.Allocation, demand *structs.RequestedDevice) (n int) {
	for _, devices := range a.Devices {
		for _, d := range devices {
			if demand.Matches(&structs.NodeDeviceResource{Vendor: d.Vendor, Type: d.Type, Name: d.Name}) {
				n += len(d.DeviceIDs)
			}
		}
	}
	return n
}

// hasPortFor reports whether an allocation has a port that meets a demand.
func (t *Trial) hasPortFor(a *structs.Allocation, demand *structs.Port) bool {
	low, high := t.view.Node.DynamicPorts()
	if demand.Static() {
		low = demand.Value
		high = demand.Value
	}
	return slices.ContainsFunc(a.Ports, func(p structs.AllocatedPort) bool {
		return low <= p.Value && p.Value <= high
	})
}
