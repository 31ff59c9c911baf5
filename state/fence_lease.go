package state

import "berth/structs"

// This file has the rule for the loss of a node that has a volume, and the proof of the end of a lease.

// LossPolicy returns who releases a volume whose node is lost: by its own rule, or else by its plugin's.
func LossPolicy(tx Reader, v *structs.CSIVolume) string {
	if v.OnNodeLoss != "" {
		return v.OnNodeLoss
	}
	return PluginConfig(tx, v.PluginID).OnNodeLoss
}

// EndsWithLease returns the claims of a lost node that the end of its lease releases: the policy of the
// volume is LossLease, and the node ends the tasks of the claim by itself. A node that has not reported its
// volumes since a restore may have others than its claims tell, so it has none.
func EndsWithLease(tx Reader, n *structs.Node) (keys []structs.CSIClaimKey) {
	if n.Unaccounted {
		return nil
	}
	for c := range ClaimsByNode(tx, n.ID) {
		if c.State == structs.ClaimGranted && followsLease(tx, c) {
			keys = append(keys, c.Key())
		}
	}
	return keys
}

// followsLease reports whether the end of its node's lease releases a claim.
func followsLease(tx Reader, c *structs.CSIClaim) bool {
	v := Volume(tx, c.Namespace, c.VolumeID)
	return c.Guarded && v != nil && LossPolicy(tx, v) == structs.LossLease
}

// LeaseProof records that a node has ended the tasks of its guarded claims, because its lease has ended on
// its own clock, and releases these claims. It changes nothing if there is none, so the entry may be
// repeated.
func LeaseProof(tx *WriteTx, p *structs.LeaseProofRequest) error {
	n, err := findLost(tx, p.NodeID, 0)
	if err != nil {
		return err
	}
	if n.Epoch != p.Epoch {
		return structs.Conflictf("node %s is lost in epoch %d, not %d", n.ID, n.Epoch, p.Epoch)
	}
	keys := EndsWithLease(tx, n)
	if len(keys) == 0 {
		return nil
	}

	run := &structs.FenceRun{
		NodeID: n.ID,
		Number: lastFence(tx, n.ID) + 1,
		Epoch:  n.Epoch,
		Kind:   structs.FenceByLease,
		State:  structs.FenceProved,
		Begun:  p.Now,
		Ended:  p.Now,
	}
	err = releaseLost(tx, run, keys, structs.CSIVolumeForceRequest{
		What:         "claims released; the lease of the node has ended, and its guard ends the tasks then",
		By:           "the servers",
		Reason:       "on_node_loss is " + structs.LossLease,
		WriteOptions: structs.WriteOptions{Now: p.Now},
	})
	if err != nil {
		return err
	}
	endRun(tx, run)
	return nil
}
