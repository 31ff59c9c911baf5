package structs

import (
	"reflect"
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

// SameDeviceGroup reports whether two reports of a group say the same.
func SameDeviceGroup(a, b *NodeDeviceResource) bool { return reflect.DeepEqual(a, b) }
