package csi

import (
	"fmt"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// CloneSource returns the row that the CloneID of a new volume names: a volume of its namespace with that ID,
// or otherwise the one that its plugin knows by it. A source without a row has the external ID alone. It is
// nil for a volume that is no copy.
func CloneSource(tx mvcc.Reader, v *structs.CSIVolume) *structs.CSICloneSource {
	if v.CloneID == "" {
		return nil
	}

	source := Volume(tx, v.Namespace, v.CloneID)
	if source == nil || source.PluginID != v.PluginID || source.ExternalID == "" {
		source = VolumeByExternal(tx, v.PluginID, v.CloneID)
	}
	if source == nil {
		return &structs.CSICloneSource{ExternalID: v.CloneID}
	}
	return &structs.CSICloneSource{
		Namespace:   source.Namespace,
		ID:          source.ID,
		CreateIndex: source.CreateIndex,
		ExternalID:  source.ExternalID,
	}
}

// copyNeeding describes a copy of a volume that its plugin has not finished, "" if there is none. Without the
// source a plugin may reject the repeated call that would find the copy of a call without an answer.
func copyNeeding(tx mvcc.Reader, v *structs.CSIVolume) string {
	for c := range schema.VolumesByCloneSource.Scan(tx, v.Namespace, v.ID) {
		switch {
		case c.CloneSource.CreateIndex != v.CreateIndex:
		case c.Namespace != v.Namespace:
			// The person who deletes the source may not see the rows of other namespaces.
			return fmt.Sprintf("volume %q is being copied to a volume of another namespace; wait for it", v.ID)
		case c.State == structs.VolumeFailed:
			return fmt.Sprintf("plugin %q may have the failed copy %q of volume %q; delete it first: %s",
				c.PluginID, c.ID, v.ID, structs.CommandLine(c.Namespace, "volume delete", c.ID))
		default:
			return fmt.Sprintf("volume %q is being copied to volume %q; wait for it", v.ID, c.ID)
		}
	}
	return ""
}

// SameSource reports whether a source is still the volume that it was when the creation of its copy was
// recorded. Nobody can tell of one without a row.
func SameSource(tx mvcc.Reader, s *structs.CSICloneSource) bool {
	if s.ID == "" {
		return true
	}
	row := Volume(tx, s.Namespace, s.ID)
	return row != nil && row.CreateIndex == s.CreateIndex && row.ExternalID == s.ExternalID
}

// SourceTopologies returns where the source of a copy is, which decides where the copy can be made; nil for a
// volume that is no copy, and for a source that is everywhere or has no row.
func SourceTopologies(tx mvcc.Reader, v *structs.CSIVolume) []*structs.CSITopology {
	source := v.CloneSource
	if source == nil { // v is a request, and no row yet
		source = CloneSource(tx, v)
	}
	if source == nil || source.ID == "" {
		return nil
	}
	row := Volume(tx, source.Namespace, source.ID)
	if row == nil || row.CreateIndex != source.CreateIndex {
		return nil
	}
	return row.Topologies
}

// LimitToSource limits the topologies that a copy requests to its source's. The scheduler and the
// plugin then use only those. The error is invalid if no topology is left. old is the row before, nil for
// none.
func LimitToSource(tx mvcc.Reader, v, old *structs.CSIVolume) error {
	// A creation that is repeated has the first request.
	if old != nil && old.State == structs.VolumeCreating && v.RequestedTopologies == nil {
		return nil
	}
	return limitPlaces(v, SourceTopologies(tx, v), "the volume that it copies")
}
