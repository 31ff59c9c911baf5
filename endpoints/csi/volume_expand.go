package csi

import (
	"context"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/validate/report"
)

// NodeExpanded records the outcome of the expansion that a node made when it mounted a volume.
func (c Claims) NodeExpanded(
	ctx context.Context,
	req *structs.CSINodeExpandOutcome,
	_ *structs.Empty,
) (uint64, error) {
	// A volume that is gone meanwhile has no plugin. The state function then ignores the outcome.
	plugin := ""
	v := csi.Volume(c.Store.Read(), req.RequestNamespace(), req.VolumeID)
	if v != nil {
		plugin = v.PluginID
	}

	if err := report.ExpandOutcome(req, plugin); err != nil {
		return 0, err
	}

	entry := *req
	entry.Agent = req.Agent.OfLog()
	if req.Err != nil {
		// Other rows may share the error, so it is copied before its text is cut.
		own := *req.Err
		own.Message = structs.Cut(own.Message, structs.MaxErrorText)
		entry.Err = &own
	}
	return fsm.Propose(ctx, c.Raft, fsm.NodeExpanded, &entry)
}

// expandedOnNodes reports whether each node that has the volume has expanded the file system on it, or why a
// node has not. It does not wait for a node that is down, or whose plugin expands at the next mount. The
// caller of Register and Create waits for it, because the space can be used only then.
func expandedOnNodes(tx *state.ReadTx, v *structs.CSIVolume) (bool, error) {
	if v.NodeExpandBytes == 0 {
		return true, nil
	}

	// Only claims with something to do are in the index, so a volume with thousands of readers costs nothing
	// here.
	for c := range csi.GrowingClaimsOf(tx, v.Namespace, v.ID) {
		node := state.Node(tx, c.NodeID)
		up := node != nil && node.Status == structs.NodeReady
		switch {
		// An ended allocation uses the volume no longer. A node that is down expands it when it stages the
		// volume again.
		case c.ExpandBytes == 0 || c.EndTime != 0 || !up:
		// The node repeats the call, but the caller need not wait for that.
		case c.ExpandError != nil:
			return false, structs.Errorf(c.ExpandError.Kind,
				"volume %q is larger now, but its content at allocation %s is not: %s",
				v.ID, structs.ShortID(c.AllocID),
				c.ExpandError.Message)

		default:
			return false, nil
		}
	}
	return true, nil
}
