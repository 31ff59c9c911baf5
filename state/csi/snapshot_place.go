package csi

import (
	"slices"

	"berth/structs"
	"berth/structs/storage"
)

// limitToSnapshot limits the topologies that a volume requests to those in which it can be made from a
// snapshot (CSI spec, SNAPSHOT_ACCESSIBILITY_CONSTRAINTS). The scheduler and the plugin then use only those.
// A nil snapshot, and one that is usable everywhere, limit nothing. The error is invalid if no topology is
// left.
func limitToSnapshot(v *structs.CSIVolume, s *storage.VolumeSnapshot) error {
	if s == nil {
		return nil
	}
	return limitPlaces(v, s.AccessibleTopologies, "its snapshot")
}

// limitPlaces limits the topologies that a volume requests to the usable ones; none means everywhere. of
// names what is usable there.
func limitPlaces(v *structs.CSIVolume, usable []*structs.CSITopology, of string) error {
	if len(usable) == 0 {
		return nil
	}

	asked := structs.CSITopologyRequest{}
	if v.RequestedTopologies != nil {
		asked = *v.RequestedTopologies
	}
	left := &structs.CSITopologyRequest{
		Required:  common(asked.Required, usable),
		Preferred: common(asked.Preferred, usable),
	}
	switch {
	case len(asked.Required) == 0:
		left.Required = usable
	case len(left.Required) == 0:
		return structs.Invalidf("volume %q: %s is not usable in any topology that is required; "+
			"require others, or use another source", v.ID, of)
	}
	v.RequestedTopologies = left
	return nil
}

// common returns the topologies that are within one of each list, in the order of the first one.
func common(asked, usable []*structs.CSITopology) (both []*structs.CSITopology) {
	for _, a := range asked {
		for _, u := range usable {
			narrow := a
			switch {
			case u.Matches(a): // a is within u
			case a.Matches(u):
				narrow = u
			default:
				continue
			}
			same := func(t *structs.CSITopology) bool { return t.Matches(narrow) && narrow.Matches(t) }
			if !slices.ContainsFunc(both, same) {
				both = append(both, narrow)
			}
		}
	}
	return both
}
