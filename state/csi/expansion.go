package csi

import (
	"fmt"
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// GrowingClaims yields the claims whose nodes have not yet grown the content of the volume, or could not.
func GrowingClaims(tx mvcc.Reader) iter.Seq[*structs.CSIClaim] {
	return schema.GrowingClaims.Scan(tx)
}

// GrowingClaimsOf yields the claims of one volume that GrowingClaims yields.
func GrowingClaimsOf(tx mvcc.Reader, ns, volume string) iter.Seq[*structs.CSIClaim] {
	return schema.GrowingClaims.Scan(tx, ns, volume)
}

// ExpandBlocked names a user that has to leave before the volume may be expanded at its plugin, and returns
// "" if there is none. Only a plugin that expands volumes offline waits for users (CSI spec, VolumeExpansion
// OFFLINE).
func ExpandBlocked(tx mvcc.Reader, v *structs.CSIVolume) string {
	p := Plugin(tx, v.PluginID)
	if !v.Expands() || p == nil ||
		!p.ExpandsOffline {
		return ""
	}

	text := fmt.Sprintf("plugin %s expands a volume only while no node has it: ", v.PluginID)
	for _, k := range ClassesIn(tx, v, structs.ClaimGranted) {
		for _, c := range someHolders(tx, v, k) {
			return text + DescribeHolder(tx, c)
		}
	}

	// Without a claim an attachment is being detached, and the node has the volume until that is done.
	for a := range AttachmentsByVolume(tx, v.Namespace, v.ID) {
		return text + stillAttached(tx, a)
	}

	return ""
}

// expandsOffline returns why no claim is granted: the plugin expands the volume, and no node may have it
// meanwhile. While a claim holds the volume the plugin is not called, so others may be granted.
func expandsOffline(tx mvcc.Reader, v *structs.CSIVolume, p *structs.CSIPluginRow) string {
	if !v.Expands() || p == nil ||
		!p.ExpandsOffline ||
		ClassesIn(tx, v, structs.ClaimGranted) != nil {
		return ""
	}
	return fmt.Sprintf("volume %s is being expanded%s; plugin %s does that only while no node has the volume",
		v.ID, Failing(v.LastError), v.PluginID)
}

// nodesExpand reports whether only the nodes of the plugin expand volumes: a node half can, and its
// controller cannot, or the plugin has none.
func nodesExpand(tx mvcc.Reader, plugin string) bool {
	p := Plugin(tx, plugin)

	// A controller that was not seen yet may be able to.
	if p == nil || !p.Known ||
		p.ControllerRequired && !p.ControllerSeen {
		return false
	}
	return !controllerExpands(tx, plugin) && NodeExpands(tx, plugin)
}

// Expands reports whether the controller or a node half of the plugin announces that it expands volumes.
func Expands(tx mvcc.Reader, plugin string) bool {
	return controllerExpands(tx, plugin) || NodeExpands(tx, plugin)
}

func controllerExpands(tx mvcc.Reader, plugin string) bool {
	for i := range InstancesByPluginKind(tx, plugin, structs.CSIKindController) {
		if i.ControllerInfo != nil && i.ControllerInfo.SupportsExpand {
			return true
		}
	}
	return false
}

// SelfGrowing yields the volumes that grow by themselves and are ready for that: none whose last growth, or
// another change of its size, is not done.
func SelfGrowing(tx mvcc.Reader) iter.Seq[*structs.CSIVolume] {
	return func(yield func(*structs.CSIVolume) bool) {
		for v := range schema.Volumes.Scan(tx) {
			if v.Grow == nil || v.State != structs.VolumeReady || v.Unsettled() || v.NodeExpandBytes != 0 {
				continue
			}
			if !yield(v) {
				return
			}
		}
	}
}

// NodeExpands reports whether a node half of the plugin announces that it expands volumes.
func NodeExpands(tx mvcc.Reader, plugin string) bool {
	for i := range InstancesByPluginKind(tx, plugin, structs.CSIKindNode) {
		if i.NodeReport().SupportsExpand {
			return true
		}
	}
	return false
}
