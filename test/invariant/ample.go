package invariant

import (
	"fmt"
	"slices"

	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// UpdatesNeedNoOthers finds active deployments whose job waits for capacity although nobody else has anything
// that it needs: such an update waits for the allocations of its own group, for ever. It holds on a fleet
// with capacity for everything.
func UpdatesNeedNoOthers(v *View) (faults []string) {
	for _, j := range v.counted() {
		d := v.Deployments[keyOf(j)]
		if d == nil || !d.Active() {
			continue
		}
		for _, e := range v.Open[keyOf(j)] {
			for name := range e.FailedTGAllocs {
				g := j.Group(name)
				if e.Status == structs.EvalBlocked && g != nil && !v.othersHold(j, g) {
					faults = append(faults, fmt.Sprintf("job %s, version %d, group %s: %s (%s)",
						j.ID, j.Version, name, d.Status, d.StatusDescription))
				}
			}
		}
	}
	return faults
}

// othersHold reports whether others may have what a group needs: a volume, a port, a device. Others are
// those of other jobs and of other groups. Older allocations of the group may have a volume in a mode that
// excludes the newest version. A volume may be missing, too. A constraint that counts allocations may leave
// no place for a canary. A group whose allocations exclude each other from a node may have more of them than
// there are nodes.
func (v *View) othersHold(j *structs.Job, g *structs.TaskGroup) bool {
	for _, c := range slices.Concat(j.Constraints, g.Constraints) {
		if c.Operand == structs.ConstraintDistinctHosts || c.Operand == structs.ConstraintDistinctProperty {
			return true
		}
	}
	if (storage.HostVolumeConflict(g, g) != "" || sharePort(g, g)) && !v.hasOlder(j, g) {
		return true
	}
	for _, t := range g.Tasks {
		if len(t.Resources.Devices) > 0 {
			return true
		}
	}
	for index := range g.Count {
		for _, u := range g.CSIUses(index, "") {
			// One that keeps its allocations on one node may need more than that node has.
			if csi.Volume(v.Tx, j.Namespace, u.VolumeID) == nil || u.AccessMode == structs.CSISingleNodeMultiWriter {
				return true
			}
		}
	}
	for _, a := range v.Allocs {
		other := v.groupOf(a)
		own := a.JobID == j.ID && a.Namespace == j.Namespace
		switch {
		case a.ClientTerminal() || other == nil:
		case own && a.TaskGroup == g.Name:
			if a.JobVersion != j.Version && excludesFromVolume(a, g) {
				return true
			}
		case shareVolume(g, other) || sharePort(g, other):
			return true
		}
	}
	return false
}

// hasOlder reports whether an allocation of an older version of a group has not ended.
func (v *View) hasOlder(j *structs.Job, g *structs.TaskGroup) bool {
	for _, a := range v.Allocs {
		ofGroup := a.JobID == j.ID && a.Namespace == j.Namespace && a.TaskGroup == g.Name
		if ofGroup && a.JobVersion != j.Version && !a.ClientTerminal() {
			return true
		}
	}
	return false
}

// excludesFromVolume reports whether an allocation has a CSI volume in a mode that excludes others of a
// group.
func excludesFromVolume(a *structs.Allocation, g *structs.TaskGroup) bool {
	for index := range g.Count {
		for _, u := range g.CSIUses(index, "") {
			excludes := func(has structs.CSIVolumeUse) bool {
				return index != a.Index() && has.VolumeID == u.VolumeID && has.Class().Conflicts(u.Class())
			}
			if slices.ContainsFunc(a.CSIVolumes, excludes) {
				return true
			}
		}
	}
	return false
}

// shareVolume reports whether two groups use a volume of one name.
func shareVolume(a, b *structs.TaskGroup) bool {
	for _, r := range a.Volumes {
		for _, o := range b.Volumes {
			if r.Type == o.Type && r.Source == o.Source {
				return true
			}
		}
	}
	return false
}

// sharePort reports whether two groups demand a port of one number.
func sharePort(a, b *structs.TaskGroup) bool {
	for _, p := range a.PortDemands() {
		same := func(o structs.Port) bool { return o.Value == p.Value }
		if p.Value != 0 && slices.ContainsFunc(b.PortDemands(), same) {
			return true
		}
	}
	return false
}
