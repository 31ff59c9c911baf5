package csi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/trust"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// VolumePut registers or changes volumes, or records that they are to be created (State creating). The
// identity and the source of a created volume cannot change. Empty fields keep their stored values.
func VolumePut(tx *mvcc.WriteTx, p *structs.CSIVolumeRegisterRequest) error {
	for _, requested := range p.Volumes {
		if requested == nil || requested.ID == "" ||
			requested.PluginID == "" ||
			slices.Contains(requested.RequestedCapabilities, nil) {
			return structs.Invalidf("a volume needs an ID and a plugin ID, and no capability of it may be empty")
		}

		v := requested.Copy()
		v.Namespace = cmp.Or(v.Namespace, p.RequestNamespace())
		err := namespace.Check(tx, v.Namespace)
		if err != nil {
			return fmt.Errorf("volume %q: %w", v.ID, err)
		}

		err = putVolume(tx, v, p.Now)
		if err != nil {
			return err
		}
	}

	return nil
}

func putVolume(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) error {
	err := trust.CheckSealed(tx, v.SealedSecrets)
	if err != nil {
		return err
	}

	old := Volume(tx, v.Namespace, v.ID)
	if v.ModifyIndex != 0 &&
		(old == nil || old.ModifyIndex != v.ModifyIndex) {
		return structs.Conflictf("volume %q has changed since it was read", v.ID)
	}

	err = mergeStored(tx, v, old, now)
	if err != nil {
		return err
	}

	err = checkVolumeClass(tx, v)
	if err != nil {
		return err
	}

	// The merge has filled in the ID of a volume that is registered already.
	if err := checkExternalFree(tx, v); err != nil {
		return err
	}

	if err := checkExternalDetached(tx, v); err != nil {
		return err
	}

	switch {
	case old == nil:
	case !sameVolume(old, v):
		v.LastError = nil // it belongs to the former request
	// An equal request changes nothing, but makes a failed operation due now.
	case v.LastError == nil:
		return nil
	default:
		v.LastError = retryNow(v.LastError, now)
	}

	err = namespace.CheckVolumeQuota(tx, old, v)
	if err == nil && NeverCreated(old) {
		err = checkRestore(tx, v)
	}
	if err != nil {
		return err
	}

	storeVolume(tx, v, now)

	// Only a volume that was never created can change its plugin.
	if old != nil && old.PluginID != v.PluginID {
		DropUnusedPlugin(tx, old.PluginID)
		rebindDriver(tx, old.PluginID, now)
	}

	return nil
}

// mergeStored completes the row of a request with the stored volume's, which is nil for a new one.
func mergeStored(tx *mvcc.WriteTx, v, old *structs.CSIVolume, now int64) error {
	v.ModifyTime = now
	switch {
	case old == nil:
		v.CSIVolumeStatus = structs.CSIVolumeStatus{} // a request cannot set it
		v.CreateTime = now
		v.State = cmp.Or(v.State, structs.VolumeReady)
		// The plugin has confirmed the parameters of a volume that exists there (CSI spec,
		// ValidateVolumeCapabilities).
		if v.State == structs.VolumeReady {
			v.AppliedParameters = v.MutableParameters
		}
	case NeverCreated(old):
		if err := remakeVolume(tx, v, old); err != nil {
			return err
		}
	default:
		if err := mergeVolume(tx, v, old); err != nil {
			return err
		}

		if v.ExpandPending {
			beginExpansion(tx, v)
		}
	}

	return nil
}

// remakeVolume completes v, which replaces a volume that could not be created. All fields may change, but the
// volume has to stay usable for its waiting claims.
func remakeVolume(tx *mvcc.WriteTx, v, old *structs.CSIVolume) error {
	v.Name = cmp.Or(v.Name, old.Name)
	v.ExternalName = cmp.Or(v.ExternalName, old.ExternalName)
	v.JobID = cmp.Or(v.JobID, old.JobID)
	v.AllocID = cmp.Or(v.AllocID, old.AllocID)
	v.Host = cmp.Or(v.Host, old.Host)
	v.CreateTime = old.CreateTime
	v.State = cmp.Or(v.State, structs.VolumeReady)
	if v.PluginID == old.PluginID { // another plugin must not get them
		KeepSecrets(v, old)
	}
	v.MountOptions = keepFlags(v.MountOptions, old.MountOptions)
	v.CSIVolumeStatus = structs.CSIVolumeStatus{
		Call:       old.Call,
		Unanswered: old.Unanswered,
		Forced:     old.Forced,
	}
	err := checkRemake(v, old)
	if err != nil {
		return err
	}

	// A claim names the plugin of its volume (CheckClaims).
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		if c.PluginID != v.PluginID {
			c = c.Copy()
			c.PluginID = v.PluginID
			StoreClaim(tx, c)
		}
	}

	return checkUses(tx, v, old)
}

// sameVolume compares volumes without their times and indexes of change.
func sameVolume(a, b *structs.CSIVolume) bool {
	c := *a
	c.ModifyTime = b.ModifyTime
	c.Indexes = b.Indexes
	return codec.SameBytes(&c, b)
}

