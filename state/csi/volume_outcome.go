package csi

import (
	"cmp"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// VolumeOutcome records the outcome of a creation, deletion, expansion or modification of a volume. It
// ignores the outcome if the volume no longer needs that call. A creation that ended after the request to
// delete still reports the volume to delete.
func VolumeOutcome(tx *mvcc.WriteTx, p *structs.CSIVolumeOutcome) error {
	apply := map[string]func(*mvcc.WriteTx, *structs.CSIVolume, *structs.CSIVolumeOutcome){
		"create": recordCreation,
		"delete": recordDeletion,
		"expand": recordExpansion,
		"modify": recordModification,
	}[p.Op]

	if apply == nil {
		return structs.Invalidf("%q is not create, delete, expand or modify", p.Op)
	}

	v := Volume(tx, p.RequestNamespace(), p.ID)
	if v == nil ||
		p.RowIndex != 0 && p.RowIndex != v.CreateIndex {
		return nil
	}

	v = v.Copy()
	v.ModifyTime = p.Now
	if !p.KeepCall {
		v.Call = nil
	}

	apply(tx, v, p)
	retrySource(tx, v, p.Now)
	return nil
}

func recordCreation(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	switch {
	case v.State == structs.VolumeDeleting &&
		p.Err == nil &&
		v.ExternalID == "":
		recordLateCreation(tx, v, p)
		return
	case v.State != structs.VolumeCreating:
		return
	case p.Err != nil:
		noteUnanswered(v, p.Err)
		if isOutdated(v, p) {
			unblock.PutVolumeWithout(tx, v)
			return
		}

		v.LastError = CountFailure(v.LastError, p.Err)
		if p.Final {
			v.State = structs.VolumeFailed
			noteExhausted(tx, v, p.Now)
		}

		unblock.PutVolumeWithout(tx, v)
		if v.State == structs.VolumeFailed && v.JobID != "" {
			unblock.Volume(tx, v) // the next allocation of the job has it made again
		}
		giveUp(tx, v, p.Now)
		return
	}

	adoptCreated(v, p)
	v.State = structs.VolumeReady
	v.LastError = nil
	err := checkExternalFree(tx, v)
	if err != nil {
		// The ID belongs to another volume. Without it, a deletion of this row cannot destroy that volume.
		v.ExternalID = ""
		v.State = structs.VolumeFailed
		v.LastError = &structs.OperationError{
			Message:  err.Error(),
			Kind:     structs.KindConflict,
			Attempts: 1,
			Time:     p.Now,
		}
	}

	// The volume was made with the size of the call. A larger one was requested meanwhile.
	if p.Asked != nil && v.State == structs.VolumeReady && v.TooSmall() {
		v.FormerCapacityMin = p.Asked.Min
		beginExpansion(tx, v)
	}
	storeVolume(tx, v, p.Now)
	giveUp(tx, v, p.Now)
}

// isOutdated reports whether an outcome is of a call with other sizes than the volume has to have now. A
// failure of that call says nothing about the present request.
func isOutdated(v *structs.CSIVolume, p *structs.CSIVolumeOutcome) bool {
	return p.Asked != nil && *p.Asked != v.Asked()
}

// noteUnanswered records that a failed CreateVolume may have made the volume. An internal error does not tell
// that, and the record of its call is deleted.
func noteUnanswered(v *structs.CSIVolume, failed *structs.OperationError) {
	if v.ExternalID == "" && failed.Kind == structs.KindInternal {
		v.Unanswered = true
	}
}

// noteExhausted records the place of a failed volume in which its plugin had no space, if the volume is one
// that a job has asked for: another place may have some.
func noteExhausted(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	if v.JobID != "" && v.LastError.Code == structs.CSICodeExhausted {
		NoteExhaustion(tx, v, now)
	}
}

// recordLateCreation records a creation whose deletion was requested while the call was in flight. From now
// on the row names what to delete.
func recordLateCreation(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	adoptCreated(v, p)

	// The ID belongs to another volume, which the deletion would destroy.
	if checkExternalFree(tx, v) != nil {
		deleteVolume(tx, v)
		return
	}

	unblock.PutVolumeWithout(tx, v)
}

// adoptCreated gives a volume the facts that its plugin has answered to a creation.
func adoptCreated(v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	v.ExternalID = p.ExternalID
	v.Unanswered = false
	v.Capacity = p.Capacity
	v.Context = p.Context
	v.Topologies = p.Topologies
	v.AppliedParameters = v.MutableParameters // CreateVolume had them
}

func recordDeletion(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	switch {
	case v.State != structs.VolumeDeleting:
	case p.Err == nil:
		deleteVolume(tx, v)
	default:
		v.LastError = CountFailure(v.LastError, p.Err)
		noteUnanswered(v, p.Err)
		if p.Final {
			v.State = structs.VolumeReady
			EndDeletion(v)
			switch {
			case v.AllocID != "" && v.ExternalID != "" && isGivenUp(tx, v):
				v.DeleteCause = storage.DeletedByAlloc // a person may have begun this deletion
				markAgain(v, p.Now)
			case v.DeleteCause == storage.DeletedByPurge && schema.Jobs.Has(tx, v.Namespace, v.JobID):
				unmark(v) // the job is back, and wants it
			case v.Marked():
				markAgain(v, p.Now)
			}
		}

		// It was not created, so it cannot be ready.
		if p.Final && v.ExternalID == "" {
			v.State = structs.VolumeFailed
		}

		// After a final failure the volume can be used again.
		storeVolume(tx, v, p.Now)
	}
}

// recordExpansion stores the new size. It cancels a size that the plugin rejected for good, so that another
// can be requested. An outcome settles only the size of its own call: a request that has changed since then
// stays pending.
func recordExpansion(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	switch {
	case !v.Expands():
		return
	case p.Err == nil:
		recordSize(tx, v, p)
	case isOutdated(v, p):
	default:
		v.LastError = CountFailure(v.LastError, p.Err)
		if p.Final {
			v.ExpandPending = false

			// The request is taken back, so that the next one is compared with the size that the volume has. A
			// request that an older version has recorded has no former one.
			known := min(v.RequestedCapacityMin, v.Capacity)
			v.RequestedCapacityMin = cmp.Or(v.FormerCapacityMin, known)
			v.FormerCapacityMin = 0
		}
	}

	plugin := Plugin(tx, v.PluginID)
	if !v.Expands() && plugin != nil && plugin.ExpandsOffline {
		storeVolume(tx, v, p.Now) // claims have waited for it
		return
	}

	unblock.PutVolumeWithout(tx, v)
}

// recordSize stores the size of a volume that its plugin has expanded.
func recordSize(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeOutcome) {
	v.Capacity = max(p.Capacity, v.Capacity)
	v.ExpandPending = false
	v.FormerCapacityMin = 0
	v.LastError = nil
	if p.NodeExpandBytes > 0 {
		expandOnNodes(tx, v, p.NodeExpandBytes)
	}

	// A larger size was requested during the call. This one is met.
	if p.Asked != nil && v.TooSmall() {
		v.ExpandPending = true
		v.FormerCapacityMin = p.Asked.Min
	}
}
