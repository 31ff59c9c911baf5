package structs

import (
	"fmt"
	"maps"
	"slices"
)

// The values of VolumeRequest.Lifecycle of a volume that lives as long as one allocation.
const (
	LifecycleAlloc  = "alloc"  // the servers create and delete it
	LifecycleInline = "inline" // the plugin makes it when the node publishes it; the servers have no row of it
)

// NeedsClaim reports whether an allocation claims the volume: the servers have a row of it. The request may
// be nil.
func (r *VolumeRequest) NeedsClaim() bool {
	return r != nil && r.Type == VolumeTypeCSI && r.Lifecycle != LifecycleInline
}

// IsInline reports whether the plugin makes the volume for one allocation. The request may be nil.
func (r *VolumeRequest) IsInline() bool {
	return r != nil && r.Type == VolumeTypeCSI && r.Lifecycle == LifecycleInline
}

// ClaimClass is the part of a claim that decides which other claims of the volume exclude it.
type ClaimClass struct {
	AccessMode     CSIAccessMode
	AttachmentMode CSIAttachmentMode
	Mode           string // ClaimRead, ClaimWrite
}

// Class returns the three modes of the claim, by which it is counted and by which others conflict with it.
func (c *CSIClaim) Class() ClaimClass {
	return ClaimClass{c.AccessMode, c.AttachmentMode, c.Mode}
}

// Class returns the class of the claim that the use makes.
func (u *CSIVolumeUse) Class() ClaimClass {
	return ClaimClass{u.AccessMode, u.AttachmentMode, u.Mode}
}

// Class returns the class that is counted.
func (n *CSIClassCount) Class() ClaimClass {
	return ClaimClass{n.AccessMode, n.AttachmentMode, n.Mode}
}

// Conflicts reports whether claims of the two classes exclude each other on one volume. Classes with
// different modes always do. Two claims of one class do in a mode for one allocation. In the mode
// multi-node-single-writer two writers do. In the mode single-node-multi-writer two claims on different nodes
// do, which their classes do not tell: see Bound. It is the only rule for classes: the log grants by it, and
// the scheduler places by it. It is symmetric.
func (k ClaimClass) Conflicts(o ClaimClass) bool {
	switch {
	case k.AccessMode != o.AccessMode,
		k.AttachmentMode != o.AttachmentMode,
		k.AccessMode.SingleUse():
		return true
	case k.AccessMode == CSIMultiNodeSingleWriter:
		return k.Mode == ClaimWrite && o.Mode == ClaimWrite
	}
	return false
}

// Bound reports whether claims of the class are only granted on one node, where several may be.
func (k ClaimClass) Bound() bool {
	return k.AccessMode == CSISingleNodeMultiWriter
}

// String returns the three modes for use in errors.
func (k ClaimClass) String() string {
	return fmt.Sprintf("%q, %q, %q", k.Mode, k.AccessMode, k.AttachmentMode)
}

// Claim returns the claim that an allocation of a group makes for one of its volumes.
func (r *VolumeRequest) Claim(ns string, allocIndex int, allocID string) *CSIClaim {
	c := &CSIClaim{
		Namespace:      ns,
		VolumeID:       r.VolumeID(allocIndex, allocID),
		Mode:           ClaimWrite,
		AccessMode:     r.AccessMode,
		AttachmentMode: r.AttachmentMode,
	}
	if r.ReadOnly {
		c.Mode = ClaimRead
	}
	return c
}

// CSIUses lists the CSI volumes that the allocation with the index and the ID is to claim, by alias. Without
// an ID it leaves out volumes that belong to one allocation: no other one has them.
func (g *TaskGroup) CSIUses(allocIndex int, allocID string) (uses []CSIVolumeUse) {
	if len(g.Volumes) == 0 {
		return nil // without the memory of sorted keys
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[alias]
		if r.NeedsClaim() && (allocID != "" || r.Lifecycle != LifecycleAlloc) {
			c := r.Claim("", allocIndex, allocID)
			uses = append(uses, CSIVolumeUse{
				VolumeID:       c.VolumeID,
				AccessMode:     c.AccessMode,
				AttachmentMode: c.AttachmentMode,
				Mode:           c.Mode,
			})
		}
	}
	return uses
}
