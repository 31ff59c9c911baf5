package control

import (
	"context"
	"fmt"
	"slices"

	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// accountedSignal is given when a node has changed and not every volume waits for a node. A step whose volume
// still waits for another one waits on.
const accountedSignal = "a node is accounted for"

// waitForNodes holds back a call that depends on the nodes that use a volume, while one that may hold it has
// not reported its volumes. A creation does not depend on it. An expansion does: a plugin may take it only
// while the volume is published nowhere (CSI spec, PluginCapability.VolumeExpansion).
func waitForNodes(tx *state.ReadTx, ns, volume string, s workqueue.Step) workqueue.Step {
	if s.Op != opCreate && csi.VolumeRecovering(tx, ns, volume) != "" {
		s.Awaits = []string{accountedSignal}
	}
	return s
}

// waitForDetach holds back the attach of a volume for a single node while it is attached to another node, as
// after a restore. In a state that was never restored the claim would not be granted. It also holds back an
// attach to a node at the limit of its plugin while another volume is being detached there.
func waitForDetach(tx *state.ReadTx, a *structs.CSIAttachment, s workqueue.Step) workqueue.Step {
	if s.Op == opAttach && len(s.Awaits) == 0 &&
		csi.AttachmentWaits(tx, a) != "" {
		s.Awaits = []string{
			volumeSignal(a.Namespace + "/" + a.VolumeID),
			attachmentSignal(a.NodeID),
		}
	}
	return s
}

// lateDelete returns a deletion of the volume of an attachment whose outcome is unknown, nil if there is
// none. In a restored state a volume may be ready that the replaced state was deleting. If it were attached
// meanwhile, it would be deleted while in use. A detach need not wait.
func lateDelete(tx *state.ReadTx, a *structs.CSIAttachment) *structs.CSICall {
	v := csi.Volume(tx, a.Namespace, a.VolumeID)
	if v == nil ||
		v.Call == nil ||
		v.Call.Op != opDelete ||
		a.State != structs.AttachmentAttaching {
		return nil
	}
	return v.Call
}

// explainRejection adds the remedy to the error of an attach that the plugin rejected because the volume is
// attached to another node (CSI spec, ControllerPublishVolume errors). It names that node if the plugin lists
// it. berth does not detach the volume there by itself: a user that berth does not know may have it mounted,
// for example under the ID of another plugin or of an agent that has lost its records.
func (c controllerLoop) explainRejection(ctx context.Context, a *structs.CSIAttachment, err error) error {
	if !structs.IsKind(err, structs.KindPrecondition) {
		return err
	}

	var external []string
	if v := c.listed(ctx, a); v != nil {
		isThis := func(id string) bool {
			return id == a.ExternalNodeID
		}

		external = slices.DeleteFunc(v.PublishedExternalNodeIDs, isThis)
	}

	if len(external) == 0 {
		command := csi.DetachCommand(a.Namespace, a.VolumeID, "NODE")
		return fmt.Errorf("%w; if the volume is attached to another node, and certainly not used there: %s",
			err, command)
	}

	node := []string{csi.NodeOfExternal(c.Store.Read(), a.PluginID, external[0])}
	if node[0] == "" {
		node = []string{"-external", external[0]}
	}

	command := csi.DetachCommand(a.Namespace, a.VolumeID, node...)
	return fmt.Errorf("%w; the plugin lists it as attached to node %s; if it is certainly not used there: %s",
		err, external[0], command)
}
