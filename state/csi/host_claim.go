package csi

import (
	"iter"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// HostClaim returns the claim of a group on a dynamic host volume (see package structs/storage), nil if there
// is none. Claims are made and taken over in the entries that place allocations. They go with their job, with
// their volume, and by the order of an operator.
func HostClaim(tx mvcc.Reader, ns, id string) *storage.TaskGroupHostVolumeClaim {
	return schema.HostClaims.Get(tx, ns, id)
}

// HostClaimsFrom yields the claims of a namespace whose ID begins with prefix, from a namespace and ID on.
func HostClaimsFrom(
	tx *mvcc.ReadTx, ns, prefix string, at mvcc.Page,
) iter.Seq[*storage.TaskGroupHostVolumeClaim] {
	rows := schema.HostClaims.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(c *storage.TaskGroupHostVolumeClaim) bool {
		return strings.HasPrefix(c.ID, prefix)
	})
}

// HostClaimUse names the volumes of a name that a group of a job uses.
type HostClaimUse struct{ Namespace, JobID, Group, VolumeName string }

// HostClaimsOfGroup yields the claims of a group on the volumes of a name, by ID.
func HostClaimsOfGroup(tx mvcc.Reader, o HostClaimUse) iter.Seq[*storage.TaskGroupHostVolumeClaim] {
	return schema.HostClaimsByGroup.Scan(tx, o.Namespace, o.JobID, o.Group, o.VolumeName)
}

// hasHostClaims reports whether a job has a claim.
func hasHostClaims(tx mvcc.Reader, ns, jobID string) bool {
	return schema.HostClaimsByGroup.Has(tx, ns, jobID)
}

// HostClaimsFull reports whether a volume has its most claims.
func HostClaimsFull(tx mvcc.Reader, ns, volumeID string) bool {
	n := 0
	for range schema.HostClaimsByVolume.Scan(tx, ns, volumeID) {
		n++
	}
	return n >= storage.MaxHostVolumeClaims
}

// HostClaimsFullText is the reason for which a volume takes no further claim.
const HostClaimsFullText = "it has the most sticky claims that a volume may have; " +
	"delete those that nobody needs: berth volume claim delete"

// HostClaimHolder returns the live allocation that has a claim, nil if there is none. stopped has the
// allocations that a plan stops.
func HostClaimHolder(
	tx mvcc.Reader, c *storage.TaskGroupHostVolumeClaim, stopped map[string]bool,
) *structs.Allocation {
	a := schema.Allocs.Get(tx, c.AllocID)
	if a == nil || a.Terminal() || stopped[a.ID] {
		return nil
	}
	return a
}

// HostClaimRejection returns why an allocation cannot have the dynamic host volumes that its plan gives it,
// "" if it can. The state may have changed since the plan. stopped has the allocations that the plan stops.
func HostClaimRejection(
	tx mvcc.Reader, g *structs.TaskGroup, a *structs.Allocation, stopped map[string]bool,
) string {
	for _, u := range a.CSIVolumes {
		if u.Alias == "" {
			continue
		}
		r := g.Volumes[u.Alias]
		v := schema.Volumes.Get(tx, a.Namespace, u.VolumeID)
		switch {
		case r == nil || r.Type != structs.VolumeTypeHost || r.Sticky != (u.Claim != ""):
			return "the group has no such request for host volume " + u.VolumeID
		case v == nil || v.Host == nil || v.Host.NodeID != a.NodeID ||
			v.Host.Name != storage.HostVolumeName(r, a.Index()):
			return "it has no host volume " + u.VolumeID + " any more"
		}
		why := hostClaimUseRejection(tx, a, u, stopped)
		if why != "" {
			return "host volume " + u.VolumeID + ": " + why
		}
	}
	return ""
}

// hostClaimUseRejection returns why an allocation cannot have the claim of a use.
func hostClaimUseRejection(
	tx mvcc.Reader, a *structs.Allocation, u structs.CSIVolumeUse, stopped map[string]bool,
) string {
	if u.Claim == "" {
		return ""
	}
	c := HostClaim(tx, a.Namespace, u.Claim)
	switch {
	case c == nil && HostClaimsFull(tx, a.Namespace, u.VolumeID):
		return HostClaimsFullText
	case c == nil:
		return ""
	case c.JobID != a.JobID || c.TaskGroupName != a.TaskGroup || c.VolumeID != u.VolumeID:
		return "claim " + c.ID + " is that of another volume or group"
	}
	holder := HostClaimHolder(tx, c, stopped)
	if holder != nil && holder.ID != a.ID {
		return "allocation " + structs.ShortID(holder.ID) + " has its claim"
	}
	return ""
}

// TakeHostClaims gives a new allocation the claims of its uses, and makes missing ones.
func TakeHostClaims(tx *mvcc.WriteTx, a *structs.Allocation) {
	for _, u := range a.CSIVolumes {
		if u.Claim == "" {
			continue
		}

		own := &storage.TaskGroupHostVolumeClaim{
			ID:            u.Claim,
			Namespace:     a.Namespace,
			JobID:         a.JobID,
			TaskGroupName: a.TaskGroup,
			VolumeID:      u.VolumeID,
			VolumeName:    schema.Volumes.Get(tx, a.Namespace, u.VolumeID).Host.Name,
		}
		c := HostClaim(tx, a.Namespace, u.Claim)
		if c != nil {
			*own = *c
		}
		own.AllocID = a.ID
		schema.HostClaims.Put(tx, own)
	}
}

// DropHostClaimsOfJob deletes the claims of a job whose row was deleted.
func DropHostClaimsOfJob(tx *mvcc.WriteTx, j *structs.Job) {
	deleteHostClaims(tx, schema.HostClaimsByGroup.Scan(tx, j.Namespace, j.ID))
}

// DropHostClaimsOfVolume deletes the claims on a volume whose row was deleted.
func DropHostClaimsOfVolume(tx *mvcc.WriteTx, v *structs.CSIVolume) {
	deleteHostClaims(tx, schema.HostClaimsByVolume.Scan(tx, v.Namespace, v.ID))
}

// deleteHostClaims deletes claims. Allocations that wait for their volumes may choose others.
func deleteHostClaims(tx *mvcc.WriteTx, claims iter.Seq[*storage.TaskGroupHostVolumeClaim]) {
	for _, c := range slices.Collect(claims) {
		schema.HostClaims.Delete(tx, c)
		unblock.Key(tx, structs.WakeHostVolume(c.Namespace, c.VolumeName))
	}
}

// HostVolumeClaimDelete deletes a claim by the order of an operator. The error is not-found.
func HostVolumeClaimDelete(tx *mvcc.WriteTx, p *storage.ClaimDeleteRequest) error {
	c := HostClaim(tx, p.RequestNamespace(), p.ClaimID)
	if c == nil {
		return structs.NotFoundf("no claim of a sticky host volume %q in namespace %q",
			structs.Cut(p.ClaimID, structs.MaxQuoted), p.RequestNamespace())
	}
	deleteHostClaims(tx, func(yield func(*storage.TaskGroupHostVolumeClaim) bool) { yield(c) })
	return nil
}
