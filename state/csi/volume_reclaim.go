package csi

import (
	"berth/internal/mvcc"
	"berth/state/clustertime"
	"berth/state/schema"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// markVolume makes a ready volume one that is deleted after its delay. Claims of allocations that have ended
// may still be there: the deletion waits for them. A volume that is marked already keeps its time.
func markVolume(tx *mvcc.WriteTx, v *structs.CSIVolume, cause string, now int64) {
	if v.Marked() {
		return
	}

	v = v.Copy()

	// 0 means that the volume is not marked.
	v.DeleteAt = max(now+int64(storage.DeleteDelay(v)), 1)
	if cause == storage.DeletedByAlloc {
		v.DeleteAt = max(now, 1) // whatever the rule of its class is
	}
	v.DeleteCause = cause
	v.ModifyTime = now
	unblock.PutVolumeWithout(tx, v)
}

// unmark makes a volume one that stays.
func unmark(v *structs.CSIVolume) {
	v.DeleteAt = 0
	v.DeleteCause = ""
}

// markByOperator is VolumeDelete for a volume that is deleted later.
func markByOperator(tx *mvcc.WriteTx, v *structs.CSIVolume, p *structs.CSIVolumeDeleteRequest) error {
	if p.Secrets != nil || p.SealedSecrets != nil {
		return structs.Preconditionf("volume %q is deleted %s later, with its own secrets; "+
			"to delete it at once with those of the request, add -now", v.ID, storage.DeleteDelay(v))
	}

	users := liveUsersOf(tx, v)
	if users != "" {
		return structs.Preconditionf("%s", users)
	}

	markVolume(tx, v, storage.DeletedByOperator, p.Now)
	return nil
}

// VolumeUndelete keeps a marked volume, or one whose plugin was not called yet to delete it: there may be no
// controller. It grants the claims that have waited for that.
func VolumeUndelete(tx *mvcc.WriteTx, p *storage.VolumeUndeleteRequest) error {
	v, err := findVolume(tx, p.RequestNamespace(), p.ID)
	switch {
	case err != nil:
		return err
	case v.State == structs.VolumeDeleting && !keepable(v):
		return structs.Preconditionf("volume %q is being deleted: its plugin may have been called already", v.ID)
	case v.State != structs.VolumeDeleting && !v.Marked():
		return nil
	}

	v = v.Copy()
	v.State = structs.VolumeReady
	EndDeletion(v)
	unmark(v)
	Disown(v)
	v.ModifyTime = p.Now
	if !v.Expands() {
		v.LastError = nil // of a deletion
	}
	storeVolume(tx, v, p.Now)
	return nil
}

// keepable reports whether a volume that is being deleted is surely still there. Each call is recorded before
// it is made. An older version has recorded only calls without a final answer, and their errors.
func keepable(v *structs.CSIVolume) bool {
	failed := v.LastError != nil && v.LastError.Kind != structs.KindUnavailable
	return v.ExternalID != "" && v.Call == nil && !v.DeleteCalled && !failed
}

// VolumeReclaim begins the deletion of a marked volume whose time has come, and which nobody has. It ignores
// a volume that was kept or changed meanwhile.
func VolumeReclaim(tx *mvcc.WriteTx, p *storage.VolumeReclaimRequest) error {
	v := Volume(tx, p.RequestNamespace(), p.ID)
	switch {
	case v == nil || v.CreateIndex != p.RowIndex:
		return nil
	case !v.Marked() || v.DeleteAt != p.DeleteAt || p.Now < clustertime.Deadline(clustertime.Of(tx), v.DeleteAt):
		return nil
	case UsersOf(tx, v) != "":
		return nil
	}

	v = v.Copy()
	beginDeletion(v, p.Now)
	unblock.PutVolumeWithout(tx, v)
	return nil
}

// markAgain marks a volume whose deletion the plugin has rejected for good. Nobody may be there to repeat it,
// so the servers do, later.
func markAgain(v *structs.CSIVolume, now int64) {
	v.DeleteAt = now + int64(storage.DeleteAgain)
	v.LastError.RetryTime = v.DeleteAt
}

// RetryReclaim makes the leader check a volume again that waited for its users to leave.
func RetryReclaim(tx *mvcc.WriteTx, ns, volume string, now int64) {
	v := Volume(tx, ns, volume)
	switch {
	case v == nil:
	case v.Marked() && UsersOf(tx, v) == "":
		unblock.PutVolumeWithout(tx, v.Copy())
	case v.State == structs.VolumeFailed:
		giveUp(tx, v, now)
	}
}

// retrySource is RetryReclaim for the volume of which another one was a copy.
func retrySource(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	if v.CloneSource != nil && v.CloneSource.ID != "" {
		RetryReclaim(tx, v.CloneSource.Namespace, v.CloneSource.ID, now)
	}
}

// Disown makes the volume of an allocation one of its own, for which nobody has asked. A person keeps it, and
// deletes it.
func Disown(v *structs.CSIVolume) {
	if v.AllocID != "" {
		v.AllocID = ""
		v.JobID = ""
	}
}

// EndAllocVolumes gives up the volumes that live as long as an allocation that has ended.
func EndAllocVolumes(tx *mvcc.WriteTx, a *structs.Allocation, now int64) {
	for i := range a.CSIVolumes {
		v := Volume(tx, a.Namespace, a.CSIVolumes[i].VolumeID)
		if v != nil && v.AllocID == a.ID {
			giveUp(tx, v, now)
		}
	}
}

// isGivenUp reports whether the job of a volume is gone, or the allocation with which it ends has ended.
func isGivenUp(tx mvcc.Reader, v *structs.CSIVolume) bool {
	if v.AllocID != "" {
		a := schema.Allocs.Get(tx, v.AllocID)
		return a == nil || a.ClientTerminal()
	}
	return v.JobID != "" && !schema.Jobs.Has(tx, v.Namespace, v.JobID)
}

// giveUp applies the reclaim rule to a volume whose job is gone, or whose allocation has ended. One that
// could not be created has nothing to keep, and goes with its last claim.
func giveUp(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	switch {
	case !isGivenUp(tx, v):
	case v.State == structs.VolumeReady && v.AllocID != "":
		markVolume(tx, v, storage.DeletedByAlloc, now)
	case v.State == structs.VolumeReady && v.Reclaim == storage.ReclaimDelete:
		markVolume(tx, v, storage.DeletedByPurge, now)
	case v.State == structs.VolumeFailed && UsersOf(tx, v) == "":
		deleteFailed(tx, v, now)
	}
}

// deleteFailed deletes the row of a volume that could not be created, through the plugin if that may have
// made it all the same.
func deleteFailed(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	if NeverCreated(v) && !mayExist(v) {
		deleteVolume(tx, v)
		return
	}
	v = v.Copy()
	beginDeletion(v, now)
	unblock.PutVolumeWithout(tx, v)
}
