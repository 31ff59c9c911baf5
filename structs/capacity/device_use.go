package capacity

import (
	"berth/structs"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// DeviceUse has the devices of one node that allocations have: by group, the allocation of each. nil has
// none.
type DeviceUse map[string]map[string]string

// Add records the devices of an allocation and returns the use, as append does: a use without devices needs
// no memory, because most nodes have none.
func (u DeviceUse) Add(a *structs.Allocation) DeviceUse {
	if len(a.Devices) == 0 {
		return u
	}

	if u == nil {
		u = DeviceUse{}
	}

	for d := range deviceGroups(a) {
		u.AddDevices(a.ID, d)
	}

	return u
}

// Copy returns a copy that later changes of u do not change.
func (u DeviceUse) Copy() DeviceUse {
	c := DeviceUse{}
	for group, holders := range u {
		c[group] = maps.Clone(holders)
	}
	return c
}

// AddDevices records devices of one group that an allocation has.
func (u DeviceUse) AddDevices(alloc string, d *structs.AllocatedDeviceResource) {
	group := d.ID()
	if u[group] == nil {
		u[group] = map[string]string{}
	}
	for _, id := range d.DeviceIDs {
		u[group][id] = alloc
	}
}

// Remove forgets the devices of an allocation.
func (u DeviceUse) Remove(a *structs.Allocation) {
	if len(u) == 0 {
		return
	}

	for d := range deviceGroups(a) {
		group := u[d.ID()]
		for _, id := range d.DeviceIDs {
			if group[id] == a.ID {
				delete(group, id)
			}
		}
	}
}

// Holder returns the first allocation, by its ID, that has a device of a, "" if none has.
func (u DeviceUse) Holder(a *structs.Allocation) string {
	if len(u) == 0 {
		return ""
	}

	first := ""
	for d := range deviceGroups(a) {
		for _, id := range d.DeviceIDs {
			holder := u[d.ID()][id]
			if holder != "" && (first == "" || holder < first) {
				first = holder
			}
		}
	}

	return first
}

// deviceGroups yields the devices of the tasks by their groups. A damaged row may have empty ones.
func deviceGroups(a *structs.Allocation) iter.Seq[*structs.AllocatedDeviceResource] {
	return func(yield func(*structs.AllocatedDeviceResource) bool) {
		for _, groups := range a.Devices {
			for _, d := range groups {
				if d != nil && !yield(d) {
					return
				}
			}
		}
	}
}

// Rejection returns why an allocation of the group of tasks cannot have its devices on the node, "" if it
// can: each has to be on the node, healthy, in use by no allocation, named once, and as many as the tasks
// demand. The reason is the same on each server.
func (u DeviceUse) Rejection(n *structs.Node, a *structs.Allocation, g *structs.TaskGroup) string {
	if len(a.Devices) > 0 {
		if why := u.rejectGiven(n, a, g); why != "" {
			return why
		}
	}

	for _, t := range g.Tasks {
		want := demandedDevices(t)
		have := countDevices(a.Devices[t.Name])
		if have != want {
			return fmt.Sprintf("task %q demands %d devices and is given %d", t.Name, want, have)
		}
	}

	return ""
}

// rejectGiven is Rejection for the devices that the allocation has.
func (u DeviceUse) rejectGiven(n *structs.Node, a *structs.Allocation, g *structs.TaskGroup) string {
	own := DeviceUse{}
	for _, task := range slices.Sorted(maps.Keys(a.Devices)) {
		if g.Task(task) == nil {
			return fmt.Sprintf("devices are given to a task %q, which its group does not have", task)
		}

		for _, d := range a.Devices[task] {
			if d == nil {
				return fmt.Sprintf("task %q is given devices of no group", task)
			}

			why := u.rejectGroup(n, d, own)
			if why != "" {
				return why
			}
		}
	}

	return ""
}

// rejectGroup is rejectGiven for the devices of one group. It adds them to own, the devices of the same
// allocation.
func (u DeviceUse) rejectGroup(n *structs.Node, d *structs.AllocatedDeviceResource, own DeviceUse) string {
	group := d.ID()
	have := n.DeviceGroup(group)
	if own[group] == nil {
		own[group] = map[string]string{}
	}

	for _, id := range d.DeviceIDs {
		var device *structs.NodeDevice
		if have != nil {
			device = have.Instance(id)
		}

		switch {
		case device == nil:
			return fmt.Sprintf("it has no device %s of %s", id, group)
		case !device.Healthy:
			return fmt.Sprintf("device %s of %s is not healthy", id, group)
		case u[group][id] != "":
			return fmt.Sprintf("allocation %s has device %s of %s", u[group][id], id, group)
		case own[group][id] != "":
			return fmt.Sprintf("device %s of %s is given twice", id, group)
		}

		own[group][id] = id
	}

	return ""
}

func demandedDevices(t *structs.Task) int {
	n := 0
	if t.Resources != nil {
		for _, r := range t.Resources.Devices {
			n += r.Number()
		}
	}
	return n
}

func countDevices(groups []*structs.AllocatedDeviceResource) int {
	n := 0
	for _, d := range groups {
		n += len(d.DeviceIDs)
	}
	return n
}
