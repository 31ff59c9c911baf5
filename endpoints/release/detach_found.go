package release

import (
	"context"
	"errors"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// detachUnclaimed detaches a volume from a node without a claim on it: after a restore the volume may be
// attached without a row. A row records the call, and the leader makes it. An ID that no node has counts as
// the plugin's ID of a node.
func (d detachment) detachUnclaimed(
	ctx context.Context,
	v *structs.CSIVolume,
) (uint64, error) {
	req := d.req
	tx := d.Store.Read()
	plugin := csi.Plugin(tx, v.PluginID)
	attaches := plugin != nil && plugin.SupportsAttachDetach
	// Without ControllerPublish there is nothing to undo (CSI spec, PUBLISH_UNPUBLISH_VOLUME).
	if !attaches {
		d.setProof(structs.DetachNothingHeld,
			"No claim and no attachment of volume %q names %s%s",
			v.ID, nodeNamed(tx, req.NodeID), missingOf(tx, req.NodeID, v.PluginID))
		return d.Store.Index(), nil
	}

	found := &structs.CSIAttachment{
		Namespace: d.ns,
		VolumeID:  v.ID,
		NodeID:    req.NodeID,
	}

	node := state.Node(tx, req.NodeID)
	if node == nil {
		found.ExternalNodeID = req.NodeID
		known := csi.NodeOfExternal(tx, v.PluginID, req.NodeID)
		if known != "" {
			found.NodeID = known
			node = state.Node(tx, known)
		}
	}

	// The volume must not be in use at the time of the call: a detach would cut it off.
	err := d.checkUnused(ctx, found.NodeID, node)
	if err != nil {
		return 0, err
	}

	// The call needs the plugin's ID of the node (CSI spec, ControllerUnpublishVolumeRequest.node_id).
	if state.CompleteFound(tx, found) == nil {
		return 0, structs.Preconditionf("volume %q: plugin %q has not reported its ID of node %s; "+
			"is its job running there?", v.ID, v.PluginID, found.NodeID)
	}

	d.Logger.Info("detaching a volume without a claim from a node",
		"volume_id", v.ID,
		"namespace", d.ns,
		"node_id", found.NodeID,
		"forced", req.Force,
		"reason", req.Reason)

	d.setProof(structs.DetachPending,
		"No claim of volume %q names %s; its plugin is called to detach it there",
		v.ID, nodeNamed(tx, found.NodeID))
	entry := &structs.CSIAttachmentsFound{
		Attachments:  []*structs.CSIAttachment{found},
		WriteOptions: req.WriteOptions,
	}
	return fsm.Propose(ctx, d.Raft, fsm.AttachmentsFound, entry)
}

// checkUnused makes sure that nothing on a node uses the volume; node is its row, if it has one. It calls a
// node that is up. For another node, force means that an operator asserts it.
func (d detachment) checkUnused(
	ctx context.Context,
	nodeID string,
	node *structs.Node,
) error {
	volume := d.req.VolumeID
	up := node != nil && node.Status == structs.NodeReady
	switch {
	// Its mounts are not known yet, and one of them may be of this volume.
	case up && node.Unaccounted && csi.MayHold(d.Store.Read(), node, d.ns, volume):
		return structs.Unavailablef("node %s %s; try again later", nodeID, node.WhyUnaccounted())
	// The key has no allocation, since there is no claim. The node checks all of its mounts.
	case up:
		return d.operatorDetach(ctx, structs.CSIClaimKey{
			Namespace: d.ns,
			VolumeID:  volume,
		}, nodeID)

	case !d.req.Force:
		return structs.Unavailablef(
			"node %s is not up and cannot report whether it released volume %q; "+
				"bring it back, or, once it is certainly off: %s",
			nodeID,
			volume,
			csi.DetachCommand(d.ns, volume, nodeID))
	}

	_, err := d.assertUnmounted(ctx, nodeID, errors.New("it has no claim"))
	return err
}
