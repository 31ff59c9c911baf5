package state

import (
	"fmt"

	"berth/structs"
)

// CanaryConflict returns why canaries of a new version of a job could never get their volumes, "" if they
// can: a running allocation of the job, which stays until the canaries are promoted, uses one in another
// mode.
func CanaryConflict(tx Reader, j *structs.Job) string {
	wanted := canaryUses(j)
	if len(wanted) == 0 {
		return ""
	}
	for a := range allocsByJob.Scan(tx, j.Namespace, j.ID, liveRow) {
		for i := range a.CSIVolumes {
			used := &a.CSIVolumes[i]
			for _, c := range wanted[used.VolumeID] {
				if c.class.Conflicts(used.Class()) {
					return fmt.Sprintf("group %q: canary: volume %q is used by allocation %s of the running version "+
						"(%s), which excludes canaries (%s) until they are promoted; leave canary out of this version",
						c.group, used.VolumeID, structs.ShortID(a.ID), used.Class(), c.class)
				}
			}
		}
	}
	return ""
}

// canaryUse is the use of a volume by the canaries of a group.
type canaryUse struct {
	group string
	class structs.ClaimClass
}

// canaryUses returns the uses of volumes by the canaries of a job, by volume.
func canaryUses(j *structs.Job) map[string][]canaryUse {
	wanted := map[string][]canaryUse{}
	for _, g := range j.TaskGroups {
		if g.Update == nil || g.Update.Canary == 0 {
			continue
		}
		for index := range max(g.Count, g.Update.Canary) {
			for _, u := range g.CSIUses(index) {
				wanted[u.VolumeID] = append(wanted[u.VolumeID], canaryUse{g.Name, u.Class()})
			}
			if !g.HasPerAlloc() {
				break
			}
		}
	}
	return wanted
}
