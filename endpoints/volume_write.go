package endpoints

import (
	"cmp"
	"context"
	"errors"

	"berth/fsm"
	"berth/internal/keylock"
	"berth/internal/loadshed"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// volumeWrites serve the methods of CSIVolume that change volumes. They record the request. The loop of the
// leader has the plugin carry it out and records the outcome, for which the caller waits.
type volumeWrites struct{ *Endpoints }

// register records volumes that exist at their plugin, after the plugin has confirmed them.
func (w volumeWrites) register(
	ctx context.Context, req *structs.CSIVolumeRegisterRequest, resp *structs.CSIVolumeRegisterResponse,
) (uint64, error) {
	given, err := w.given(req)
	if err != nil {
		return 0, err
	}
	tx := w.store.Read()
	for _, v := range given.Volumes {
		wanted, err := toRegister(tx, state.Volume(tx, v.Namespace, v.ID), v)
		if err != nil {
			return 0, err
		}
		if err := w.confirm(ctx, tx, wanted); err != nil {
			return 0, structs.Errorf(structs.KindOf(err), "volume %q: %w", v.ID, err)
		}
	}
	return w.recordAndAwait(ctx, given, resp, toRegister)
}

// create requests the creation of volumes, or waits for those in creation. For a ready volume with an equal
// request it returns that volume.
func (w volumeWrites) create(
	ctx context.Context, req *structs.CSIVolumeRegisterRequest, resp *structs.CSIVolumeRegisterResponse,
) (uint64, error) {
	given, err := w.given(req)
	if err != nil {
		return 0, err
	}
	return w.recordAndAwait(ctx, given, resp, toCreate)
}

// given returns a copy of a request with checked copies of its volumes.
func (w volumeWrites) given(
	req *structs.CSIVolumeRegisterRequest,
) (*structs.CSIVolumeRegisterRequest, error) {
	if n := len(req.Volumes); n == 0 || n > structs.MaxVolumePuts {
		return nil, structs.Invalidf("Volumes: %d are given; expected 1 to %d", n, structs.MaxVolumePuts)
	}
	var faults []error
	seen := map[string]bool{}
	given := &structs.CSIVolumeRegisterRequest{WriteOptions: req.WriteOptions}
	for n, v := range req.Volumes {
		if v == nil {
			return nil, structs.Invalidf("Volumes[%d]: nothing is given; expected a volume", n)
		}
		v = v.Copy()
		v.Namespace = cmp.Or(v.Namespace, req.RequestNamespace())
		v.DropServerFields()
		v.Canonicalize()
		if err := v.Validate(); err != nil {
			faults = append(faults, err)
		}
		if seen[nameOf(v)] {
			faults = append(faults, structs.Invalidf("volume %q is given twice", v.ID))
		}
		seen[nameOf(v)] = true
		given.Volumes = append(given.Volumes, v)
	}
	if len(faults) > 0 {
		return nil, structs.Invalidf("%w", errors.Join(faults...))
	}
	return given, nil
}

// confirm makes the plugin confirm a volume, if it has a reachable controller (CSI spec,
// ValidateVolumeCapabilities).
func (w volumeWrites) confirm(
	ctx context.Context, tx *state.ReadTx, v *structs.CSIVolume,
) error {
	plugin := state.Plugin(tx, v.PluginID)
	if plugin == nil {
		return structs.Preconditionf("CSI plugin %q is not there; run its job first", v.PluginID)
	}
	if !plugin.ControllerRequired {
		if !state.HealthyInstance(tx, plugin.ID, structs.CSIKindNode) {
			return structs.Preconditionf("CSI plugin %q is healthy nowhere yet", v.PluginID)
		}
		return nil
	}
	if old := state.Volume(tx, v.Namespace, v.ID); old != nil { // a field without a value stays
		v.ExternalID = cmp.Or(v.ExternalID, old.ExternalID)
		if len(v.Secrets) == 0 {
			v.Secrets = old.Secrets
		}
		if len(v.Context) == 0 {
			v.Context = old.Context
		}
		if v.MountOptions.IsRedacted() {
			v.MountOptions = old.MountOptions
		}
	}
	req := &structs.ClientCSIValidateRequest{
		PluginID:     v.PluginID,
		ExternalID:   v.ExternalID,
		Capabilities: v.RequestedCapabilities,
		MountOptions: v.MountOptions,
		Context:      v.Context,
		Parameters:   v.Parameters,
		Secrets:      v.Secrets,
	}
	nodeconn.AddressDriver(tx, req)
	to := nodeconn.Target{
		Nodes: w.nodes,
		IDs:   nodeconn.VolumeControllers(tx, v),
		Limit: callTimeout,
	}
	for {
		_, err := nodeconn.Call(ctx, to, structs.ClientCSIControllerValidate, req)
		// Each controller may know only the volumes of its own node.
		if len(to.IDs) < 2 || !structs.IsKind(err, structs.KindNotFound) || len(v.Topologies) > 0 {
			return err
		}
		to.IDs = to.IDs[1:]
	}
}

// nameOf returns the key of a volume in sets.
func nameOf(v *structs.CSIVolume) string { return v.Namespace + "/" + v.ID }

// recordAndAwait proposes the changes and waits until every volume is settled.
func (w volumeWrites) recordAndAwait(
	ctx context.Context, given *structs.CSIVolumeRegisterRequest, resp *structs.CSIVolumeRegisterResponse,
	build buildRow,
) (uint64, error) {
	index, err := w.record(ctx, given, build)
	if err != nil {
		return 0, err
	}
	var faults []error
	for _, v := range given.Volumes {
		row, err := w.await(ctx, v.Namespace, v.ID, func(tx *state.ReadTx, row *structs.CSIVolume) (bool, error) {
			return settled(tx, row, v)
		})
		if err != nil {
			faults = append(faults, err)
			continue
		}
		index = max(index, row.ModifyIndex)
		resp.Volumes = append(resp.Volumes, row.Redacted())
	}
	if len(faults) > 0 {
		return 0, structs.Errorf(structs.KindOf(faults[0]), "%w", errors.Join(faults...))
	}
	return index, nil
}

// record proposes the rows, for one request at a time per volume: of two requests that create one volume,
// the second has to see the row of the first with its name. Requests for different volumes run side by
// side. The state function rejects two volumes with the same external ID.
func (w volumeWrites) record(
	ctx context.Context, given *structs.CSIVolumeRegisterRequest, build buildRow,
) (uint64, error) {
	var names []string
	for _, v := range given.Volumes {
		names = append(names, nameOf(v))
	}
	unlock, err := w.lockVolumes(ctx, names)
	if err != nil {
		return 0, err
	}
	defer unlock()
	tx := w.store.Read()
	entry := &structs.CSIVolumeRegisterRequest{WriteOptions: given.WriteOptions}
	for _, v := range given.Volumes {
		wanted, err := build(tx, state.Volume(tx, v.Namespace, v.ID), v)
		if err != nil {
			return 0, err
		}
		entry.Volumes = append(entry.Volumes, wanted)
	}
	return fsm.Propose(ctx, w.raft, fsm.VolumePut, entry)
}

// lockVolumes waits until no other request records one of the volumes. It waits no longer than writePatience,
// and not at all while volumeQueue requests wait. The error then has the time after which to retry.
func (w volumeWrites) lockVolumes(ctx context.Context, names []string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	unlock, err = w.volumeLocks.Lock(ctx, "", names...)
	var held *keylock.Error
	if !errors.As(err, &held) {
		return unlock, err
	}
	limit := "turn patience"
	if errors.Is(held, keylock.ErrFull) {
		limit = "turn full"
	}
	loadshed.CountRefused(limit, 1)
	return nil, structs.Busy(writePatience,
		"nothing was written: others are changing %q and more wait for it", held.Key)
}

// settled reports whether nothing is pending for a requested volume, or why it never will be.
func settled(tx *state.ReadTx, row, asked *structs.CSIVolume) (bool, error) {
	switch {
	case row == nil:
		return false, structs.Conflictf("volume %q was deleted meanwhile", asked.ID)
	case row.State == structs.VolumeFailed:
		return false, lastError("creating", row)
	case row.State == structs.VolumeDeleting:
		return false, structs.Preconditionf("volume %q is being deleted", asked.ID)
	case row.State == structs.VolumeCreating:
		return false, nil
	case row.ExpandPending: // its users may keep it for long
		return state.ExpandBlocked(tx, row) != "", nil
	case row.LastError != nil && asked.RequestedCapacityMin > row.RequestedCapacityMin:
		return false, lastError("expanding", row) // the loop cancels a size that was rejected for good
	}
	return grown(tx, row)
}

// lastError returns the last error of the plugin, with its kind.
func lastError(doing string, v *structs.CSIVolume) error {
	if v.LastError == nil {
		return structs.Internalf("%s volume %q failed", doing, v.ID)
	}
	return structs.Errorf(v.LastError.Kind, "%s volume %q: %s", doing, v.ID, v.LastError.Message)
}

// await waits until the row of a volume satisfies done, at most VolumeTimeout.
func (w volumeWrites) await(ctx context.Context, ns, id string,
	done func(tx *state.ReadTx, row *structs.CSIVolume) (bool, error),
) (*structs.CSIVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, w.config.volumeTimeout)
	defer cancel()
	for {
		tx := w.store.ReadWatched()
		row := state.Volume(tx, ns, id)
		if ok, err := done(tx, row); ok || err != nil {
			return row, err
		}
		if err := w.store.Wait(ctx, tx); err == nil {
			continue
		}
		why := "the plugin has not answered"
		if row.LastError != nil {
			why = row.LastError.Message
		}
		return nil, structs.Timeoutf(
			"volume %q is still %s: %s; the call is retried, repeat the command later", id, pendingName(row), why)
	}
}

func pendingName(v *structs.CSIVolume) string {
	if v.State == structs.VolumeReady {
		return "expanding"
	}
	return v.State
}

// remove has a volume deleted at its plugin and waits until it is gone.
func (w volumeWrites) remove(
	ctx context.Context, req *structs.CSIVolumeDeleteRequest, _ *structs.Empty,
) (uint64, error) {
	if err := req.Validate(); err != nil {
		return 0, err
	}
	ns := req.RequestNamespace()
	tx := w.store.Read()
	row := state.Volume(tx, ns, req.ID)
	if row == nil {
		return 0, noVolume(ns, req.ID)
	}
	if err := deletable(tx, row); err != nil {
		return 0, err
	}
	index, err := fsm.Propose(ctx, w.raft, fsm.VolumeDelete, req)
	if err != nil {
		return 0, err
	}
	_, err = w.await(ctx, ns, req.ID, func(_ *state.ReadTx, row *structs.CSIVolume) (bool, error) {
		switch {
		case row == nil:
			return true, nil
		case row.State == structs.VolumeDeleting:
			return false, nil
		}
		return false, lastError("deleting", row)
	})
	return max(index, w.store.Index()), err
}
