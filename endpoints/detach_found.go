package endpoints

import (
	"context"
	"errors"
	"fmt"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// detachUnclaimed detaches a volume from a node without a claim on it: after a restore the volume may be
// attached where no row says so. A row records the call, and the leader makes it. An ID that no node has is
// taken for the ID that the plugin has for a node.
func (c claims) detachUnclaimed(
	ctx context.Context, req *structs.CSIVolumeDetachRequest,
) (*structs.CSIVolumeDetachResponse, error) {
	ns, tx := req.RequestNamespace(), c.store.Read()
	v := state.Volume(tx, ns, req.VolumeID)
	plugin := state.Plugin(tx, v.PluginID)
	if plugin == nil || !plugin.SupportsAttachDetach { // it attaches nothing
		detail := nothingHeld(v.ID, nodeNamed(tx, req.NodeID))
		return proved(structs.DetachNothingHeld, detail, c.store.Index(), nil)
	}
	found := &structs.CSIAttachment{Namespace: ns, VolumeID: v.ID, NodeID: req.NodeID}
	node := state.Node(tx, req.NodeID)
	if node == nil {
		found.ExternalNodeID = req.NodeID
		if known := state.NodeOfExternal(tx, v.PluginID, req.NodeID); known != "" {
			found.NodeID, node = known, state.Node(tx, known)
		}
	}
	if err := c.unused(ctx, found, node, req.Force); err != nil {
		return nil, err
	}
	if state.CompleteFound(tx, found) == nil {
		return nil, structs.Preconditionf(
			"volume %q: plugin %q has not reported its ID of node %s; is its job running there?",
			v.ID, v.PluginID, found.NodeID)
	}
	c.logger.Info("detaching a volume from a node that has no claim on it", "volume", v.ID, "namespace", ns,
		"node", found.NodeID, "forced", req.Force, "reason", req.Reason)
	index, err := fsm.Propose(ctx, c.raft, fsm.AttachmentsFound, &structs.CSIAttachmentsFound{
		Attachments: []*structs.CSIAttachment{found}, WriteOptions: req.WriteOptions,
	})
	detail := fmt.Sprintf("No claim of volume %q names %s; its plugin is asked to detach it there",
		v.ID, nodeNamed(tx, found.NodeID))
	return proved(structs.DetachPending, detail, index, err)
}

// unused makes sure that nothing on the node uses the volume. It asks a node that is up. For another node,
// force says that an operator vouches.
func (c claims) unused(ctx context.Context, found *structs.CSIAttachment, node *structs.Node,
	force bool,
) error {
	switch {
	case node != nil && node.Status == structs.NodeReady && node.Unaccounted:
		return structs.Unavailablef(
			"node %s has not yet reported what it holds since the servers' state was restored; try again later",
			node.ID)
	case node != nil && node.Status == structs.NodeReady:
		k := structs.CSIClaimKey{Namespace: found.Namespace, VolumeID: found.VolumeID}
		return c.operatorDetach(ctx, k, node.ID)
	case !force:
		return structs.Unavailablef("node %s is not up and cannot say whether it let go of volume %q; "+
			"bring it back, or, once it is surely off: %s",
			found.NodeID, found.VolumeID, state.DetachCommand(found.Namespace, found.VolumeID, found.NodeID))
	}
	asked := &structs.CSIVolumeDetachRequest{VolumeID: found.VolumeID, NodeID: found.NodeID,
		WriteOptions: structs.WriteOptions{Namespace: found.Namespace}}
	_, err := c.unmounted(ctx, c.store.Read(), asked, errors.New("it has no claim"))
	return err
}
