package endpoints

import (
	"context"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// nodeExpanded is said by a node that has grown what is on a volume, or failed to, when it mounted the
// volume.
func (c claims) nodeExpanded(ctx context.Context, req *structs.CSINodeExpandOutcome) (*structs.Empty, error) {
	plugin := ""
	if v := state.Volume(c.store.Read(), req.RequestNamespace(), req.VolumeID); v != nil {
		plugin = v.PluginID
	}
	if err := req.Validate(plugin); err != nil {
		return nil, err
	}
	if req.Err != nil && len(req.Err.Message) > structs.MaxErrorText {
		own := *req.Err
		own.Message = structs.Cut(own.Message, structs.MaxErrorText)
		req.Err = &own
	}
	return done(fsm.Propose(ctx, c.raft, fsm.NodeExpanded, req))
}

// grown reports whether every node that has the volume has grown what is on it, or why one has not. One that
// is down and one whose plugin grows it at the next mount are not waited for.
func grown(tx *state.ReadTx, v *structs.CSIVolume) (bool, error) {
	if v.NodeExpandBytes == 0 {
		return true, nil
	}
	for c := range state.GrowingClaimsOf(tx, v.Namespace, v.ID) {
		node := state.Node(tx, c.NodeID)
		switch {
		case c.ExpandBytes == 0 || c.EndTime != 0 || node == nil || node.Status != structs.NodeReady:
		case c.ExpandError != nil:
			return false, structs.Errorf(c.ExpandError.Kind,
				"volume %q is larger now, but not what allocation %s sees of it: %s",
				v.ID, structs.ShortID(c.AllocID), c.ExpandError.Message)
		default:
			return false, nil
		}
	}
	return true, nil
}
