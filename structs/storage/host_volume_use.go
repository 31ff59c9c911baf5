package storage

import (
	"cmp"
	"maps"
	"slices"

	"berth/structs"
)

// HostVolumeName returns the name of the host volume that a request means for the allocation with an index.
func HostVolumeName(r *structs.VolumeRequest, index int) string { return r.VolumeID(index, "") }

// TakesStaticHostVolume reports whether a host volume of a node's configuration can serve a request. Such
// volumes are directories that all allocations of the node share, so no allocation has one of its own.
func TakesStaticHostVolume(r *structs.VolumeRequest) bool {
	return !r.PerAlloc && !r.Sticky && r.AttachmentMode != structs.CSIBlockDevice
}

// A request of a group with type = "host" names a volume by its name. The plan chooses the node, and with it
// the volume, and the allocation records it as a structs.CSIVolumeUse with an Alias. From there on the
// request is one for the CSI volume with that ID. A request with sticky binds the allocations of its group to
// the volumes that they had, by a TaskGroupHostVolumeClaim.

// HostRequestOf returns a request for a host volume as one for the CSI volume with an ID.
func HostRequestOf(r *structs.VolumeRequest, volumeID string) *structs.VolumeRequest {
	own := *r
	own.Type = structs.VolumeTypeCSI
	own.Source = volumeID
	own.PerAlloc = false
	own.Sticky = false
	own.AccessMode = cmp.Or(r.AccessMode, structs.CSISingleNodeWriter)
	own.AttachmentMode = cmp.Or(r.AttachmentMode, structs.CSIFileSystem)
	return &own
}

// HostVolumeUse returns the use of a dynamic host volume by the request with an alias. claim is the ID of its
// TaskGroupHostVolumeClaim, "" for none.
func HostVolumeUse(alias string, r *structs.VolumeRequest, volumeID, claim string) structs.CSIVolumeUse {
	c := HostRequestOf(r, volumeID).Claim("", 0, "")
	return structs.CSIVolumeUse{
		VolumeID:       volumeID,
		AccessMode:     c.AccessMode,
		AttachmentMode: c.AttachmentMode,
		Mode:           c.Mode,
		Alias:          alias,
		Claim:          claim,
	}
}

// HostVolumeUses returns the uses of dynamic host volumes among the uses of an allocation, as far as its
// group still has their requests.
func HostVolumeUses(g *structs.TaskGroup, all []structs.CSIVolumeUse) (own []structs.CSIVolumeUse) {
	for _, u := range all {
		if hostRequestOf(g, u) != nil {
			own = append(own, u)
		}
	}
	return own
}

// hostRequestOf returns the request for a dynamic host volume that a use serves, nil for a use of another
// volume.
func hostRequestOf(g *structs.TaskGroup, u structs.CSIVolumeUse) *structs.VolumeRequest {
	r := g.Volumes[u.Alias]
	if u.Alias == "" || r == nil || r.Type != structs.VolumeTypeHost {
		return nil
	}
	return r
}

// GroupWithHostVolumes returns a group as an allocation with some uses of volumes has it: a request that a
// dynamic host volume serves is one for that CSI volume. The group is unchanged, and may be nil.
func GroupWithHostVolumes(g *structs.TaskGroup, uses []structs.CSIVolumeUse) *structs.TaskGroup {
	serves := func(u structs.CSIVolumeUse) bool { return hostRequestOf(g, u) != nil }
	if g == nil || !slices.ContainsFunc(uses, serves) {
		return g
	}

	own := *g
	own.Volumes = maps.Clone(g.Volumes)
	for _, u := range uses {
		r := hostRequestOf(g, u)
		if r != nil {
			own.Volumes[u.Alias] = HostRequestOf(r, u.VolumeID)
		}
	}
	return &own
}

// GroupOfAlloc returns the group of an allocation in its version of the job, in the form of
// GroupWithHostVolumes. It is nil if the job is nil or has no such group.
func GroupOfAlloc(j *structs.Job, a *structs.Allocation) *structs.TaskGroup {
	if j == nil {
		return nil
	}
	return GroupWithHostVolumes(j.Group(a.TaskGroup), a.CSIVolumes)
}

// ResolveHostVolumes gives an allocation a copy of its job in which its group has the form of
// GroupWithHostVolumes.
func ResolveHostVolumes(a *structs.Allocation) {
	if a.Job == nil {
		return
	}
	g := a.Job.Group(a.TaskGroup)
	own := GroupWithHostVolumes(g, a.CSIVolumes)
	if own == g {
		return
	}
	a.Job = a.Job.Copy()
	at := slices.Index(a.Job.TaskGroups, g)
	a.Job.TaskGroups[at] = own
}

// HostVolumesDiffer reports whether two allocations of a group ask for different volumes: by per_alloc or
// sticky.
func HostVolumesDiffer(g *structs.TaskGroup) bool {
	sticky := func(r *structs.VolumeRequest) bool { return r.Sticky }
	return g.HasPerAlloc() || slices.ContainsFunc(g.HostVolumes(), sticky)
}

// HostVolumeConflict returns the name of a host volume that an allocation of one group and one of the other
// cannot both have on one node, "" if there is none: both write it, and one of them allows no other writer.
func HostVolumeConflict(a, b *structs.TaskGroup) string {
	if a == nil || b == nil {
		return ""
	}
	ours := a.HostVolumes()
	if len(ours) == 0 {
		return ""
	}
	theirs := b.HostVolumes()
	for _, r := range ours {
		if slices.ContainsFunc(theirs, r.Excludes) {
			return r.Source
		}
	}
	return ""
}
