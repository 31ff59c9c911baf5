package structs

import (
	"cmp"
	"strings"
)

// MachineID identifies a machine over its reboots, also after a copy of its disk: "product:d1 machine:d2"
// with digests of the product UUID and of the machine-id, or one of the two. "" is not known. Package
// admission reads it.
type MachineID string

// machineParts are the two digests, the deciding one first.
var machineParts = []string{"product", "machine"}

// part returns one of the two digests, "" for none.
func (m MachineID) part(kind string) string {
	for _, p := range strings.Fields(string(m)) {
		value, ok := strings.CutPrefix(p, kind+":")
		if ok {
			return value
		}
	}
	return ""
}

// Same reports whether two identities are of one machine. The product UUID decides where both have it: a copy
// of a disk brings the machine-id along. An unknown ID equals no other.
func (m MachineID) Same(other MachineID) bool {
	for _, kind := range machineParts {
		a, b := m.part(kind), other.part(kind)
		if a != "" && b != "" {
			return a == b
		}
	}
	return false
}

// HasUUID reports whether the product UUID is a part.
func (m MachineID) HasUUID() bool { return m.part("product") != "" }

// Update returns the record of a machine that shows itself as now. A part that the same machine does not show
// any more stays, because a copy of its disk on a machine that shows both would pass for it without the part.
func (m MachineID) Update(now MachineID) MachineID {
	if !m.Same(now) {
		return now
	}
	var parts []string
	for _, kind := range machineParts {
		value := cmp.Or(now.part(kind), m.part(kind))
		if value != "" {
			parts = append(parts, kind+":"+value)
		}
	}
	return MachineID(strings.Join(parts, " "))
}
