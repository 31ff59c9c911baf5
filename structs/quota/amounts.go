package quota

import (
	"cmp"
	"maps"
	"slices"

	"berth/structs"
)

// Dimension names an amount that a quota bounds. Name names a device group, a plugin or a volume class,
// "" for all.
type Dimension struct{ Kind, Name string }

// The kinds of dimensions.
const (
	KindAllocations = "allocations"
	KindCPU         = "cpu"
	KindMemory      = "memory"
	KindMemoryMax   = "memory_max"
	KindDevice      = "device" // the name is a device group in amounts, and a demand in bounds
	KindVolumes     = "volumes"
	KindBytes       = "volume bytes"
)

// ofKind returns the dimension of the volumes, or of their bytes, of a kind and a name.
func ofKind(what, kind, name string) Dimension { return Dimension{what + " of " + kind, name} }

// Amounts are amounts by dimension, without zeros. nil has none.
type Amounts map[Dimension]int64

// most bounds what one allocation adds to a dimension, so that no sum leaves its range.
const most = 1 << 32

// OfAlloc returns what an allocation has of a quota: nothing if it has ended or is to end.
func OfAlloc(a *structs.Allocation) Amounts {
	if a == nil || a.Terminal() {
		return nil
	}

	all := OfResources(a.Resources)
	all.AddAll(OfDevices(a.Devices), 1)
	return all
}

// Memo keeps what the last resources have of a quota: the allocations of a group share one value. The zero
// value keeps nothing. Nothing may change the amounts that it returns, or resources that it was asked for.
type Memo struct {
	resources *structs.Resources
	amounts   Amounts
}

// OfResources is like the function.
func (m *Memo) OfResources(r *structs.Resources) Amounts {
	if m.amounts == nil || m.resources != r {
		m.resources = r
		m.amounts = OfResources(r)
	}
	return m.amounts
}

// OfAlloc is like the function.
func (m *Memo) OfAlloc(a *structs.Allocation) Amounts {
	if a.Terminal() || len(a.Devices) > 0 {
		return OfAlloc(a)
	}
	return m.OfResources(a.Resources)
}

// OfDevices returns what devices by task have of a quota.
func OfDevices(devices map[string][]*structs.AllocatedDeviceResource) Amounts {
	all := Amounts{}
	for _, ofTask := range devices {
		for _, d := range ofTask {
			all.add(Dimension{KindDevice, d.ID()}, int64(len(d.DeviceIDs)))
		}
	}
	return all
}

// OfResources returns what an allocation with resources and without devices has of a quota.
func OfResources(r *structs.Resources) Amounts {
	all := Amounts{{Kind: KindAllocations}: 1}
	if r == nil {
		return all
	}

	all.add(Dimension{Kind: KindCPU}, bounded(r.CPU))
	all.add(Dimension{Kind: KindMemory}, bounded(r.MemoryMB))
	all.add(Dimension{Kind: KindMemoryMax}, bounded(max(r.MemoryMB, r.MemoryMaxMB)))
	return all
}

func bounded(n int) int64 { return int64(min(max(n, 0), most)) }

// MemoryMax returns the sum of the MiB that the tasks of a group may use at most, and 0 if that is what they
// reserve.
func MemoryMax(g *structs.TaskGroup) int {
	if !g.HasMemoryMax() {
		return 0
	}
	sum := 0
	for _, t := range g.Tasks {
		if t != nil && t.Resources != nil {
			sum = structs.AddSaturated(sum, max(t.Resources.MemoryMB, t.Resources.MemoryMaxMB))
		}
	}
	return sum
}

// mostBytes bounds what one volume adds to the bytes, 4 PiB.
const mostBytes = 1 << 52

// OfVolume returns what a volume has of a quota, from the request to make or to expand it on: its capacity,
// or the larger one that it is to get. A volume of unknown capacity has no bytes. The weight of its class
// counts for the bytes of all volumes alone.
func OfVolume(v *structs.CSIVolume) Amounts {
	if v == nil {
		return nil
	}

	all := Amounts{}
	bytes := min(BytesOf(v), mostBytes)
	weight := int64(max(v.QuotaWeight, 1))
	all.add(Dimension{Kind: KindVolumes}, 1)
	all.add(Dimension{Kind: KindBytes}, min(bytes, mostBytes/weight)*weight)
	all.add(ofKind(KindVolumes, OfPlugin, v.PluginID), 1)
	all.add(ofKind(KindBytes, OfPlugin, v.PluginID), bytes)
	if v.Class != "" {
		all.add(ofKind(KindVolumes, OfClass, v.Class), 1)
		all.add(ofKind(KindBytes, OfClass, v.Class), bytes)
	}
	return all
}

// BytesOf returns the capacity of a volume as quotas count it. One that is still to be made without a minimum
// may get as much as its maximum.
func BytesOf(v *structs.CSIVolume) int64 {
	bytes := max(v.Capacity, v.RequestedCapacityMin, 0)
	if v.State == structs.VolumeCreating {
		bytes = cmp.Or(bytes, max(v.RequestedCapacityMax, 0))
	}
	return bytes
}

func (a Amounts) add(d Dimension, n int64) {
	sum := a[d] + n
	if sum == 0 {
		delete(a, d)
		return
	}
	a[d] = sum
}

// AddAll adds other amounts, a number of times, which may be negative.
func (a Amounts) AddAll(other Amounts, times int64) {
	for d, n := range other {
		a.add(d, n*times)
	}
}

// Copy returns a copy that is never nil.
func (a Amounts) Copy() Amounts {
	c := make(Amounts, len(a))
	maps.Copy(c, a)
	return c
}

// Equal reports whether the amounts are the same.
func (a Amounts) Equal(other Amounts) bool { return maps.Equal(a, other) }

// bound is the most of a dimension.
type bound struct {
	of   Dimension
	most int64 // negative: nothing
}

// boundsOf lists the bounds in the order in which they are checked and shown.
func boundsOf(b *Bounds) []bound {
	if b == nil {
		return nil
	}

	all := []bound{
		{Dimension{Kind: KindAllocations}, int64(b.Allocations)},
		{Dimension{Kind: KindCPU}, int64(b.CPU)},
		{Dimension{Kind: KindMemory}, int64(b.MemoryMB)},
		{Dimension{Kind: KindMemoryMax}, int64(b.MemoryMaxMB)},
	}
	for _, d := range b.Devices {
		all = append(all, bound{Dimension{KindDevice, d.Name}, int64(d.Count)})
	}

	if b.Storage != nil {
		all = append(all, bound{Dimension{Kind: KindVolumes}, int64(b.Storage.Volumes)},
			bound{Dimension{Kind: KindBytes}, b.Storage.VolumeBytes})
		for _, v := range b.Storage.Of {
			all = append(all, bound{ofKind(KindVolumes, v.Kind, v.Name), int64(v.Volumes)},
				bound{ofKind(KindBytes, v.Kind, v.Name), v.Bytes})
		}
	}

	return slices.DeleteFunc(all, func(b bound) bool { return b.most == 0 })
}

// at returns the amount of the dimension of a bound. For devices it adds up all groups that the bound
// selects.
func (a Amounts) at(d Dimension) (sum int64) {
	if d.Kind != KindDevice {
		return a[d]
	}
	for group, n := range a {
		if group.Kind == KindDevice && selects(d.Name, group.Name) {
			sum += n
		}
	}
	return sum
}
