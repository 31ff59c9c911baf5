package csi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// JobVolumeChanges returns the effects of a plan on the volumes that a job asks for, by ID. before is the
// state without the registration of the job, after the one with it. A job without a
// change has an empty plan.
func JobVolumeChanges(
	before, after mvcc.Reader, j *structs.Job, plan *structs.Plan,
) []*structs.VolumeChange {
	var changes []*structs.VolumeChange
	add := func(v *structs.CSIVolume, change string) {
		changes = append(changes, &structs.VolumeChange{
			ID:     v.ID,
			Class:  v.Class,
			Bytes:  v.RequestedCapacityMin,
			Change: change,
		})
	}

	seen := map[string]bool{} // several allocations may share a volume
	for _, a := range plan.Place {
		for _, v := range NewJobVolumes(after, j, a) {
			if v.AllocID != "" { // the allocation of the plan that is applied has another ID
				v.ID = v.ID[:strings.LastIndexByte(v.ID, '[')] + "[ALLOC]"
				add(v, structs.VolumeCreate)
				continue
			}
			if !seen[v.ID] {
				add(v, structs.VolumeCreate)
			}
			seen[v.ID] = true
		}
	}

	known := schema.Jobs.Has(before, j.Namespace, j.ID)
	requests := jobRequestsOf(j)
	for _, stop := range plan.Stop {
		for v := range VolumesOfJob(before, j.Namespace, j.ID) {
			if v.AllocID != "" && v.AllocID == stop.AllocID {
				add(v, structs.VolumeDelete)
			}
		}
	}
	for v := range ownVolumesOfJob(after, j.Namespace, j.ID) {
		old := Volume(before, v.Namespace, v.ID)
		switch {
		case seen[v.ID]:
		case old == nil:
			add(v, structs.VolumeCreate) // with the job itself
		case !isRequested(requests, v):
			add(v, structs.VolumeKeep)
		case v.RequestedCapacityMin > old.RequestedCapacityMin:
			add(v, structs.VolumeGrow)
		case !known:
			add(v, structs.VolumeAdopt)
		}
	}

	slices.SortFunc(changes, func(a, b *structs.VolumeChange) int { return cmp.Compare(a.ID, b.ID) })
	return changes
}

// isRequested reports whether an allocation of a job uses a volume of it.
func isRequested(requests map[string]jobRequest, v *structs.CSIVolume) bool {
	r, index := jobRequestOf(requests, v)
	return r.VolumeRequest != nil && r.PerAlloc == (index >= 0) && index < r.count
}

// manyAdopted is the number of volumes that a warning names.
const manyAdopted = 3

// JobVolumeWarning returns a warning that a new job gets volumes with the data of an earlier one, "" if it
// gets none.
func JobVolumeWarning(tx mvcc.Reader, j *structs.Job) string {
	requests := jobRequestsOf(j)
	if requests == nil || schema.Jobs.Has(tx, j.Namespace, j.ID) {
		return ""
	}

	var names []string
	for v := range ownVolumesOfJob(tx, j.Namespace, j.ID) {
		if v.ExternalID != "" && isRequested(requests, v) {
			names = append(names, v.ID)
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > manyAdopted {
		more = fmt.Sprintf(" and %d more", len(names)-manyAdopted)
	}
	return fmt.Sprintf("an earlier job with the ID %q has left its data in volume %s%s, "+
		"which the job uses again", j.ID, strings.Join(names[:min(len(names), manyAdopted)], ", "), more)
}
