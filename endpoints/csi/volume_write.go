package csi

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/keylock"
	"berth/internal/keyring"
	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/volumesecrets"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// VolumeWrites serve the methods of CSIVolume that change volumes. They record the request. The loop of the
// leader calls the plugin and records the outcome, for which the caller waits.
type VolumeWrites struct {
	*core.Server
	locks *keylock.Map // held while a volume is recorded, by namespace and ID
}

// callTimeout bounds one call to a node.
const callTimeout = 2 * time.Minute

// NewVolumeWrites makes the procedures that change volumes.
func NewVolumeWrites(s *core.Server) VolumeWrites {
	return VolumeWrites{Server: s, locks: s.RowLocks()}
}

// Create requests the creation of volumes, or waits for those in creation. For a ready volume with an equal
// request it returns that volume. The spec is idempotent by name, so a client that repeats its request finds
// the volume of the first one.
func (w VolumeWrites) Create(
	ctx context.Context,
	req *structs.CSIVolumeRegisterRequest,
	resp *structs.CSIVolumeRegisterResponse,
) (uint64, error) {
	given, err := w.checkedCopy(req, true)
	if err != nil {
		return 0, err
	}
	return w.recordAndAwait(ctx, given, resp, rowToCreate)
}

// checkedCopy returns a copy of a request with checked copies of its volumes, which have the values of their
// classes. creates is false if the volumes exist at their plugins.
func (w VolumeWrites) checkedCopy(
	req *structs.CSIVolumeRegisterRequest,
	creates bool,
) (*structs.CSIVolumeRegisterRequest, error) {
	n := len(req.Volumes)
	if n == 0 || n > structs.MaxVolumePuts {
		return nil, structs.Invalidf("Volumes: %d are given; expected 1 to %d",
			n, structs.MaxVolumePuts)
	}
	// All faults of a request come together, so that its user mends them at once.

	var faults []error
	seen := map[string]bool{}
	tx := w.Store.Read()
	given := &structs.CSIVolumeRegisterRequest{WriteOptions: req.WriteOptions}
	for n, v := range req.Volumes {
		if v == nil {
			return nil, structs.Invalidf("Volumes[%d]: nothing is given; expected a volume", n)
		}

		v = v.Copy()
		v.Namespace = cmp.Or(v.Namespace, req.RequestNamespace())
		v.DropServerFields()
		// The checks are for the canonical form, with its defaults.
		v.Canonicalize()
		err := csi.CompleteVolume(tx, v, csi.Volume(tx, v.Namespace, v.ID), creates)
		if err == nil {
			err = validate.Volume(v)
		}
		if err != nil {
			faults = append(faults, err)
		}

		// The order of two rows for one volume in an entry would decide.
		name := qualifiedID(v)
		if seen[name] {
			faults = append(faults, structs.Invalidf("volume %q is given twice", v.ID))
		}

		seen[name] = true
		given.Volumes = append(given.Volumes, v)
	}

	return given, structs.InvalidAll(faults)
}

// qualifiedID returns the ID of a volume with its namespace.
func qualifiedID(v *structs.CSIVolume) string {
	return v.Namespace + "/" + v.ID
}

// recordAndAwait proposes the changes and waits until every volume is settled. Volumes of one request are
// recorded in one entry. Each is waited for in turn, but the leader loop works on all of them.
func (w VolumeWrites) recordAndAwait(
	ctx context.Context,
	given *structs.CSIVolumeRegisterRequest,
	resp *structs.CSIVolumeRegisterResponse,
	build buildRow,
) (uint64, error) {
	index, err := w.recordRows(ctx, given, resp, build)
	if err != nil {
		return 0, err
	}
	settled, err := w.awaitRows(ctx, given, resp)
	return max(index, settled), err
}

