// Package jobvolume has the rules for volumes that a job asks for: a volume block of a group names a class,
// and the servers create the volume. It belongs to the job, and to no other.
//
// The ID of such a volume follows from the job, the group and the block, and with per_alloc from the index
// of the allocation. So each server and each repetition names the same volume, and a job that is registered
// again finds the volumes that it had.
package jobvolume

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"berth/structs"
)

// maxSource is the most bytes of a Source. With the index of an allocation it is within structs.MaxName.
const maxSource = 200

// DefaultSnapshotTimeout is the default of structs.SnapshotCommands.Timeout.
const DefaultSnapshotTimeout = 30 * time.Second

// digestSize is the number of bytes of the digest in a Source that cannot have its parts as they are.
const digestSize = 5

// IsAsked reports whether the servers create the volume of a request. The request may be nil.
func IsAsked(r *structs.VolumeRequest) bool {
	return r != nil && r.Type == structs.VolumeTypeCSI && r.Class != ""
}

// barred are characters that a Source does not have: those of no name, and the brackets of an index.
const barred = `/\[]` + string(unicode.ReplacementChar)

// Source returns the structs.VolumeRequest.Source of a volume block that names a class or is inline.
func Source(jobID, group, alias string) string {
	name := jobID + "." + group + "." + alias
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(barred, r) || unicode.IsSpace(r) || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, name)
	if plain == name && len(name) <= maxSource {
		return name
	}

	digest := sha256.Sum256([]byte(name))
	cut := strings.ToValidUTF8(plain[:min(len(plain), maxSource)], "")
	return cut + "-" + hex.EncodeToString(digest[:digestSize])
}

// Canonicalize gives a request that names a class, or is inline, the values that it leaves out. The job has
// its ID.
func Canonicalize(r *structs.VolumeRequest, jobID, group, alias string) {
	r.Source = cmp.Or(r.Source, Source(jobID, group, alias))
	r.AccessMode = cmp.Or(r.AccessMode, structs.CSISingleNodeWriter)
	r.AttachmentMode = cmp.Or(r.AttachmentMode, structs.CSIFileSystem)
}

// WithSources returns a job with the names of the volumes that it asks for. A job that another one has
// started has those of its parent before. The result shares all else with the job, which does not change.
// Groups and volumes of it may be nil.
func WithSources(j *structs.Job) *structs.Job {
	c := j.Copy()
	for i, g := range c.TaskGroups {
		if g == nil {
			continue
		}
		own := *g
		own.Volumes = maps.Clone(g.Volumes)
		for alias, r := range g.Volumes {
			if IsAsked(r) || r.IsInline() {
				named := *r
				named.Source = Source(c.ID, g.Name, alias)
				own.Volumes[alias] = &named
			}
		}
		c.TaskGroups[i] = &own
	}
	return c
}

// PlaceText names a topology, "" for none: the segments by their keys, whose case does not matter.
func PlaceText(t *structs.CSITopology) string {
	if t == nil {
		return ""
	}
	var parts []string
	for key, value := range t.Segments {
		parts = append(parts, strings.ToLower(key)+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
