package csi

import (
	"cmp"
	"strings"

	"berth/structs"
)

// mostReadable bounds the part of a generated name that tells of the ID, so that a name with a UUID has at
// most 63 bytes.
const mostReadable = 26

// lengthOfID is the length of the unique part of a generated name.
const lengthOfID = 36

// VolumeName makes the name that CreateVolume is called with: readable, unique by the second ID, and of the
// form that the storage of vendors takes beyond CreateVolumeRequest.name of the CSI spec: a letter, then
// lower-case letters, digits and dashes, 63 bytes at most (RFC 1035, label). It is recorded before the first
// call.
func VolumeName(id, unique string) string {
	plain := func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}
	readable := strings.Trim(strings.Map(plain, strings.ToLower(id)), "-")
	if readable == "" || readable[0] < 'a' {
		readable = "v" + readable
	}
	readable = readable[:min(len(readable), mostReadable)]
	return strings.TrimRight(readable, "-") + "-" + unique
}

// NameVolume gives a new volume the names that it lacks. unique is an ID that no other volume has.
func NameVolume(v *structs.CSIVolume, unique string) {
	v.ExternalName = cmp.Or(v.ExternalName, VolumeName(v.ID, unique))
	v.Name = cmp.Or(v.Name, v.ExternalName)
}

// IsMadeName reports whether VolumeName has made the name of a volume.
func IsMadeName(id, name string) bool {
	unique, found := strings.CutPrefix(name, VolumeName(id, ""))
	return found && len(unique) == lengthOfID
}
