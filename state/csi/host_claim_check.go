package csi

import (
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// CheckHostClaims checks the claims: each has its job and a host volume of its name, no volume has too many,
// and no claim serves two live allocations.
func CheckHostClaims(c *schema.Report) {
	schema.CheckIndexes(c, schema.HostClaims)
	for row := range schema.HostClaims.Scan(c) {
		v := schema.Volumes.Get(c, row.Namespace, row.VolumeID)
		name := "sticky claim " + row.ID
		c.Want(row.ID != "" && row.AllocID != "", "%s has no ID or no allocation", name)
		c.Want(schema.Jobs.Has(c, row.Namespace, row.JobID), "%s: its job %s is gone", name, row.JobID)
		c.Want(v != nil && v.Host != nil && v.Host.Name == row.VolumeName,
			"%s: there is no host volume %s with the name %q", name, row.VolumeID, row.VolumeName)
		checkHostVolume(c, row)
		a := schema.Allocs.Get(c, row.AllocID)
		c.Want(a == nil || a.Terminal() || usesHostClaim(a, row),
			"%s: allocation %s does not use it", name, row.AllocID)
	}

	for a := range schema.Allocs.Scan(c) {
		for _, u := range a.CSIVolumes {
			row := HostClaim(c, a.Namespace, u.Claim)
			if row != nil && !a.Terminal() {
				c.Want(row.AllocID == a.ID,
					"allocation %s uses sticky claim %s, which allocation %s has", a.ID, u.Claim, row.AllocID)
			}
		}
	}
}

// checkHostVolume checks the number of the claims of a volume, at the first of them.
func checkHostVolume(c *schema.Report, row *storage.TaskGroupHostVolumeClaim) {
	n := 0
	for other := range schema.HostClaimsByVolume.Scan(c, row.Namespace, row.VolumeID) {
		if n == 0 && other.ID != row.ID {
			return
		}
		n++
	}
	c.Want(n <= storage.MaxHostVolumeClaims, "host volume %s has %d sticky claims", row.VolumeID, n)
}

// usesHostClaim reports whether an allocation uses a claim.
func usesHostClaim(a *structs.Allocation, row *storage.TaskGroupHostVolumeClaim) bool {
	for _, u := range a.CSIVolumes {
		if u.Claim == row.ID && u.VolumeID == row.VolumeID {
			return true
		}
	}
	return false
}
