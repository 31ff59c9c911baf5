package csi

import (
	"berth/internal/codec"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/report"
)

// buildRow returns the row to record for a given volume; old is the row before, nil for none. The state
// function merges the two and decides which fields cannot change. It runs at the turn of the request (see
// recordRows), and before that for the check by the plugin.
type buildRow func(
	tx *state.ReadTx, old, given *structs.CSIVolume,
) (*structs.CSIVolume, error)

// keepCreated takes over from the row of an existing volume the facts that only its plugin changes. A request
// may have these from an earlier answer.
func keepCreated(v, old *structs.CSIVolume) {
	v.Topologies = old.Topologies
	v.Capacity = old.Capacity
}

// rowToRegister records a volume that exists at its plugin, or changes a known one.
func rowToRegister(
	tx *state.ReadTx,
	old, given *structs.CSIVolume,
) (*structs.CSIVolume, error) {
	v := given.Copy()
	v.State = structs.VolumeReady
	// The plugin may still make the volume, beside the one that this request names.
	if old != nil && old.State == structs.VolumeCreating {
		return nil, structs.Preconditionf(
			"volume %q is being created; wait for it, or delete it first", v.ID)
	}

	// A change of a known volume needs no external ID: the stored one stays.
	if !csi.NeverCreated(old) {
		keepCreated(v, old)
		return v, checkChangeable(tx, old, v)
	}

	err := report.VolumeMade(v)
	if err == nil {
		err = checkModifiable(tx, v)
	}
	if err != nil {
		return nil, err
	}

	// Redacted flags come from an answer that a client has read and sends back.
	if v.MountOptions.IsRedacted() {
		return nil, errRedacted(v)
	}

	if v.ExternalID == "" {
		return nil, structs.Invalidf(
			"volume %q: external_id is required to register a volume; to have the plugin make one, create it",
			v.ID)
	}

	// The request says where the volume is. A created volume has this from its plugin.
	if len(v.Topologies) == 0 && v.RequestedTopologies != nil {
		v.Topologies = v.RequestedTopologies.Required
	}

	return v, nil
}

// rowToCreate requests the creation of a volume, or changes a created one. A volume whose creation failed for
// good may be requested again with other values under its name, because nothing of it exists.
func rowToCreate(
	tx *state.ReadTx,
	old, given *structs.CSIVolume,
) (*structs.CSIVolume, error) {
	v := given.Copy()
	v.State = structs.VolumeCreating
	if !csi.NeverCreated(old) {
		keepCreated(v, old)
		err := checkRepeated(old, v)
		if err == nil {
			err = checkChangeable(tx, old, v)
		}
		return v, err
	}

	v.Topologies = nil // the plugin decides these
	v.Capacity = 0
	if v.MountOptions.IsRedacted() {
		return nil, errRedacted(v)
	}

	if v.ExternalID != "" {
		return nil, structs.Invalidf(
			"volume %q: external_id names a volume that exists; register it instead of creating one",
			v.ID)
	}

	// A repeated request must have the first name: the plugin makes one volume per name (CSI spec,
	// CreateVolume).
	if v.ExternalName == "" && old != nil {
		v.ExternalName = old.NameAtPlugin()
	}
	csi.NameVolume(v, structs.NewID())
	err := checkCreatable(tx, v)
	if err == nil {
		err = csi.ResolveSnapshot(tx, v, old)
	}
	if err == nil {
		err = csi.LimitToSource(tx, v, old)
	}
	return v, err
}

// checkRepeated rejects a change of the arguments of CreateVolume once the plugin may have got the former
// ones. A repetition has the arguments of the first call (CSI spec, "Timeouts"): a plugin that has made the
// volume rejects others, and then nobody knows the ID of that volume. Secrets may change.
func checkRepeated(old, v *structs.CSIVolume) error {
	if old.State != structs.VolumeCreating || !mayHaveMade(old) {
		return nil
	}

	asked := csi.AsStored(v, old)
	for _, c := range []struct {
		field   string
		changed bool
	}{
		{"capacity_min", asked.RequestedCapacityMin != old.RequestedCapacityMin},
		{"capacity_max", asked.RequestedCapacityMax != old.RequestedCapacityMax},
		{"capability", !codec.SameBytes(asked.RequestedCapabilities, old.RequestedCapabilities)},
		{"mount_options", !codec.SameBytes(asked.MountOptions, old.MountOptions)},
		{"topology_request", !codec.SameBytes(asked.RequestedTopologies, old.RequestedTopologies)},
	} {
		if c.changed {
			return structs.Preconditionf("volume %q: %s cannot change while its plugin may still create the volume"+
				"%s; wait for it, or delete it first", v.ID, c.field, csi.Failing(old.LastError))
		}
	}

	return nil
}

