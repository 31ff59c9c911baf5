package control

import (
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// exhaustedError is the error of a call for which the plugin has no capacity. Waiting does not help: the
// operator has to free capacity or to request less.
func exhaustedError(text string) error {
	return &structs.Error{
		Kind: structs.KindPrecondition,
		Code: structs.CSICodeExhausted,
		Text: structs.Cut("no space: "+text, structs.MaxErrorText),
	}
}

// checkSource rejects a copy of a volume that was deleted, or deleted and made anew, since the request: the
// rights of the caller were about that volume, and the plugin may give its ID to another. After a call
// without a final answer the copy may exist. Then the creation waits for its deletion, which finds the copy.
func checkSource(tx *state.ReadTx, v *structs.CSIVolume) error {
	if v.CloneSource == nil || csi.SameSource(tx, v.CloneSource) {
		return nil
	}

	kind := structs.KindPrecondition
	if v.Call != nil {
		kind = structs.KindUnavailable
	}
	return structs.Errorf(kind, "the source %q was deleted since volume %q was requested; "+
		"delete this volume, and create it from another source", v.CloneID, v.ID)
}

// createRequest returns the same request for the same row at every call: a plugin continues its work (CSI
// spec, "Timeouts").
func createRequest(v *structs.CSIVolume) *nodecalls.ClientCSICreateRequest {
	clone := v.CloneID
	if v.CloneSource != nil {
		clone = v.CloneSource.ExternalID
	}

	return &nodecalls.ClientCSICreateRequest{
		PluginID:     v.PluginID,
		Name:         v.NameAtPlugin(),
		Capacity:     requestedCapacity(v),
		Capabilities: v.RequestedCapabilities,
		MountOptions: v.MountOptions,
		Parameters:   v.Parameters,
		Secrets:      v.Secrets,
		CloneID:      clone,
		SnapshotID:   v.SnapshotID,
		Topologies:   v.RequestedTopologies,

		MutableParameters: v.MutableParameters,
	}
}

// modifyRequest returns the request to apply the mutable parameters that differ from the plugin's (CSI
// spec, ControllerModifyVolume).
func modifyRequest(v *structs.CSIVolume) *nodecalls.ClientCSIModifyRequest {
	return &nodecalls.ClientCSIModifyRequest{
		PluginID:          v.PluginID,
		ExternalID:        v.ExternalID,
		MutableParameters: storage.PendingParameters(v),
		Secrets:           v.Secrets,
	}
}

func requestedCapacity(v *structs.CSIVolume) nodecalls.CSICapacityRange {
	return nodecalls.CSICapacityRange{
		RequiredBytes: v.RequestedCapacityMin,
		LimitBytes:    v.RequestedCapacityMax,
	}
}

// expandRequest returns the request to expand a volume. Its capability is a granted claim's, else the first
// requested one.
func expandRequest(tx *state.ReadTx, v *structs.CSIVolume) *nodecalls.ClientCSIExpandRequest {
	req := &nodecalls.ClientCSIExpandRequest{
		PluginID:   v.PluginID,
		ExternalID: v.ExternalID,
		Secrets:    v.Secrets,
		Capacity:   requestedCapacity(v),
	}

	if len(v.RequestedCapabilities) > 0 {
		req.Capability = v.RequestedCapabilities[0]
	}

	for _, claim := range csi.ClaimsByVolume(tx, v.Namespace, v.ID) {
		if claim.State == structs.ClaimGranted {
			req.Capability = &structs.CSIVolumeCapability{
				AccessMode:     claim.AccessMode,
				AttachmentMode: claim.AttachmentMode,
			}

			break
		}
	}

	return req
}

// jobMountOptions returns the options that the job of an allocation sets for its volume, nil for none.
func jobMountOptions(tx *state.ReadTx, claim *structs.CSIClaim) *structs.CSIMountOptions {
	a := state.Alloc(tx, claim.AllocID)
	if a == nil {
		return nil
	}

	job := state.JobVersion(tx, a.Namespace, a.JobID, a.JobVersion)
	if job == nil {
		return nil
	}

	group := storage.GroupOfAlloc(job, a)
	if group == nil {
		return nil
	}

	for _, r := range group.Volumes {
		if r.NeedsClaim() &&
			r.VolumeID(a.Index(), a.ID) == claim.VolumeID {
			return r.MountOptions
		}
	}

	return nil
}
