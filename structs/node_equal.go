package structs

import (
	"maps"
	"reflect"
	"time"
)

// NodeIgnore selects the fields that NodeEqual leaves out. Values are combined with |.
type NodeIgnore uint8

const (
	// IgnoreServersPart omits the fields that only the servers change: status, eligibility, drain, events,
	// indexes and the keys of the plugin instances, which have their own rows.
	IgnoreServersPart NodeIgnore = 1 << iota
	// IgnoreDriverTimes leaves out the time at which each driver last changed, which starts again with the
	// agent.
	IgnoreDriverTimes
)

// NodeEqual reports whether two nodes are equal in all fields but the ignored ones. A nil map differs from an
// empty one, as it does in the encoding.
func NodeEqual(a, b *Node, ignore NodeIgnore) bool {
	x := *a
	if ignore&IgnoreServersPart != 0 {
		b = new(*b)
		b.dropServersPart()
		x.dropServersPart()
	}

	same := func(d, e *DriverInfo) bool {
		return reflect.DeepEqual(d, e)
	}
	if ignore&IgnoreDriverTimes != 0 {
		same = SameDriver
	}

	if !SameTexts(x.Attributes, b.Attributes) ||
		!SameTexts(x.Meta, b.Meta) ||
		(x.Drivers == nil) != (b.Drivers == nil) ||
		!maps.EqualFunc(x.Drivers, b.Drivers, same) {
		return false
	}

	// Everything else, including future fields. Reflection is slow over maps, but not over the same one.
	x.Attributes = b.Attributes
	x.Meta = b.Meta
	x.Drivers = b.Drivers
	return reflect.DeepEqual(&x, b)
}

func (n *Node) dropServersPart() {
	n.Status = ""
	n.StatusDescription = ""
	n.StatusUpdatedAt = 0
	n.Epoch = 0
	n.Returning = false
	n.Leftovers = nil
	n.SchedulingEligibility = ""
	n.Drain = false
	n.DrainStrategy = nil
	n.LastDrain = nil
	n.Events = nil
	n.Indexes = Indexes{}
	n.instances = nil
}

// SameTexts compares two maps. A nil map differs from an empty one, as it does in the encoding.
func SameTexts(a, b map[string]string) bool {
	return (a == nil) == (b == nil) && maps.Equal(a, b)
}

// SameDriver compares the reports of a driver, except their times.
func SameDriver(a, b *DriverInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	x := *a
	y := *b
	x.UpdateTime = time.Time{}
	y.UpdateTime = time.Time{}
	return reflect.DeepEqual(&x, &y)
}