// awaitRows waits until every volume is settled, and returns the index of the newest row.
func (w VolumeWrites) awaitRows(
	ctx context.Context,
	given *structs.CSIVolumeRegisterRequest,
	resp *structs.CSIVolumeRegisterResponse,
) (index uint64, err error) {
	// One fault must not hide the outcome of the others.
	plain := false
	var faults []error
	for _, v := range given.Volumes {
		done := func(
			tx *state.ReadTx,
			row *structs.CSIVolume,
		) (bool, error) {
			return isSettled(tx, row, v)
		}

		row, err := w.awaitRow(ctx, v.Namespace, v.ID, done)
		if err != nil {
			faults = append(faults, err)
			continue
		}

		index = max(index, row.ModifyIndex)
		resp.Volumes = append(resp.Volumes, row.Redacted())
		// The row shows whether its secrets are there without encryption.
		if len(row.Secrets) > 0 {
			plain = true
		}
	}

	if plain {
		resp.Warnings = strings.TrimPrefix(resp.Warnings+"\n"+keyring.SealWarning, "\n")
	}
	return index, errors.Join(faults...)
}

// recordRows proposes the rows, for one request at a time per volume: of two requests that create one volume,
// the second has to see the row of the first with its name. Requests for different volumes run concurrently.
// The state function rejects two volumes with the same external ID.
func (w VolumeWrites) recordRows(
	ctx context.Context,
	given *structs.CSIVolumeRegisterRequest,
	resp *structs.CSIVolumeRegisterResponse,
	build buildRow,
) (uint64, error) {
	// The keys are sorted by the lock map, so two requests with the same volumes cannot wait for each other.
	var names []string
	for _, v := range given.Volumes {
		names = append(names, qualifiedID(v))
	}

	unlock, err := core.AwaitTurn(ctx, w.locks, names...)
	if err != nil {
		return 0, err
	}
	defer unlock()

	for range mostRecords {
		index, again, err := w.tryRecord(ctx, given, resp, build)
		if !again {
			return index, err
		}
	}
	index, _, err := w.tryRecord(ctx, given, resp, build)
	return index, err
}

// mostRecords bounds the repetitions of an entry whose rows change again and again before it is applied.
const mostRecords = 8

// tryRecord proposes the rows once. again reports that it is worth to repeat that: a row has changed between
// the checks and the entry, for example because the plugin has answered.
func (w VolumeWrites) tryRecord(
	ctx context.Context,
	given *structs.CSIVolumeRegisterRequest,
	resp *structs.CSIVolumeRegisterResponse,
	build buildRow,
) (index uint64, again bool, err error) {
	// The snapshot is taken under the lock, and so shows what the request before has recorded.
	tx := w.Store.Read()
	entry, warnings, err := w.entryOf(ctx, tx, given, build)
	if err != nil {
		return 0, false, err
	}
	for _, v := range entry.Volumes {
		// The row shows whether its secrets are there without encryption.
		if len(v.Secrets) > 0 {
			w.warnPlain(v.Namespace, v.ID)
		}
	}
	resp.Warnings = warnings
	index, err = fsm.Propose(ctx, w.Raft, fsm.VolumePut, entry)
	again = structs.IsKind(err, structs.KindConflict) && changedSince(tx, w.Store.Read(), given)
	return index, again, err
}

// changedSince reports whether a row of the volumes is another one now. A request that names the index of its
// row is for that row alone.
func changedSince(then, now *state.ReadTx, given *structs.CSIVolumeRegisterRequest) bool {
	for _, v := range given.Volumes {
		if v.ModifyIndex == 0 && indexOf(then, v) != indexOf(now, v) {
			return true
		}
	}
	return false
}

// indexOf returns the index of the last change of the row of a volume, 0 without a row.
func indexOf(tx *state.ReadTx, v *structs.CSIVolume) uint64 {
	row := csi.Volume(tx, v.Namespace, v.ID)
	if row == nil {
		return 0
	}
	return row.ModifyIndex
}