// mayHaveMade reports whether the plugin may have got a call for a volume in creation. Unavailable alone
// means that no call has been delivered. The row has only the last error.
func mayHaveMade(v *structs.CSIVolume) bool {
	e := v.LastError
	return v.Call != nil || e != nil && (e.Attempts > 1 || e.Kind != structs.KindUnavailable)
}

// errRedacted rejects redacted mount flags without stored flags to replace them. Flags of mounts may hold
// secrets, so answers have none of them (CSI spec, mount_flags).
func errRedacted(v *structs.CSIVolume) error {
	return structs.Invalidf(
		"volume %q: mount_flags are redacted, and there is no volume whose flags could be kept; write them out",
		v.ID)
}

// checkCreatable rejects a volume that the plugin is known to be unable to create. A plugin whose controller
// is not up yet may be able: the request waits for it.
func checkCreatable(tx *state.ReadTx, v *structs.CSIVolume) error {
	plugin := csi.Plugin(tx, v.PluginID)
	info := controllerInfo(tx, v.PluginID)
	switch {
	case plugin == nil:
		return errUnable(v, "does not exist; run its job first")
	// A plugin with a node half alone has no CREATE_DELETE_VOLUME: that is a capability of the controller.
	case info == nil && plugin.Known && !plugin.ControllerRequired:
		return errUnable(v, "has no controller and cannot create volumes; register one that exists")
	// A controller that reports later decides. The loop repeats the call until then.
	case info == nil:
		return nil
	case !info.SupportsCreateDelete:
		return errUnable(v, "cannot create volumes; register one that exists")
	case v.CloneID != "" && !info.SupportsClone:
		return errUnable(v, "cannot clone volumes")
	case v.SnapshotID != "" && !info.SupportsCreateDeleteSnapshot:
		return errUnable(v, "cannot make volumes from snapshots")
	}

	return checkModifiable(tx, v)
}

// checkModifiable rejects mutable parameters that the plugin is known to be unable to have.
func checkModifiable(tx *state.ReadTx, v *structs.CSIVolume) error {
	plugin := csi.Plugin(tx, v.PluginID)
	info := controllerInfo(tx, v.PluginID)
	without := info == nil && plugin != nil && plugin.Known && !plugin.ControllerRequired
	if len(v.MutableParameters) > 0 && (without || info != nil && !info.SupportsModify) {
		return errUnable(v, storage.NoModifyVolume)
	}
	return nil
}

// checkChangeable rejects a larger size if the plugin is known to be unable to expand, and mutable
// parameters if it is known to be unable to modify a volume. Only growth counts: a request may repeat the
// present size, or give less.
func checkChangeable(tx *state.ReadTx, old, v *structs.CSIVolume) error {
	info := controllerInfo(tx, old.PluginID)
	grows := v.RequestedCapacityMin > max(old.Capacity, old.RequestedCapacityMin)
	// A volume in creation is made with the new size. The plugin expands nothing.
	if grows && old.State == structs.VolumeReady &&
		info != nil && !info.SupportsExpand &&
		// Some drivers expand on the node alone (CSI spec, NodeExpandVolume).
		!csi.NodeExpands(tx, old.PluginID) {
		return errUnable(old, "cannot expand volumes")
	}
	return checkModifiable(tx, v)
}

// checkDeletable rejects a deletion that the plugin is known to be unable to make.
func checkDeletable(tx *state.ReadTx, v *structs.CSIVolume) error {
	plugin := csi.Plugin(tx, v.PluginID)
	info := controllerInfo(tx, v.PluginID)
	switch {
	// Nothing of it exists, or there is no driver to ask. The loop finds out.
	case v.ExternalID == "" || plugin == nil:
		return nil
	case info == nil && plugin.Known && !plugin.ControllerRequired:
		return errUnable(v, "has no controller and cannot delete volumes; deregister it instead")
	case info != nil && !info.SupportsCreateDelete:
		return errUnable(v, "cannot delete volumes; deregister it instead")
	}
	why := csi.SurelyPlaceless(tx, v)
	// A controller that is in no place of its own serves all of them.
	if why != "" && len(nodeconn.VolumeControllers(tx, v)) == 0 {
		return structs.Preconditionf("%s; nothing can delete it now: run the plugin there, or forget it: %s", why,
			csi.GoneCommand(v))
	}
	return nil
}

// errUnable returns the error of a volume whose plugin is unable to do something.
func errUnable(v *structs.CSIVolume, reason string) error {
	return structs.Preconditionf("volume %q: CSI plugin %q %s",
		v.ID, v.PluginID, reason)
}
