package structs

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// NodeDeviceResource is a device group: the equal devices of one node. A job asks for it by
// "vendor/type/name", "vendor/type" or "type".
type NodeDeviceResource struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []*NodeDevice // in the order of their IDs
	Attributes map[string]*DeviceAttribute
}

// NodeDevice is one device. Its ID is unique in its group.
type NodeDevice struct {
	ID                string
	Healthy           bool
	HealthDescription string
	Locality          *NodeDeviceLocality
}

// NodeDeviceLocality is the place of a device in its machine.
type NodeDeviceLocality struct {
	PciBusID string // domain:bus:device.function in hexadecimal
}

// DeviceAttribute is a value of one type, for numbers with an optional unit. One of the values is set.
type DeviceAttribute struct {
	Float  *float64 `json:",omitempty"`
	Int    *int64   `json:",omitempty"`
	String *string  `json:",omitempty"`
	Bool   *bool    `json:",omitempty"`
	Unit   string
}

// RequestedDevice is a demand of a task for devices. All of them are of one group.
type RequestedDevice struct {
	Name        string // "type", "vendor/type" or "vendor/type/name"
	Count       uint64 // 0 is 1
	Constraints []*Constraint
	Affinities  []*Affinity
}

// Affinity is a preference: devices for which it holds count more, or less if the weight is negative.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8 // -100 to 100 without 0
}

// AllocatedDeviceResource are the devices of one group that a task has.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// DeviceGroupStats are the statistics of the devices of one group, by their IDs.
type DeviceGroupStats struct {
	Vendor        string
	Type          string
	Name          string
	InstanceStats map[string]*DeviceStats
}

// DeviceStats are the statistics of one device.
type DeviceStats struct {
	Summary   *StatValue
	Stats     *StatObject
	Timestamp time.Time
}

// StatObject is a tree of statistics.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is one statistic: a number, a fraction, a text or a flag.
type StatValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty"`
	StringVal           *string  `json:",omitempty"`
	BoolVal             *bool    `json:",omitempty"`
	Unit                string   `json:",omitempty"`
	Desc                string   `json:",omitempty"`
}

// ID returns "vendor/type/name".
func (g *NodeDeviceResource) ID() string { return deviceGroupID(g.Vendor, g.Type, g.Name) }

// ID returns "vendor/type/name".
func (d *AllocatedDeviceResource) ID() string { return deviceGroupID(d.Vendor, d.Type, d.Name) }

// ID returns "vendor/type/name".
func (g *DeviceGroupStats) ID() string { return deviceGroupID(g.Vendor, g.Type, g.Name) }

func deviceGroupID(vendor, typ, name string) string { return vendor + "/" + typ + "/" + name }

// Instance returns the device with the ID, or nil.
func (g *NodeDeviceResource) Instance(id string) *NodeDevice {
	for _, d := range g.Instances {
		if d.ID == id {
			return d
		}
	}
	return nil
}

// Number returns how many devices the demand is for.
func (r *RequestedDevice) Number() int { return int(max(r.Count, 1)) }

// Matches reports whether the name of the demand selects the group. Constraints are another matter.
func (r *RequestedDevice) Matches(g *NodeDeviceResource) bool {
	vendor, rest, long := strings.Cut(r.Name, "/")
	if !long {
		return r.Name == g.Type
	}
	typ, name, full := strings.Cut(rest, "/")
	return vendor == g.Vendor && typ == g.Type &&
		(!full || name == g.Name)
}

// Healthy returns the IDs of the healthy devices, in order.
func (g *NodeDeviceResource) Healthy() []string {
	var ids []string
	for _, d := range g.Instances {
		if d.Healthy {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// DeviceUse has the devices of one node that allocations have: by group, the allocation of each.
type DeviceUse map[string]map[string]string

// Add records the devices of an allocation.
func (u DeviceUse) Add(a *Allocation) {
	for _, groups := range a.Devices {
		for _, d := range groups {
			if u[d.ID()] == nil {
				u[d.ID()] = map[string]string{}
			}
			for _, id := range d.DeviceIDs {
				u[d.ID()][id] = a.ID
			}
		}
	}
}

// Remove forgets the devices of an allocation.
func (u DeviceUse) Remove(a *Allocation) {
	for _, groups := range a.Devices {
		for _, d := range groups {
			for _, id := range d.DeviceIDs {
				if u[d.ID()][id] == a.ID {
					delete(u[d.ID()], id)
				}
			}
		}
	}
}

// Holds reports whether a device of the allocation is in use.
func (u DeviceUse) Holds(a *Allocation) bool {
	for _, groups := range a.Devices {
		for _, d := range groups {
			for _, id := range d.DeviceIDs {
				if u[d.ID()][id] != "" {
					return true
				}
			}
		}
	}
	return false
}

// Refusal returns why an allocation of the group of tasks cannot have its devices on the node, "" if it can:
// each has to be on the node, healthy, in use by no allocation, named once, and as many as the tasks demand.
func (u DeviceUse) Refusal(n *Node, a *Allocation, g *TaskGroup) string {
	own := map[[2]string]bool{}
	for _, groups := range a.Devices {
		for _, d := range groups {
			have := n.DeviceGroup(d.ID())
			for _, id := range d.DeviceIDs {
				switch {
				case have == nil || have.Instance(id) == nil:
					return fmt.Sprintf("it has no device %s of %s", id, d.ID())
				case !have.Instance(id).Healthy:
					return fmt.Sprintf("device %s of %s is not healthy", id, d.ID())
				case u[d.ID()][id] != "":
					return fmt.Sprintf("allocation %s has device %s of %s", u[d.ID()][id], id, d.ID())
				case own[[2]string{d.ID(), id}]:
					return fmt.Sprintf("device %s of %s is given twice", id, d.ID())
				}
				own[[2]string{d.ID(), id}] = true
			}
		}
	}
	for _, t := range g.Tasks {
		if want, have := t.demandedDevices(), countDevices(a.Devices[t.Name]); have < want {
			return fmt.Sprintf("task %q demands %d devices and is given %d", t.Name, want, have)
		}
	}
	return ""
}

func (t *Task) demandedDevices() int {
	n := 0
	if t.Resources != nil {
		for _, r := range t.Resources.Devices {
			n += r.Number()
		}
	}
	return n
}

func countDevices(groups []*AllocatedDeviceResource) int {
	n := 0
	for _, d := range groups {
		n += len(d.DeviceIDs)
	}
	return n
}

// DeviceGroup returns the device group of that ID, nil if the node has none.
func (n *Node) DeviceGroup(id string) *NodeDeviceResource {
	if n.NodeResources == nil {
		return nil
	}
	for _, g := range n.NodeResources.Devices {
		if g.ID() == id {
			return g
		}
	}
	return nil
}

// SameDeviceGroup reports whether two reports of a group say the same.
func SameDeviceGroup(a, b *NodeDeviceResource) bool { return reflect.DeepEqual(a, b) }
