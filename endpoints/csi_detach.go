package endpoints

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// detach makes a node let go of a volume whose allocations there have ended, and releases their claims.
// The node is asked. Force is for a node that can not be asked any more: then a person vouches for it that
// the node does not write, and the allocations are ended, so that they do not write again when the node
// comes back. It also helps where the node is up and its plugin fails for good.
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
	if err := c.nodeLetsGo(ctx, keys, req.NodeID); err != nil {
		if !req.Force || !vouchable(tx, keys, req.NodeID, err) {
			return nil, err
		}
		release.Operator = "forced: " + orElse(req.Reason, "no reason was given")
		c.logger.Warn("an operator forces a volume off a node", "volume", req.VolumeID, "namespace", ns,
			"node", req.NodeID, "reason", req.Reason, "claims", len(keys), "error", err)
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
			"node %s is down and cannot say whether it let go of volume %q; bring it back, or, once it is surely off: %s",
			row.NodeID, row.VolumeID, state.DetachCommand(row.Namespace, row.VolumeID, row.NodeID))
	}
	return nil
}

// vouchable reports whether a person may overrule the node's refusal: of one that is up only while it does
// not say that the allocation runs, and has said itself that it ended. One that was given up for lost may
// run there; the node ends it and says so.
func vouchable(tx *state.Read, keys []structs.CSIClaimKey, nodeID string, refusal error) bool {
	if node := state.Node(tx, nodeID); node == nil || node.Status != structs.NodeReady {
		return true
	}
	if structs.IsKind(refusal, structs.KindConflict) {
		return false
	}
	return !slices.ContainsFunc(keys, func(k structs.CSIClaimKey) bool {
		alloc := state.Alloc(tx, k.AllocID)
		return alloc != nil && alloc.ClientStatus == structs.AllocLost
	})
}

// nodeLetsGo asks the node to unpublish and unstage for each claim.
func (c claims) nodeLetsGo(ctx context.Context, keys []structs.CSIClaimKey, nodeID string) error {
	if node := state.Node(c.store.Read(), nodeID); node == nil || node.Status != structs.NodeReady {
		return structs.Errorf(structs.KindUnavailable, "node %s is down", nodeID)
	}
	var faults []error
	for _, k := range keys {
		if err := DetachFromNode(ctx, c.Nodes, c.config.CallTimeout, k, nodeID); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	kind := structs.KindOf(faults[0])
	if slices.ContainsFunc(faults, func(err error) bool { return structs.IsKind(err, structs.KindConflict) }) {
		kind = structs.KindConflict // some allocation still runs: see vouchable
	}
	return structs.Errorf(kind, "the node did not let go: %w", errors.Join(faults...))
}

// DetachFromNode asks a node to let go of a claim's volume. Without an error nothing of it is left there.
func DetachFromNode(ctx context.Context, nodes NodeCaller, limit time.Duration, k structs.CSIClaimKey, nodeID string) error {
	_, err := CallNode(ctx, nodes, limit, nodeID, structs.ClientCSINodeDetach, &structs.ClientCSINodeDetachRequest{
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
