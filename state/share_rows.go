package state

import (
	"maps"
	"slices"

	"berth/structs"
)

// What the rows of each table have in common with others. The row itself is nobody else's yet; what hangs on
// it may be another row's, and is replaced rather than changed, unless it is fresh.

func shareClaim(p *pool, c, was *structs.CSIClaim) { shareAsBefore(p, c, was, claimTexts) }

func claimTexts(c *structs.CSIClaim) texts {
	return texts{&c.Namespace, &c.VolumeID, &c.NodeID, &c.AllocID, &c.PluginID, &c.JobID, &c.TaskGroup, &c.Mode, &c.State,
		(*string)(&c.AccessMode), (*string)(&c.AttachmentMode)}
}

func instanceTexts(i *structs.CSIPluginInstance) texts {
	return texts{&i.PluginID, &i.NodeID, &i.AllocID, &i.Provider, &i.ProviderVersion, &i.FormerProvider, &i.HealthDescription, (*string)(&i.Kind)}
}

func shareInstance(p *pool, i, was *structs.CSIPluginInstance) {
	shareAsBefore(p, i, was, instanceTexts)
	i.ControllerInfo = p.controllers.of(i.ControllerInfo)
	if i.NodeInfo == nil {
		return
	}
	if at := p.places.of(i.NodeInfo.AccessibleTopology); at != i.NodeInfo.AccessibleTopology {
		if !p.fresh {
			own := *i.NodeInfo
			i.NodeInfo = &own
		}
		i.NodeInfo.AccessibleTopology = at
	}
}

func shareVolume(p *pool, v, _ *structs.CSIVolume) {
	p.share(&v.Namespace, &v.PluginID, &v.State)
	if v.Name == v.ID {
		v.Name = v.ID
	}
	v.Parameters, v.Context = p.small(v.Parameters), p.small(v.Context)
	v.MountOptions = p.mounts.of(v.MountOptions)
	v.Topologies = p.topologies(v.Topologies)
	if len(v.RequestedCapabilities) > 0 {
		v.RequestedCapabilities = *p.modes.of(&v.RequestedCapabilities)
	}
	if v.RequestedTopologies != nil {
		v.RequestedTopologies = &structs.CSITopologyRequest{Required: p.topologies(v.RequestedTopologies.Required),
			Preferred: p.topologies(v.RequestedTopologies.Preferred)}
	}
}

// topologies is the list made of topologies that others share.
func (p *pool) topologies(ts []*structs.CSITopology) []*structs.CSITopology {
	if !p.fresh {
		ts = slices.Clone(ts)
	}
	for n, t := range ts {
		ts[n] = p.places.of(t)
	}
	return ts
}

func nodeTexts(n *structs.Node) texts {
	return texts{&n.ID, &n.Name, &n.Datacenter, &n.NodeClass, &n.NodePool, &n.ComputedClass, &n.Status, &n.SchedulingEligibility}
}

func shareNode(p *pool, n, was *structs.Node) {
	shareAsBefore(p, n, was, nodeTexts)
	if p.fresh {
		p.reported(n)
		for _, e := range n.Events {
			p.event(e)
		}
	}
}

// reported shares what a node reports of itself. Its attributes are its own as a whole: one of them, at
// least, is its name.
func (p *pool) reported(n *structs.Node) {
	n.Attributes, n.Meta = p.names(n.Attributes), p.small(n.Meta)
	n.NodeResources, n.ReservedResources = p.gives.of(n.NodeResources), p.reserves.of(n.ReservedResources)
	if len(n.Drivers) > 0 {
		n.Drivers = *p.drivers.of(&n.Drivers)
	}
}

// event shares the texts of one that nobody else sees yet.
func (p *pool) event(e *structs.NodeEvent) {
	if e != nil {
		p.share(&e.Message, &e.Subsystem)
		e.Details = p.small(e.Details)
	}
}

func allocTexts(a *structs.Allocation) texts {
	return texts{&a.ID, &a.Namespace, &a.EvalID, &a.NodeID, &a.NodeName, &a.JobID, &a.TaskGroup, &a.DesiredStatus, &a.ClientStatus,
		&a.DesiredDescription, &a.ClientDescription}
}

