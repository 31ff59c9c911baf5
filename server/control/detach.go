package control

import (
	"context"
	"slices"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
)

// detach detaches a volume from its node. NOT_FOUND does not confirm the detach: the plugin does not know the
// volume or the node, and does not consider the volume detached (CSI spec, ControllerUnpublishVolume errors).
// Only the plugin's list of volumes, or an operator, can then confirm it.
func (c controllerLoop) detach(ctx context.Context, a *structs.CSIAttachment) error {
	_, err := callController(ctx, c, nodecalls.ClientCSIControllerDetach, detachRequest(a))
	if !structs.IsKind(err, structs.KindNotFound) {
		return err
	}

	// A list that leaves the volume out proves nothing (CSI spec, ListVolumes).
	listed := c.listed(ctx, a)
	if listed != nil &&
		listed.PublishedNodesKnown &&
		!slices.Contains(listed.PublishedExternalNodeIDs, a.ExternalNodeID) {
		c.Logger.Info("plugin lists the volume as detached",
			"volume_id", a.VolumeID,
			"namespace", a.Namespace,
			"node_id", a.NodeID,
			"error", err)
		return nil
	}

	tx := c.Store.Read()
	return structs.NotFoundf(
		"%w%s; that does not prove the volume detached. Once the storage itself shows it detached: %s",
		err, mismatch(tx, a),
		csi.ForceCommand(a.Namespace, a.VolumeID, a.NodeID))
}

// mismatch describes how the IDs of an attachment differ from the present ones, "" if they do not.
func mismatch(tx *state.ReadTx, a *structs.CSIAttachment) string {
	v := csi.Volume(tx, a.Namespace, a.VolumeID)
	half := csi.Instance(tx, a.PluginID, structs.CSIKindNode, a.NodeID)
	switch {
	case v != nil && v.ExternalID != a.ExternalVolumeID:
		return "; the volume is " + v.ExternalID + " to the plugin now, and was " + a.ExternalVolumeID +
			" when it was attached"
	case half != nil &&
		half.NodeInfo != nil &&
		half.NodeInfo.ID != a.ExternalNodeID:
		return "; the node is " + half.NodeInfo.ID + " to the plugin now, and was " + a.ExternalNodeID +
			" when the volume was attached"
	}

	return ""
}

// listPages is the most pages of a plugin's list that are read in search of one volume.
const listPages = 1000

// listed returns the volume of an attachment as the plugin lists it; nil if the plugin does not list it, or
// does not list to which nodes volumes are attached. One controller answers all pages: the token of a page is
// its own.
func (c controllerLoop) listed(
	ctx context.Context,
	a *structs.CSIAttachment,
) *structs.CSIVolumeExternalStub {
	tx := c.Store.Read()
	lists := func(node string) bool {
		i := csi.Instance(tx, a.PluginID, structs.CSIKindController, node)
		return i != nil &&
			i.ControllerInfo != nil &&
			i.ControllerInfo.SupportsListVolumes &&
			i.ControllerInfo.SupportsListVolumesAttachedNodes
	}

	at := slices.IndexFunc(c.candidates, lists)
	if at < 0 {
		return nil
	}

	req := &nodecalls.ClientCSIListRequest{PluginID: a.PluginID}
	nodeconn.Address(tx, req)
	to := c.target(c.candidates[at])
	for range listPages {
		page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerList, req)
		if err == nil {
			err = report.Listed(page)
		}

		if err != nil {
			c.Logger.Debug("failed to list the attachments of a volume",
				"volume_id", a.VolumeID,
				"namespace", a.Namespace,
				"plugin_id", a.PluginID,
				"error", err)
			return nil
		}

		for _, v := range page.Volumes {
			if v != nil && v.ExternalID == a.ExternalVolumeID {
				return v
			}
		}

		if page.NextToken == "" {
			return nil
		}

		req.StartingToken = page.NextToken
	}

	return nil
}
