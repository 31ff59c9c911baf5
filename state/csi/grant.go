package csi

import (
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// grant grants every claim of the volume that is next in the queue.
func grant(tx *mvcc.WriteTx, ns, volume string, now int64) {
	for c := range grantable(tx, ns, volume) {
		granted := c.Copy()
		granted.State = structs.ClaimGranted
		granted.GrantIndex = tx.Index
		granted.GrantTime = now

		// A step of an expansion that nodes have still to do is this node's, too: see expandOnNodes.
		granted.ExpandBytes = Volume(tx, ns, volume).NodeExpandBytes
		StoreClaim(tx, granted)
		attachFor(tx, granted, now)
	}
}

// grantPlugin grants the claims that waited for a change of the plugin.
func grantPlugin(tx *mvcc.WriteTx, plugin string, now int64) {
	var keys []VolumeKey

	// They are collected first, because a grant takes its claim out of the index. The claims of a volume
	// follow each other in it.
	for c := range schema.WaitingByPlugin.Scan(tx, plugin) {
		keys = append(keys, VolumeKey{Namespace: c.Namespace, VolumeID: c.VolumeID})
	}
	for _, k := range slices.Compact(keys) {
		grant(tx, k.Namespace, k.VolumeID, now)
	}
}

// grantOnNode grants the claims that waited for the plugin's half on one node.
func grantOnNode(tx *mvcc.WriteTx, plugin, node string, now int64) {
	for c := range ClaimsByNode(tx, node) {
		switch {
		case c.PluginID != plugin:
		case c.State == structs.ClaimWaiting:
			grant(tx, c.Namespace, c.VolumeID, now)
		default:
			attachFor(tx, c, now)
		}
	}
}
