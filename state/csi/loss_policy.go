package csi

import (
	"berth/internal/mvcc"
	"berth/structs"
)

// LossPolicy returns who releases a volume whose node is lost: by its own rule, or else by its plugin's.
func LossPolicy(tx mvcc.Reader, v *structs.CSIVolume) string {
	if v.OnNodeLoss != "" {
		return v.OnNodeLoss
	}
	return PluginConfig(tx, v.PluginID).OnNodeLoss
}

// EndsWithLease returns the claims of a lost node that the end of its lease releases: the policy of the
// volume is LossLease, and the node ends the tasks of the claim by itself. A node that has not reported its
// volumes since a restore may have others than its claims tell, so it has none.
func EndsWithLease(tx mvcc.Reader, n *structs.Node) (keys []structs.CSIClaimKey) {
	if n.Unaccounted {
		return nil
	}
	for c := range ClaimsByNode(tx, n.ID) {
		// A claim that waits gives its node no access, so there is nothing to release.
		if c.State == structs.ClaimGranted && followsLease(tx, c) {
			keys = append(keys, c.Key())
		}
	}
	return keys
}

// followsLease reports whether the end of its node's lease releases a claim.
func followsLease(tx mvcc.Reader, c *structs.CSIClaim) bool {
	// A node that does not guard the claim may let the tasks write after the end of its lease.
	v := Volume(tx, c.Namespace, c.VolumeID)
	return c.Guarded && v != nil && LossPolicy(tx, v) == structs.LossLease
}