// entryOf returns the entry that records the rows, with the warnings of the admission rules. The error is
// one of the rights of the caller, of a row, or of a rule that denies.
func (w VolumeWrites) entryOf(
	ctx context.Context,
	tx *state.ReadTx,
	given *structs.CSIVolumeRegisterRequest,
	build buildRow,
) (entry *structs.CSIVolumeRegisterRequest, warnings string, err error) {
	entry = &structs.CSIVolumeRegisterRequest{
		WriteOptions: given.WriteOptions,
	}
	err = w.Gate.CheckAgain(ctx, tx, rightOf(given), given)
	if err != nil {
		return nil, "", err
	}

	for _, v := range given.Volumes {
		// The secrets are checked and encrypted here, because a state function has no key.
		old := csi.Volume(tx, v.Namespace, v.ID)
		wanted, err := build(tx, old, v)
		if err == nil {
			err = w.checkModes(tx, wanted)
		}
		if err == nil {
			err = volumesecrets.Check(tx, wanted, old)
		}
		if err == nil {
			w.pin(ctx, tx, wanted, old)
			_, err = w.sealer().Volume(tx, wanted, old)
		}
		if err != nil {
			return nil, "", err
		}
		// The checks hold for this row alone.
		wanted.ModifyIndex = cmp.Or(wanted.ModifyIndex, indexOf(tx, v))
		entry.Volumes = append(entry.Volumes, wanted)
	}

	warnings, err = w.applyRules(ctx, tx, entry)
	return entry, warnings, err
}

// sealer has the level of now: it rises while a cluster is upgraded, and then secrets are encrypted.
func (w VolumeWrites) sealer() volumesecrets.Sealer {
	return volumesecrets.Sealer{Keys: w.Keys, Server: w.Name, RequiresTLS: w.Roles}
}

// warnPlain is for the operator of the servers. The user of the volume gets keyring.SealWarning.
func (w VolumeWrites) warnPlain(namespace, volume string) {
	w.Logger.Warn("storing the secrets of a volume without encryption: the cluster has no root key, "+
		"or a server that does not know encrypted secrets",
		"volume_id", volume,
		"namespace", namespace)
}

// isSettled reports whether nothing is pending for a requested volume. It returns an error if the request can
// never be fulfilled.
func isSettled(tx *state.ReadTx, row, asked *structs.CSIVolume) (bool, error) {
	switch {
	// The row was recorded, so only a deletion can have removed it.
	case row == nil:
		return false, structs.Conflictf("volume %q was deleted meanwhile", asked.ID)
	case row.State == structs.VolumeFailed:
		return false, lastError("creating", row)
	case row.State == structs.VolumeDeleting:
		return false, structs.Preconditionf("volume %q is being deleted", asked.ID)
	case row.State == structs.VolumeCreating:
		return false, nil
	case row.Modifies():
		return false, nil
	case row.LastError != nil && storage.ParametersRejected(row, asked):
		return false, lastError("modifying", row)
	// An expansion may wait for users of the volume (CSI spec, VolumeExpansion OFFLINE). The caller does not.
	case row.Expands(): // its users may keep it for long
		return csi.ExpandBlocked(tx, row) != "", nil
	case row.LastError != nil &&
		asked.RequestedCapacityMin > row.RequestedCapacityMin:
		// The request asks for more than the row has: the loop has given up that size.
		return false, lastError("expanding", row) // the loop cancels a size that was rejected for good
	}
	return expandedOnNodes(tx, row)
}

// lastError returns the last error of the plugin, with its kind.
func lastError(doing string, v *structs.CSIVolume) error {
	if v.LastError == nil {
		return structs.Internalf("%s volume %q failed", doing, v.ID)
	}
	return structs.Errorf(v.LastError.Kind, "%s volume %q: %s",
		doing, v.ID, v.LastError.Message)
}

// awaitRow waits until the row of a volume satisfies done, at most Settings.VolumeTimeout.
func (w VolumeWrites) awaitRow(
	ctx context.Context,
	ns, id string,
	done func(tx *state.ReadTx, row *structs.CSIVolume) (bool, error),
) (*structs.CSIVolume, error) {
	// The work goes on when this wait ends: the row is the order, and not the request.
	ctx, cancel := context.WithTimeout(ctx, w.Settings.VolumeTimeout)
	defer cancel()
	for {
		// It records the reads, so Wait returns after a commit that changed one of them.
		tx := w.Store.ReadWatched()
		row := csi.Volume(tx, ns, id)
		ok, err := done(tx, row)
		if ok || err != nil {
			return row, err
		}

		// Wait returns nil for a change, and an error at the end of ctx.
		if w.Store.Wait(ctx, tx) == nil {
			continue
		}

		reason := "the plugin has not answered"
		// The row is not nil: done has an error for that, or takes it for the end.
		if row.LastError != nil {
			reason = row.LastError.Message
		}

		return nil, structs.Timeoutf(
			"volume %q is still %s: %s; the call is retried, repeat the command later",
			id, pendingName(row), reason)
	}
}