func shareAlloc(p *pool, a, was *structs.Allocation) {
	shareAsBefore(p, a, was, allocTexts)
	a.Resources = p.asks.of(a.Resources)
}

// The parts that are more than a value: their hashes, when they are the same, and copies of them.

func hashModes(ms *[]*structs.CSIVolumeCapability) (sum uint64) {
	for _, m := range *ms {
		if m != nil {
			sum = mixed(sum, hashValue(m))
		}
	}
	return sum
}

func sameModes(a, b *[]*structs.CSIVolumeCapability) bool {
	return slices.EqualFunc(*a, *b, func(x, y *structs.CSIVolumeCapability) bool {
		return x == y || x != nil && y != nil && *x == *y
	})
}

func (p *pool) ownModes(ms *[]*structs.CSIVolumeCapability) []*structs.CSIVolumeCapability {
	out := make([]*structs.CSIVolumeCapability, len(*ms))
	for i, m := range *ms {
		if m != nil {
			own := *m
			p.share((*string)(&own.AccessMode), (*string)(&own.AttachmentMode))
			out[i] = &own
		}
	}
	return out
}

func hashMount(m *structs.CSIMountOptions) uint64 {
	sum := hashText(&m.FSType)
	for i := range m.MountFlags {
		sum = mixed(sum, hashText(&m.MountFlags[i]))
	}
	return sum
}

func sameMount(a, b *structs.CSIMountOptions) bool {
	return a.FSType == b.FSType && (a.MountFlags == nil) == (b.MountFlags == nil) && slices.Equal(a.MountFlags, b.MountFlags)
}

func hashHalves(ks *[]structs.CSIInstanceKey) (sum uint64) {
	for i := range *ks {
		sum = mixed(sum, hashValue(&(*ks)[i]))
	}
	return sum
}

func hashDrivers(ds *map[string]*structs.DriverInfo) (sum uint64) {
	for name, d := range *ds {
		h := hashText(&name)
		if d != nil {
			h = mixed(h, hashText(&d.HealthDescription)^uint64(d.UpdateTime.UnixNano()))
		}
		sum += h
	}
	return sum
}

func sameDrivers(a, b *map[string]*structs.DriverInfo) bool {
	return maps.EqualFunc(*a, *b, func(x, y *structs.DriverInfo) bool {
		if x == nil || y == nil {
			return x == y
		}
		return x.Detected == y.Detected && x.Healthy == y.Healthy && x.HealthDescription == y.HealthDescription &&
			x.UpdateTime == y.UpdateTime && sameMap(x.Attributes, y.Attributes)
	})
}

func (p *pool) ownDrivers(ds *map[string]*structs.DriverInfo) map[string]*structs.DriverInfo {
	out := make(map[string]*structs.DriverInfo, len(*ds))
	for name, d := range *ds {
		if d != nil {
			own := *d
			p.share(&own.HealthDescription)
			own.Attributes = p.small(own.Attributes)
			d = &own
		}
		out[p.text(name)] = d
	}
	return out
}

func hashGives(r *structs.NodeResources) uint64 {
	sum := mixed(uint64(r.CPU.CpuShares), uint64(r.CPU.TotalCpuCores))
	for _, core := range r.CPU.ReservableCpuCores {
		sum = mixed(sum, uint64(core))
	}
	return mixed(sum, mixed(uint64(r.Memory.MemoryMB), uint64(r.Disk.DiskMB)))
}

func sameGives(a, b *structs.NodeResources) bool {
	return a.CPU.CpuShares == b.CPU.CpuShares && a.CPU.TotalCpuCores == b.CPU.TotalCpuCores &&
		(a.CPU.ReservableCpuCores == nil) == (b.CPU.ReservableCpuCores == nil) &&
		slices.Equal(a.CPU.ReservableCpuCores, b.CPU.ReservableCpuCores) && a.Memory == b.Memory && a.Disk == b.Disk
}

func ownGives(r *structs.NodeResources) structs.NodeResources {
	own := *r
	own.CPU.ReservableCpuCores = slices.Clone(own.CPU.ReservableCpuCores)
	return own
}