// storeVolume puts the row and unblocks the evaluations that wait for its new state.
func storeVolume(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	schema.Volumes.Put(tx, v)
	EnsurePlugin(tx, v.PluginID)
	grant(tx, v.Namespace, v.ID, now)
	unblock.Volume(tx, v)
}

// checkExternalFree rejects a second name for one volume of a plugin: a deletion under one name would destroy
// the other.
func checkExternalFree(tx mvcc.Reader, v *structs.CSIVolume) error {
	if v.ExternalID == "" {
		return nil
	}
	for other := range schema.VolumesByPlugin.Scan(tx, v.PluginID, v.ExternalID) {
		if other.ID != v.ID || other.Namespace != v.Namespace {
			return structs.Conflictf("%q of plugin %q is registered already, as %s; "+
				"choose another name or external_id",
				v.ExternalID, v.PluginID, seenFrom(v, other.Namespace, other.ID))
		}
	}
	return nil
}

// seenFrom names a volume in an error about the volume v. The person who registers v may not see the rows of
// other namespaces.
func seenFrom(v *structs.CSIVolume, namespace, id string) string {
	if namespace != v.Namespace {
		return "a volume of another namespace"
	}
	return fmt.Sprintf("volume %q", id)
}

// checkExternalDetached rejects a volume that had another name and is not detached under that name yet. Its
// old attachments would block no claim, and a second node could get the volume.
func checkExternalDetached(tx mvcc.Reader, v *structs.CSIVolume) error {
	if v.ExternalID == "" {
		return nil
	}

	for a := range schema.AttachmentsByExternal.Scan(tx, v.PluginID, v.ExternalID) {
		if a.VolumeID != v.ID || a.Namespace != v.Namespace {
			return structs.Preconditionf("%q of plugin %q is still being detached from node %s, "+
				"where it was %s%s; register it when that is done",
				v.ExternalID, v.PluginID, NodeName(tx, a.NodeID),
				seenFrom(v, a.Namespace, a.VolumeID), Failing(a.LastError))
		}
	}

	return nil
}

// mergeVolume completes v, which changes old, with the kept fields, and rejects changes of fixed fields.
func mergeVolume(tx mvcc.Reader, v, old *structs.CSIVolume) error {
	if old.State == structs.VolumeDeleting {
		return structs.Preconditionf("volume %q is being deleted", v.ID)
	}

	// A request that succeeded would say that the volume stays.
	if old.Marked() {
		return structs.Preconditionf("%s", markText(old))
	}

	// A repetition has the arguments of the first call (CSI spec, "Timeouts").
	busy := old.State == structs.VolumeCreating || old.Call != nil && old.Modifies()
	if busy && storage.ChangesParameters(old, v) {
		return structs.Preconditionf("mutable_parameters of volume %q cannot change while its plugin may still "+
			"work on the former ones%s; repeat the request later", v.ID, Failing(old.LastError))
	}

	keepUnset(v, old)
	for _, c := range []struct {
		field   string
		changed bool
	}{
		{"Name", v.Name != old.Name},
		{"ExternalName", v.NameAtPlugin() != old.NameAtPlugin()},
		{"PluginID", v.PluginID != old.PluginID},
		{"Class", v.Class != old.Class},
		{"ExternalID", v.ExternalID != old.ExternalID && old.ExternalID != ""},
		{"CloneID", v.CloneID != old.CloneID},
		{"SnapshotID", v.SnapshotID != old.SnapshotID || v.Snapshot != old.Snapshot},
		{"Parameters", !maps.Equal(v.Parameters, old.Parameters)},
		{"RequestedTopologies", len(old.Topologies) > 0 &&
			!codec.SameBytes(v.RequestedTopologies, old.RequestedTopologies)},
	} {
		if c.changed {
			return structs.Conflictf("%s of volume %q cannot change once it is registered", c.field, v.ID)
		}
	}

	err := mergeCapacity(v, old)
	if err != nil {
		return err
	}

	return checkUses(tx, v, old)
}

// AsStored returns a copy of a volume as it will be stored over the row of old, nil for a new volume.
func AsStored(v, old *structs.CSIVolume) *structs.CSIVolume {
	c := v.Copy()
	if !NeverCreated(old) {
		keepUnset(c, old)
	}
	return c
}

