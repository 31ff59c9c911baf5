package structs

import (
	"maps"
	"slices"
)

// Conflicts reports whether two claims of one volume exclude each other: claims in different modes always
// do, claims in a single-node mode too, and in multi-node-single-writer mode two writers.
func (c *CSIClaim) Conflicts(o *CSIClaim) bool {
	switch {
	case c.AccessMode != o.AccessMode || c.AttachmentMode != o.AttachmentMode, c.AccessMode.SingleNode():
		return true
	case c.AccessMode == CSIMultiNodeSingleWriter:
		return c.Mode == ClaimWrite && o.Mode == ClaimWrite
	}
	return false
}

// Claim is the claim that an allocation of a group makes for one of its volumes.
func (r *VolumeRequest) Claim(ns string, allocIndex int) *CSIClaim {
	c := &CSIClaim{Namespace: ns, VolumeID: r.VolumeID(allocIndex), Mode: ClaimWrite,
		AccessMode: r.AccessMode, AttachmentMode: r.AttachmentMode}
	if r.ReadOnly {
		c.Mode = ClaimRead
	}
	return c
}

// CSIUses lists the CSI volumes that the allocation with the index is to claim, by alias.
func (g *TaskGroup) CSIUses(allocIndex int) (uses []CSIVolumeUse) {
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		if r := g.Volumes[alias]; r != nil && r.Type == VolumeTypeCSI {
			c := r.Claim("", allocIndex)
			uses = append(uses, CSIVolumeUse{c.VolumeID, c.AccessMode, c.AttachmentMode, c.Mode})
		}
	}
	return uses
}
