package state

import (
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
)

// interner makes equal parts of rows share memory: texts, and whole values such as topologies and drivers.
// The functions below say which parts of a row these are. A row belongs to the table already, but a value
// that hangs on it may belong to another row. So it is replaced, and it is changed only if the row is decoded
// (Interner.Decoding).
type interner struct {
	*mvcc.Interner
	topologies    *mvcc.Part[structs.CSITopology]
	capabilities  *mvcc.Part[[]*structs.CSIVolumeCapability]
	mountOptions  *mvcc.Part[structs.CSIMountOptions]
	instanceKeys  *mvcc.Part[[]structs.CSIInstanceKey]
	controllers   *mvcc.Part[structs.CSIControllerInfo]
	drivers       *mvcc.Part[map[string]*structs.DriverInfo]
	nodeResources *mvcc.Part[structs.NodeResources]
	reserved      *mvcc.Part[structs.NodeReservedResources]
	resources     *mvcc.Part[structs.Resources]

	holders holderCache
}

func newInterner(decoding bool) *interner {
	in := &interner{Interner: mvcc.NewInterner(decoding)}
	in.topologies = mvcc.NewPart(hashTopology, equalTopology, in.copyTopology)
	in.capabilities = mvcc.NewPart(hashCapabilities, equalCapabilities, in.copyCapabilities)
	in.mountOptions = mvcc.NewPart(hashMountOptions, equalMountOptions, copyMountOptions)
	in.instanceKeys = mvcc.NewPart(hashInstanceKeys, equalInstanceKeys, copyInstanceKeys)
	in.controllers = newValuePart[structs.CSIControllerInfo]()
	in.drivers = mvcc.NewPart(hashDrivers, equalDrivers, in.copyDrivers)
	in.nodeResources = mvcc.NewPart(hashNodeResources, equalNodeResources, copyNodeResources)
	in.reserved = newValuePart[structs.NodeReservedResources]()
	in.resources = newValuePart[structs.Resources]()
	return in
}

// newValuePart returns a Part for values that hold no references.
func newValuePart[T comparable]() *mvcc.Part[T] {
	return mvcc.NewPart(mvcc.HashValue[T], func(a, b *T) bool { return *a == *b }, func(v *T) T { return *v })
}

// internerOf returns the interner of the store.
func internerOf(tx *ReadTx) *interner { return tx.Interner().(*interner) }

// interning returns a function for mvcc.Table.OnPut.
func interning[T any](fn func(in *interner, now, before *T)) func(in any, now, before *T) {
	return func(in any, now, before *T) { fn(in.(*interner), now, before) }
}

func internClaim(in *interner, c, before *structs.CSIClaim) {
	mvcc.TextsOf(in.Interner, c, before, claimTexts)
}

func claimTexts(c *structs.CSIClaim) mvcc.Fields {
	return mvcc.Fields{
		&c.Namespace, &c.VolumeID, &c.NodeID, &c.AllocID, &c.PluginID, &c.JobID, &c.TaskGroup, &c.Mode, &c.State,
		(*string)(&c.AccessMode), (*string)(&c.AttachmentMode),
	}
}

func internInstance(in *interner, i, before *structs.CSIPluginInstance) {
	mvcc.TextsOf(in.Interner, i, before, instanceTexts)
	i.ControllerInfo = in.controllers.Of(i.ControllerInfo)
	if i.NodeInfo == nil {
		return
	}
	topology := in.topologies.Of(i.NodeInfo.AccessibleTopology)
	if topology == i.NodeInfo.AccessibleTopology {
		return
	}
	if !in.Decoding {
		own := *i.NodeInfo
		i.NodeInfo = &own
	}
	i.NodeInfo.AccessibleTopology = topology
}

func instanceTexts(i *structs.CSIPluginInstance) mvcc.Fields {
	return mvcc.Fields{
		&i.PluginID, &i.NodeID, &i.AllocID, &i.Provider, &i.ProviderVersion, &i.FormerProvider,
		&i.HealthDescription, (*string)(&i.Kind),
	}
}