// pendingName says what a ready row waits for: a modification or an expansion.
func pendingName(v *structs.CSIVolume) string {
	if v.Modifies() {
		return "being modified"
	}
	if v.State == structs.VolumeReady {
		return "expanding"
	}
	return v.State
}

// Deregister deletes the row of a volume. Without force it is rejected while a controller call for the
// volume may still take effect.
func (w VolumeWrites) Deregister(
	ctx context.Context,
	req *structs.CSIVolumeDeregisterRequest,
	_ *structs.Empty,
) (uint64, error) {
	// A controller call that has no final answer may still attach or make the volume, which nobody would
	// remove then.
	req.Settle = structs.CallSettles
	if req.Force {
		req.Settle = 0
	} else if err := checkUncounted(w.Store.Read(), req.RequestNamespace(), req.ID); err != nil {
		return 0, err
	}
	return fsm.Propose(ctx, w.Raft, fsm.VolumeDeregister, req)
}

// checkUncounted returns an error if a quota bounds the storage of a namespace, and a volume of it would
// stay at its plugin without being counted. To force it needs a right of its own.
func checkUncounted(tx *state.ReadTx, ns, id string) error {
	spec := namespace.QuotaOf(tx, ns)
	v := csi.Volume(tx, ns, id)
	if v == nil || v.ExternalID == "" || !spec.BoundsStorage() {
		return nil
	}
	return structs.Preconditionf("volume %q would stay at its plugin, and no longer count in the quota %q: "+
		"delete it with `%s`, or, with the right to force, deregister it with `%s`", id, spec.Name,
		structs.CommandLine(ns, "volume delete", id),
		structs.CommandLine(ns, "volume deregister -force", id))
}

// Remove requests the deletion of a volume at its plugin and waits until the row is deleted. It does not wait
// for a volume that is deleted later.
func (w VolumeWrites) Remove(
	ctx context.Context,
	req *structs.CSIVolumeDeleteRequest,
	_ *structs.Empty,
) (uint64, error) {
	if err := validate.VolumeDelete(req); err != nil {
		return 0, err
	}

	// Only a server fills in this field.
	req.SealedSecrets = nil
	ns := req.RequestNamespace()
	tx := w.Store.Read()
	row := csi.Volume(tx, ns, req.ID)
	if row == nil {
		return 0, noVolume(ns, req.ID)
	}

	err := checkDeletable(tx, row)
	// The plugin may need the secrets for DeleteVolume. A volume that failed to be made needs none.
	if err == nil && len(req.Secrets) == 0 && row.State != structs.VolumeFailed {
		err = volumesecrets.Check(tx, row, nil)
	}
	if err != nil {
		return 0, err
	}

	// The copy goes to the log with encrypted secrets. The request of a caller in this process keeps its own.
	entry := *req
	plain, err := w.sealer().Deletion(tx, &entry)
	if err != nil {
		return 0, err
	}

	if plain {
		w.warnPlain(ns, req.ID)
	}

	index, err := fsm.Propose(ctx, w.Raft, fsm.VolumeDelete, &entry)
	if err != nil {
		return 0, err
	}

	asked := row.CreateIndex
	gone := func(_ *state.ReadTx, row *structs.CSIVolume) (bool, error) { return isGone(asked, row) }

	// The store has the index of the deletion of the row.
	_, err = w.awaitRow(ctx, ns, req.ID, gone)
	return max(index, w.Store.Index()), err
}

// isGone reports whether the volume whose row had a CreateIndex is deleted, or is to be deleted later. row is
// the present one with its ID, nil for none.
func isGone(asked uint64, row *structs.CSIVolume) (bool, error) {
	switch {
	case row == nil, row.Marked(): // the loop deletes the row after the plugin has answered
		return true, nil
	case row.CreateIndex != asked: // somebody has created another volume since
		return true, nil
	case row.State == structs.VolumeDeleting:
		return false, nil
	}
	// The deletion failed for good: the row is no longer being deleted.
	return false, lastError("deleting", row)
}
