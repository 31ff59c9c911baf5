package state

import (
	"fmt"

	"berth/state/schema"
	"berth/structs"
)

// CanaryConflict returns why canaries of groups in a new version of a job could never get their volumes, ""
// if they could: allocations of the job that run use volumes in ways that exclude them, and these wait for
// the promotion of the canaries.
func CanaryConflict(tx Reader, j *structs.Job, groups []*structs.TaskGroup) string {
	wanted := NewCanaryUses(groups)
	if len(wanted) == 0 {
		return ""
	}

	for a := range schema.AllocsByJob.Scan(tx, j.Namespace, j.ID, schema.LiveRow) {
		for i := range a.CSIVolumes {
			used := &a.CSIVolumes[i]
			c := wanted.excludedBy(used)
			if c == nil {
				continue
			}

			return fmt.Sprintf("group %q: canary: volume %q is used by allocation %s of the running version "+
				"(%s), which excludes canaries (%s) until they are promoted; leave canary out of this version",
				c.group, used.VolumeID, structs.ShortID(a.ID), used.Class(), c.class)
		}
	}

	return ""
}

// CanaryUses are the uses of volumes by canaries, by volume.
type CanaryUses map[string][]canaryUse

// canaryUse is the use of a volume by the canaries of a group.
type canaryUse struct {
	group string
	class structs.ClaimClass
}

// NewCanaryUses returns the uses of volumes by the canaries of groups.
func NewCanaryUses(groups []*structs.TaskGroup) CanaryUses {
	wanted := CanaryUses{}
	for _, g := range groups {
		if g.Update == nil || g.Update.Canary == 0 {
			continue
		}
		for index := range max(g.Count, g.Update.Canary) {
			for _, u := range g.CSIUses(index, "") {
				wanted[u.VolumeID] = append(wanted[u.VolumeID], canaryUse{g.Name, u.Class()})
			}

			// Only volumes with per_alloc depend on the index.
			if !g.HasPerAlloc() {
				break
			}
		}
	}
	return wanted
}

// ExcludedBy reports whether one of the uses of an allocation excludes a canary.
func (w CanaryUses) ExcludedBy(uses []structs.CSIVolumeUse) bool {
	for i := range uses {
		if w.excludedBy(&uses[i]) != nil {
			return true
		}
	}
	return false
}

// excludedBy returns a use by a canary that excludes another use of the volume, nil if there is none.
func (w CanaryUses) excludedBy(used *structs.CSIVolumeUse) *canaryUse {
	for i := range w[used.VolumeID] {
		c := &w[used.VolumeID][i]
		if c.class.Conflicts(used.Class()) {
			return c
		}
	}
	return nil
}