func internVolume(in *interner, v, _ *structs.CSIVolume) {
	in.Texts(&v.Namespace, &v.PluginID, &v.State)
	if v.Name == v.ID {
		v.Name = v.ID
	}
	v.Parameters, v.Context = in.Map(v.Parameters), in.Map(v.Context)
	v.MountOptions = in.mountOptions.Of(v.MountOptions)
	v.Topologies = in.topologyList(v.Topologies)
	if len(v.RequestedCapabilities) > 0 {
		v.RequestedCapabilities = *in.capabilities.Of(&v.RequestedCapabilities)
	}
	if v.RequestedTopologies != nil {
		v.RequestedTopologies = &structs.CSITopologyRequest{
			Required:  in.topologyList(v.RequestedTopologies.Required),
			Preferred: in.topologyList(v.RequestedTopologies.Preferred),
		}
	}
}

// topologyList returns the list with shared topologies.
func (in *interner) topologyList(ts []*structs.CSITopology) []*structs.CSITopology {
	if !in.Decoding {
		ts = slices.Clone(ts)
	}
	for n, t := range ts {
		ts[n] = in.topologies.Of(t)
	}
	return ts
}

func internNode(in *interner, n, before *structs.Node) {
	mvcc.TextsOf(in.Interner, n, before, nodeTexts)
	if !in.Decoding {
		return
	}
	in.reported(n)
	for _, e := range n.Events {
		in.event(e)
	}
}

func nodeTexts(n *structs.Node) mvcc.Fields {
	return mvcc.Fields{
		&n.ID, &n.Name, &n.Datacenter, &n.NodeClass, &n.NodePool, &n.ComputedClass, &n.Status,
		&n.SchedulingEligibility,
	}
}

// reported interns what a node reports of itself. No two nodes have equal attributes, because one of these is
// the name of the node.
func (in *interner) reported(n *structs.Node) {
	n.Attributes, n.Meta = in.TextsOfMap(n.Attributes), in.Map(n.Meta)
	n.NodeResources = in.nodeResources.Of(n.NodeResources)
	n.ReservedResources = in.reserved.Of(n.ReservedResources)
	if len(n.Drivers) > 0 {
		n.Drivers = *in.drivers.Of(&n.Drivers)
	}
}

// event interns an event that nobody else sees yet.
func (in *interner) event(e *structs.NodeEvent) {
	if e != nil {
		in.Texts(&e.Message, &e.Subsystem)
		e.Details = in.Map(e.Details)
	}
}

func internAlloc(in *interner, a, before *structs.Allocation) {
	mvcc.TextsOf(in.Interner, a, before, allocTexts)
	a.Resources = in.resources.Of(a.Resources)
	if len(a.CSIVolumes) == 0 || before != nil && sameList(a.CSIVolumes, before.CSIVolumes) {
		return
	}
	if !in.Decoding {
		a.CSIVolumes = slices.Clone(a.CSIVolumes)
	}
	for i := range a.CSIVolumes {
		u := &a.CSIVolumes[i]
		in.Texts(&u.VolumeID, (*string)(&u.AccessMode), (*string)(&u.AttachmentMode), &u.Mode)
	}
}

// sameList reports whether a list that is not empty is the other one, in the same memory.
func sameList[T any](a, b []T) bool { return len(b) > 0 && &a[0] == &b[0] }

func allocTexts(a *structs.Allocation) mvcc.Fields {
	return mvcc.Fields{
		&a.ID, &a.Namespace, &a.EvalID, &a.NodeID, &a.NodeName, &a.JobID, &a.TaskGroup, &a.DesiredStatus,
		&a.ClientStatus, &a.DesiredDescription, &a.ClientDescription,
	}
}

// The hash, the equality and the deep copy of each part that is more than a value.

func hashTopology(t *structs.CSITopology) uint64 { return mvcc.HashMap(t.Segments) }

func equalTopology(a, b *structs.CSITopology) bool { return structs.SameTexts(a.Segments, b.Segments) }

func (in *interner) copyTopology(t *structs.CSITopology) structs.CSITopology {
	return structs.CSITopology{Segments: in.Map(t.Segments)}
}

func hashCapabilities(cs *[]*structs.CSIVolumeCapability) (sum uint64) {
	for _, c := range *cs {
		if c != nil {
			sum = mvcc.MixHashes(sum, mvcc.HashValue(c))
		}
	}
	return sum
}

