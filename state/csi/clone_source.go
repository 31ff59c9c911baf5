package csi

import (
	"berth/internal/mvcc"
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

// SameSource reports whether a source is still the volume that it was when the creation of its copy was
// recorded. Nobody can tell of one without a row.
func SameSource(tx mvcc.Reader, s *structs.CSICloneSource) bool {
	if s.ID == "" {
		return true
	}
	row := Volume(tx, s.Namespace, s.ID)
	return row != nil && row.CreateIndex == s.CreateIndex && row.ExternalID == s.ExternalID
}
