package storage

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

// maxSourceBytes is the most bytes of a RequestSource. With the index of an allocation it is within
// structs.MaxName.
const maxSourceBytes = 200

// DefaultSnapshotTimeout is the default of structs.SnapshotCommands.Timeout.
const DefaultSnapshotTimeout = 30 * time.Second

// sourceDigestBytes is the number of bytes of the digest in a RequestSource that cannot have its parts as
// they are.
const sourceDigestBytes = 5

// IsClassRequest reports whether the servers create the volume of a request. The request may be nil.
func IsClassRequest(r *structs.VolumeRequest) bool {
	return r != nil && r.Type == structs.VolumeTypeCSI && r.Class != ""
}

// barredInSource are characters that a RequestSource does not have: no name has them, or they are the
// brackets of an index.
const barredInSource = `/\[]` + string(unicode.ReplacementChar)

// RequestSource returns the structs.VolumeRequest.Source of a volume block that names a class or is inline.
// The servers create the volume of a class: it belongs to the job, and to no other. Its ID follows from the
// job, the group and the block, and with per_alloc from the index of the allocation. So each server and each
// repetition names the same volume, and a job that is registered again finds the volumes that it had.
func RequestSource(jobID, group, alias string) string {
	name := jobID + "." + group + "." + alias
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(barredInSource, r) || unicode.IsSpace(r) || unicode.IsControl(r) {
			return '-'
		}
		return r
	}, name)
	if plain == name && len(name) <= maxSourceBytes {
		return name
	}

	digest := sha256.Sum256([]byte(name))
	cut := strings.ToValidUTF8(plain[:min(len(plain), maxSourceBytes)], "")
	return cut + "-" + hex.EncodeToString(digest[:sourceDigestBytes])
}

// CanonicalizeRequest gives a request that names a class, or is inline, the values that it leaves out. The
// job has its ID.
func CanonicalizeRequest(r *structs.VolumeRequest, jobID, group, alias string) {
	r.Source = cmp.Or(r.Source, RequestSource(jobID, group, alias))
	r.AccessMode = cmp.Or(r.AccessMode, structs.CSISingleNodeWriter)
	r.AttachmentMode = cmp.Or(r.AttachmentMode, structs.CSIFileSystem)
}

// JobWithSources returns a job with the names of the volumes that it asks for. A job that another one has
// started has its parent's before. The result shares all else with the job, which does not change.
// Groups and volumes of it may be nil.
func JobWithSources(j *structs.Job) *structs.Job {
	c := j.Copy()
	for i, g := range c.TaskGroups {
		if g == nil {
			continue
		}
		own := *g
		own.Volumes = maps.Clone(g.Volumes)
		for alias, r := range g.Volumes {
			if IsClassRequest(r) || r.IsInline() {
				named := *r
				named.Source = RequestSource(c.ID, g.Name, alias)
				own.Volumes[alias] = &named
			}
		}
		c.TaskGroups[i] = &own
	}
	return c
}

// TopologyText names a topology, "" for none: the segments by their keys, whose case does not matter.
func TopologyText(t *structs.CSITopology) string {
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
