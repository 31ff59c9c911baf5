package endpoints

import (
	"context"
	"errors"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// detach makes a node let go of a volume whose allocations there have ended, and releases their claims.
// The node is asked; Force is for a node that can not be asked any more, and then a person vouches for it
// that the node does not write.
func (c claims) detach(ctx context.Context, req *structs.CSIVolumeDetachRequest) (*structs.Empty, error) {
	ns, tx := req.RequestNamespace(), c.store.Read()
	if state.Volume(tx, ns, req.VolumeID) == nil {
		return nil, noVolume(ns, req.VolumeID)
	}
	var keys []structs.CSIClaimKey
	for _, row := range state.ClaimsByVolume(tx, ns, req.VolumeID) {
		if row.NodeID != req.NodeID {
			continue
		}
		if err := detachable(tx, row, req.Force); err != nil {
			return nil, err
		}
		keys = append(keys, row.Key())
	}
	if len(keys) == 0 {
		return done(c.store.Index(), nil) // nothing there holds it: done
	}
	release := &structs.CSIVolumeUnpublishRequest{Claims: keys, NodeID: req.NodeID, WriteOptions: req.WriteOptions}
	if req.Force {
		release.Operator = "forced: " + orElse(req.Reason, "no reason was given")
		c.logger.Warn("an operator forces a volume off a node", "volume", req.VolumeID, "namespace", ns,
			"node", req.NodeID, "reason", req.Reason, "claims", len(keys))
	} else if err := c.nodeLetsGo(ctx, keys, req.NodeID); err != nil {
		return nil, err
	}
	return done(fsm.Propose(ctx, c.raft, fsm.VolumeUnpublish, release))
}

// detachable refuses while the allocation may still use the volume. That of a node which is down may, too:
// only Force takes it to have ended.
func detachable(tx *state.Read, row *structs.CSIClaim, force bool) error {
	alloc, node := state.Alloc(tx, row.AllocID), state.Node(tx, row.NodeID)
	up := node != nil && node.Status == structs.NodeReady
	switch {
	case alloc != nil && !alloc.ClientTerminal() && up:
		return structs.Errorf(structs.KindPrecondition,
			"allocation %s (job %q) still uses volume %q on node %s; stop it first: berth alloc stop %s",
			alloc.ID, alloc.JobID, row.VolumeID, row.NodeID, structs.ShortID(alloc.ID))
	case !up && !force:
		return structs.Errorf(structs.KindUnavailable,
			"node %s is down and cannot say whether it let go of volume %q; bring it back, or, once it is surely off: berth volume detach -force %s %s",
			row.NodeID, row.VolumeID, row.VolumeID, row.NodeID)
	}
	return nil
}

// nodeLetsGo asks the node to unpublish and unstage for each claim.
func (c claims) nodeLetsGo(ctx context.Context, keys []structs.CSIClaimKey, nodeID string) error {
	var faults []error
	for _, k := range keys {
		if err := DetachFromNode(ctx, c.Nodes, c.config.CallTimeout, k, nodeID); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return structs.Errorf(structs.KindOf(faults[0]), "the node did not let go: %w", errors.Join(faults...))
}

// DetachFromNode asks a node to let go of a claim's volume. Without an error nothing of it is left there.
func DetachFromNode(ctx context.Context, nodes NodeCaller, limit time.Duration, k structs.CSIClaimKey, nodeID string) error {
	_, err := callNode(ctx, nodes, limit, nodeID, structs.ClientCSINodeDetach, &structs.ClientCSINodeDetachRequest{
		VolumeID: k.VolumeID, VolumeNamespace: k.Namespace, AllocID: k.AllocID,
	})
	return err
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
