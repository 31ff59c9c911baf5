package structs

import (
	"maps"
	"reflect"
	"slices"
	"strings"
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
	Count       uint64 // in JSON a count that is left out is 1
	Constraints []*Constraint
	Affinities  []*Affinity
}

// Affinity is a preference of a job, a group or a task: nodes for which it holds count more, or less if the
// weight is negative. Of a demand for devices it prefers device groups.
type Affinity struct {
	LTarget string
	RTarget string
	Operand string
	Weight  int8 // -100 to 100 without 0; in JSON a weight that is left out is 50
}

// AllocatedDeviceResource are the devices of one group that a task has. A task has one value per group.
type AllocatedDeviceResource struct {
	Vendor    string
	Type      string
	Name      string
	DeviceIDs []string
}

// ID returns "vendor/type/name".
func (g *NodeDeviceResource) ID() string { return deviceGroupID(g.Vendor, g.Type, g.Name) }

// ID returns "vendor/type/name".
func (d *AllocatedDeviceResource) ID() string { return deviceGroupID(d.Vendor, d.Type, d.Name) }

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

// Number returns how many devices the demand is for. A stored demand is for 1 to MaxDevices.
func (r *RequestedDevice) Number() int { return int(min(max(r.Count, 1), MaxDevices)) }

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

// SameDevices reports whether a demand for devices would find the same in two reports of a group.
// Descriptions of health and places in the machine are for readers only.
func SameDevices(a, b *NodeDeviceResource) bool {
	if a == b {
		return true
	}
	return a.ID() == b.ID() &&
		slices.EqualFunc(a.Instances, b.Instances, func(x, y *NodeDevice) bool {
			return x.ID == y.ID && x.Healthy == y.Healthy
		}) &&
		maps.EqualFunc(a.Attributes, b.Attributes, func(x, y *DeviceAttribute) bool {
			return reflect.DeepEqual(x, y)
		})
}

// Bytes returns the size of the texts of a group, as the limits count it.
func (g *NodeDeviceResource) Bytes() int {
	n := len(g.ID())
	for _, d := range g.Instances {
		if d == nil {
			continue
		}

		n += len(d.ID) + len(d.HealthDescription)
		if d.Locality != nil {
			n += len(d.Locality.PciBusID)
		}
	}

	for name, a := range g.Attributes {
		n += len(name)
		if a == nil {
			continue
		}

		n += len(a.Unit)
		if a.String != nil {
			n += len(*a.String)
		}
	}

	return n
}

// Bytes returns the size of the value, about, in a log entry.
func (d *AllocatedDeviceResource) Bytes() int {
	n := 64 + len(d.Vendor) + len(d.Type) + len(d.Name)
	for _, id := range d.DeviceIDs {
		n += len(id) + 5
	}
	return n
}
