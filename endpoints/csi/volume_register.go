package csi

import (
	"cmp"
	"context"
	"fmt"

	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/report"
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
		if csi.NeverCreated(csi.Volume(tx, v.Namespace, v.ID)) {
			w.learnPlace(ctx, tx, v)
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
	return csi.VolumePut(tx.Draft(), entry)
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

// learnPlace completes a new volume with its size and its place, as its plugin tells them, if the request
// leaves them out: otherwise a job may get a place from which nothing reaches the volume. If the plugin does
// not tell them, the volume stays as it is given.
func (w VolumeWrites) learnPlace(ctx context.Context, tx *state.ReadTx, v *structs.CSIVolume) {
	if v.Capacity != 0 || len(v.Topologies) > 0 || !csi.Plugin(tx, v.PluginID).ControllerRequired {
		return
	}
	for _, node := range nodeconn.VolumeControllers(tx, v) {
		found, err := w.describeVolume(ctx, tx, v, node)
		if err != nil {
			w.Logger.Debug("plugin does not describe a volume that is registered",
				"plugin_id", v.PluginID,
				"volume_id", v.ID,
				"namespace", v.Namespace,
				"node_id", node,
				"error", err)
		}
		if err != nil || found == nil {
			continue // each controller may know only the volumes of its own node
		}

		v.Topologies = found.Topologies
		// A request for more is one to expand it, which a registration is not.
		if found.CapacityBytes >= v.RequestedCapacityMin {
			v.Capacity = found.CapacityBytes
		}
		return
	}
}

// describePages bounds the pages of a list that is searched for one volume.
const describePages = 100

// describeVolume returns a volume as the controller on a node describes it, nil if that does not know it, or
// cannot tell.
func (w VolumeWrites) describeVolume(
	ctx context.Context, tx *state.ReadTx, v *structs.CSIVolume, node string,
) (*structs.CSIVolumeExternalStub, error) {
	i := csi.Instance(tx, v.PluginID, structs.CSIKindController, node)
	if i == nil || i.ControllerInfo == nil {
		return nil, nil
	}
	to := nodeconn.Target{Nodes: w.Nodes, IDs: []string{node}, Limit: callTimeout}
	if i.ControllerInfo.SupportsGet {
		req := &nodecalls.ClientCSIGetVolumeRequest{PluginID: v.PluginID, ExternalID: v.ExternalID}
		nodeconn.Address(tx, req)
		got, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerGet, req)
		if err != nil || got.Volume == nil {
			return nil, err
		}
		return got.Volume, report.Listed(&nodecalls.ClientCSIListResponse{
			Volumes: []*structs.CSIVolumeExternalStub{got.Volume},
		})
	}
	if !i.ControllerInfo.SupportsListVolumes {
		return nil, nil
	}

	req := &nodecalls.ClientCSIListRequest{PluginID: v.PluginID}
	nodeconn.Address(tx, req)
	for range describePages {
		page, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerList, req)
		if err == nil {
			err = report.Listed(page)
		}
		if err != nil {
			return nil, err
		}
		for _, listed := range page.Volumes {
			if listed != nil && listed.ExternalID == v.ExternalID {
				return listed, nil
			}
		}
		if page.NextToken == "" {
			return nil, nil
		}
		req.StartingToken = page.NextToken
	}
	return nil, nil
}

// fillFromStored gives a field that the request leaves out, or has redacted, the stored value. The same rule
// is in the state function, which merges the rows.
func fillFromStored(v, old *structs.CSIVolume) {
	v.ExternalID = cmp.Or(v.ExternalID, old.ExternalID)
	if len(v.Secrets) == 0 {
		csi.KeepSecrets(v, old)
	}
	if len(v.Context) == 0 {
		v.Context = old.Context
	}
	if v.MountOptions.IsRedacted() {
		v.MountOptions = old.MountOptions
	}
}
