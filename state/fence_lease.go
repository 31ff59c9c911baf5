package state

import (
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// This file has the rule for the loss of a node that has a volume, and the proof of the end of a lease.

// LeaseProof records that a node has ended the tasks of its guarded claims, because its lease has ended on
// its own clock, and releases these claims. It changes nothing if there is none, so the entry may be
// repeated.
func LeaseProof(tx *WriteTx, p *cluster.LeaseProofRequest) error {
	n, err := findLost(tx, p.NodeID, 0)
	if err != nil {
		return err
	}

	if n.Epoch != p.Epoch {
		return structs.Conflictf("node %s is lost in epoch %d, not %d", n.ID, n.Epoch, p.Epoch)
	}

	keys := csi.EndsWithLease(tx, n)
	if len(keys) == 0 {
		return nil
	}

	run := &cluster.FenceRun{
		NodeID: n.ID,
		Number: lastFence(tx, n.ID) + 1,
		Epoch:  n.Epoch,
		Kind:   cluster.FenceByLease,
		State:  cluster.FenceProved,
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