// keepUnset copies the empty fields of the specification, the origin and the status from the stored row.
func keepUnset(v, old *structs.CSIVolume) {
	v.Name = cmp.Or(v.Name, old.Name)
	v.ExternalName = cmp.Or(v.ExternalName, old.ExternalName)
	v.ExternalID = cmp.Or(v.ExternalID, old.ExternalID)
	v.CloneID = cmp.Or(v.CloneID, old.CloneID)
	v.SnapshotID = cmp.Or(v.SnapshotID, old.SnapshotID)
	v.Snapshot = cmp.Or(v.Snapshot, old.Snapshot)
	if v.Labels == nil {
		v.Labels = old.Labels
	}
	v.OnNodeLoss = cmp.Or(v.OnNodeLoss, old.OnNodeLoss)
	v.RequestedCapacityMin = cmp.Or(v.RequestedCapacityMin, old.RequestedCapacityMin)
	// The volume has grown by itself since its file was written, which still describes it.
	if grewItself(old) {
		v.RequestedCapacityMin = max(v.RequestedCapacityMin, old.RequestedCapacityMin)
	}
	v.RequestedCapacityMax = cmp.Or(v.RequestedCapacityMax, old.RequestedCapacityMax)
	v.Class = cmp.Or(v.Class, old.Class)
	v.Grow = cmp.Or(v.Grow, old.Grow)
	v.Trim = cmp.Or(v.Trim, old.Trim)
	keepReclaim(v, old)
	if v.Parameters == nil {
		v.Parameters = old.Parameters
	}

	v.MutableParameters = storage.MergeParameters(old.MutableParameters, v.MutableParameters)
	if v.RequestedTopologies == nil {
		v.RequestedTopologies = old.RequestedTopologies
	}

	if len(v.Context) == 0 {
		v.Context = old.Context
	}

	if len(v.RequestedCapabilities) == 0 {
		v.RequestedCapabilities = old.RequestedCapabilities
	}

	KeepSecrets(v, old)
	v.MountOptions = keepFlags(v.MountOptions, old.MountOptions)

	v.CSIVolumeOrigin = old.CSIVolumeOrigin
	v.CSIVolumeStatus = old.CSIVolumeStatus
}

// keepReclaim copies the stored rule of deletion, and of the rule that the request repeats, the delay.
func keepReclaim(v, old *structs.CSIVolume) {
	v.Reclaim = cmp.Or(v.Reclaim, old.Reclaim)
	if v.Reclaim == storage.ReclaimDelete {
		v.DeleteAfter = cmp.Or(v.DeleteAfter, old.DeleteAfter)
	}
}

// KeepSecrets copies the stored secrets, in each form, into a new row without any.
func KeepSecrets(v, old *structs.CSIVolume) {
	if v.Secrets == nil && v.SealedSecrets == nil && v.SecretsFrom == "" {
		v.Secrets = old.Secrets
		v.SealedSecrets = old.SealedSecrets
		v.SecretsFrom = old.SecretsFrom
	}
}

// keepFlags returns the mount options of a volume after a change. Redacted flags, as readers of a volume get
// them, stand for the stored ones.
func keepFlags(now, old *structs.CSIMountOptions) *structs.CSIMountOptions {
	switch {
	case now == nil:
		return old
	case !now.IsRedacted():
		return now
	}
	return withStoredFlags(now, old)
}

// mergeCapacity checks new bounds of the capacity. A minimum above the capacity requests
// an expansion. A request that the plugin has not met yet may be reduced, to no less than the capacity: the
// plugin is then called with the smaller size (CSI spec, ControllerExpandVolume errors).
func mergeCapacity(v, old *structs.CSIVolume) error {
	least := old.RequestedCapacityMin
	limit := max(old.Capacity, v.RequestedCapacityMin)
	if old.Expands() || old.State == structs.VolumeCreating {
		least = old.Capacity
	}

	switch {
	case v.RequestedCapacityMin < least:
		return structs.Conflictf("volume %q: capacity_min can only grow: it is %s, not %s",
			v.ID, structs.FormatBytes(least),
			structs.FormatBytes(v.RequestedCapacityMin))
	case v.RequestedCapacityMax != 0 && v.RequestedCapacityMax < limit:
		return structs.Conflictf("volume %q: capacity_max %s is below its capacity of %s",
			v.ID, structs.FormatBytes(v.RequestedCapacityMax),
			structs.FormatBytes(limit))
	}

	// A volume that is still to be created is created with the new size. Without a size of the plugin, the
	// former request is the one that was met.
	unknown := old.Capacity == 0 && v.RequestedCapacityMin > old.RequestedCapacityMin
	if v.State == structs.VolumeReady && (v.TooSmall() || unknown) {
		v.ExpandPending = true
		if !old.Expands() {
			v.FormerCapacityMin = old.RequestedCapacityMin
		}
	}

	return nil
}

// checkUses rejects the removal of a capability in use, and a change of mount options in use.
func checkUses(tx mvcc.Reader, v, old *structs.CSIVolume) error {
	for _, state := range claimStates {
		for _, k := range ClassesIn(tx, v, state) {
			if !v.Capable(k) {
				return structs.Conflictf(
					"volume %q: a capability block must keep access_mode %s with attachment_mode %s, which is in use",
					v.ID, k.AccessMode, k.AttachmentMode)
			}
		}
	}

	inUse := ClassesIn(tx, v, structs.ClaimGranted) != nil
	if inUse &&
		!codec.SameBytes(v.MountOptions, old.MountOptions) {
		return structs.Conflictf("volume %q: mount_options cannot change while it is in use", v.ID)
	}

	return nil
}

// findVolume returns the volume of a request.
func findVolume(tx mvcc.Reader, ns, id string) (*structs.CSIVolume, error) {
	v := Volume(tx, ns, id)
	if v == nil {
		return nil, structs.NotFoundf("no volume %q in namespace %q", id, ns)
	}
	return v, nil
}