func equalCapabilities(a, b *[]*structs.CSIVolumeCapability) bool {
	return slices.EqualFunc(*a, *b, func(x, y *structs.CSIVolumeCapability) bool {
		return x == y || x != nil && y != nil && *x == *y
	})
}

func (in *interner) copyCapabilities(cs *[]*structs.CSIVolumeCapability) []*structs.CSIVolumeCapability {
	out := make([]*structs.CSIVolumeCapability, len(*cs))
	for i, c := range *cs {
		if c != nil {
			own := *c
			in.Texts((*string)(&own.AccessMode), (*string)(&own.AttachmentMode))
			out[i] = &own
		}
	}
	return out
}

func hashMountOptions(m *structs.CSIMountOptions) uint64 {
	sum := mvcc.HashText(&m.FSType)
	for i := range m.MountFlags {
		sum = mvcc.MixHashes(sum, mvcc.HashText(&m.MountFlags[i]))
	}
	return sum
}

func equalMountOptions(a, b *structs.CSIMountOptions) bool {
	return a.FSType == b.FSType && (a.MountFlags == nil) == (b.MountFlags == nil) &&
		slices.Equal(a.MountFlags, b.MountFlags)
}

func copyMountOptions(m *structs.CSIMountOptions) structs.CSIMountOptions { return *m.Copy() }

func hashInstanceKeys(ks *[]structs.CSIInstanceKey) (sum uint64) {
	for i := range *ks {
		sum = mvcc.MixHashes(sum, mvcc.HashValue(&(*ks)[i]))
	}
	return sum
}

func equalInstanceKeys(a, b *[]structs.CSIInstanceKey) bool { return slices.Equal(*a, *b) }

func copyInstanceKeys(ks *[]structs.CSIInstanceKey) []structs.CSIInstanceKey {
	return slices.Clone(*ks)
}

func hashDrivers(ds *map[string]*structs.DriverInfo) (sum uint64) {
	for name, d := range *ds {
		h := mvcc.HashText(&name)
		if d != nil {
			h = mvcc.MixHashes(h, mvcc.HashText(&d.HealthDescription)^uint64(d.UpdateTime.UnixNano()))
		}
		sum += h
	}
	return sum
}

func equalDrivers(a, b *map[string]*structs.DriverInfo) bool {
	return maps.EqualFunc(*a, *b, func(x, y *structs.DriverInfo) bool {
		if x == nil || y == nil {
			return x == y
		}
		return x.Detected == y.Detected && x.Healthy == y.Healthy && x.HealthDescription == y.HealthDescription &&
			x.UpdateTime == y.UpdateTime && structs.SameTexts(x.Attributes, y.Attributes)
	})
}

func (in *interner) copyDrivers(ds *map[string]*structs.DriverInfo) map[string]*structs.DriverInfo {
	out := make(map[string]*structs.DriverInfo, len(*ds))
	for name, d := range *ds {
		if d != nil {
			own := *d
			in.Texts(&own.HealthDescription)
			own.Attributes = in.Map(own.Attributes)
			d = &own
		}
		out[in.Text(name)] = d
	}
	return out
}

func hashNodeResources(r *structs.NodeResources) uint64 {
	sum := mvcc.MixHashes(uint64(r.CPU.CpuShares), uint64(r.CPU.TotalCpuCores))
	for _, core := range r.CPU.ReservableCpuCores {
		sum = mvcc.MixHashes(sum, uint64(core))
	}
	return mvcc.MixHashes(sum, mvcc.MixHashes(uint64(r.Memory.MemoryMB), uint64(r.Disk.DiskMB)))
}

func equalNodeResources(a, b *structs.NodeResources) bool {
	return a.CPU.CpuShares == b.CPU.CpuShares && a.CPU.TotalCpuCores == b.CPU.TotalCpuCores &&
		(a.CPU.ReservableCpuCores == nil) == (b.CPU.ReservableCpuCores == nil) &&
		slices.Equal(a.CPU.ReservableCpuCores, b.CPU.ReservableCpuCores) && a.Memory == b.Memory && a.Disk == b.Disk
}

func copyNodeResources(r *structs.NodeResources) structs.NodeResources {
	own := *r
	own.CPU.ReservableCpuCores = slices.Clone(own.CPU.ReservableCpuCores)
	return own
}
