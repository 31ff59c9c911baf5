package structs

import "strings"

// MachineID identifies a machine over its reboots, also after a copy of its disk: "product:d1 machine:d2"
// with digests of the product UUID and of the machine-id, or one of the two. "" is not known. Package
// admission reads it.
type MachineID string

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
	for _, kind := range []string{"product", "machine"} {
		a, b := m.part(kind), other.part(kind)
		if a != "" && b != "" {
			return a == b
		}
	}
	return false
}
