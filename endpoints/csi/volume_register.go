package csi

import (
	"cmp"
	"context"
	"fmt"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/lifecycle"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Register records volumes that exist at their plugin, after the plugin has confirmed them.
func (w VolumeWrites) Register(
	ctx context.Context,
	req *structs.CSIVolumeRegisterRequest,
	resp *structs.CSIVolumeRegisterResponse,
) (uint64, error) {
	given, err := w.checkedCopy(req, false)
	if err != nil {
		return 0, err
	}
	// The check by the plugin comes first and without a lock: it takes long, and it may fail.
	tx := w.Store.Read()
	err = w.checkBeforeCalls(ctx, tx, given)
	if err != nil {
		return 0, err
	}

	for _, v := range given.Volumes {
		// It is built for the check alone. At the turn of this request it is built again, from the row of
		// then.
		wanted, err := rowToRegister(tx, csi.Volume(tx, v.Namespace, v.ID), v)
		if err != nil {
			return 0, err
		}

		err = w.confirmVolume(ctx, tx, wanted)
		if err != nil {
			return 0, fmt.Errorf("volume %q: %w", v.ID, err)
		}
	}

	return w.recordAndAwait(ctx, given, resp, rowToRegister)
}

// checkBeforeCalls returns the error that the entry of a request would have now. So a volume that the
// servers reject, such as one beyond its quota, lets no plugin be called, also not for the other volumes.
// At its turn the request is checked again.
func (w VolumeWrites) checkBeforeCalls(
	ctx context.Context, tx *state.ReadTx, given *structs.CSIVolumeRegisterRequest,
) error {
	for _, v := range given.Volumes {
		err := checkPlugin(tx, v.PluginID)
		if err != nil {
			return fmt.Errorf("volume %q: %w", v.ID, err)
		}
	}

	entry, _, err := w.entryOf(ctx, tx, given, rowToRegister)
	if err != nil {
		return err
	}
	return lifecycle.VolumePut(tx.Draft(), entry)
}

// checkPlugin returns an error unless a plugin exists, and some node runs it if it has no controller.
func checkPlugin(tx *state.ReadTx, id string) error {
	plugin := csi.Plugin(tx, id)
	switch {
	case plugin == nil:
		return structs.Preconditionf("CSI plugin %q does not exist; run its job first", id)
	case !plugin.ControllerRequired && !csi.HealthyInstance(tx, plugin.ID, structs.CSIKindNode):
		return structs.Preconditionf("CSI plugin %q is healthy nowhere yet", id)
	}
	return nil
}

// confirmVolume makes the plugin confirm a volume, if it has a reachable controller (CSI spec,
// ValidateVolumeCapabilities). A plugin with a node half alone cannot be asked: see checkPlugin.
func (w VolumeWrites) confirmVolume(
	ctx context.Context,
	tx *state.ReadTx,
	v *structs.CSIVolume,
) error {
	if !csi.Plugin(tx, v.PluginID).ControllerRequired {
		return nil
	}

	// The check has to be made with the values that the row will have.
	old := csi.Volume(tx, v.Namespace, v.ID)
	if old != nil {
		fillFromStored(v, old)
	}

	v, err := volumesecrets.Open(tx, w.Keys, v)
	if err != nil {
		return err
	}

	req := &nodecalls.ClientCSIValidateRequest{
		PluginID:     v.PluginID,
		ExternalID:   v.ExternalID,
		Capabilities: v.RequestedCapabilities,
		MountOptions: v.MountOptions,
		Context:      v.Context,
		Parameters:   v.Parameters,
		Secrets:      v.Secrets,

		MutableParameters: v.MutableParameters,
	}

	nodeconn.Address(tx, req)
	// The controllers reach the place of the volume, if that is known.
	to := nodeconn.Target{
		Nodes: w.Nodes,
		IDs:   nodeconn.VolumeControllers(tx, v),
		Limit: callTimeout,
	}

	for {
		_, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerValidate, req)
		// Each controller may know only the volumes of its own node.
		if len(to.IDs) < 2 ||
			len(v.Topologies) > 0 ||
			!structs.IsKind(err, structs.KindNotFound) {
			return err
		}

		to.IDs = to.IDs[1:]
	}
}

// fillFromStored gives a field that the request leaves out, or has redacted, the stored value. The same rule
// is in the state function, which merges the rows.
func fillFromStored(v, old *structs.CSIVolume) {
	v.ExternalID = cmp.Or(v.ExternalID, old.ExternalID)
	if len(v.Secrets) == 0 {
		lifecycle.KeepSecrets(v, old)
	}
	if len(v.Context) == 0 {
		v.Context = old.Context
	}
	if v.MountOptions.IsRedacted() {
		v.MountOptions = old.MountOptions
	}
}
