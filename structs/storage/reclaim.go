package storage

import (
	"time"

	"berth/structs"
)

// DeletedByOperator is the structs.CSIVolume.DeleteCause of a volume that somebody has asked to delete. It is
// shown to people.
const DeletedByOperator = "volume delete"

// DeletedByPurge is the structs.CSIVolume.DeleteCause of a volume whose job was deleted.
const DeletedByPurge = "the job was purged"

// DeletedByAlloc is the structs.CSIVolume.DeleteCause of a volume whose allocation has ended.
const DeletedByAlloc = "its allocation has ended"

// DeleteAgain is the time from a deletion that the plugin rejected for good to the next one.
const DeleteAgain = time.Hour

// A volume that is no longer wanted is marked: its row has the time of its deletion, and stays ready until
// then. structs.CSIVolume.Marked tells it. A volume is deleted once this time has come and no claim and no
// attachment of it is left.

// DeleteDelay returns the time from the moment at which a volume is no longer wanted to its deletion. A
// volume whose rule is not storage.ReclaimDelete is deleted at once, so its delay is 0. So is the delay of a
// volume that is not ready, because no task has written to it.
func DeleteDelay(v *structs.CSIVolume) time.Duration {
	if v.Reclaim != ReclaimDelete || v.State != structs.VolumeReady {
		return 0
	}
	return DeleteDelayWhenReady(v)
}

// DeleteDelayWhenReady returns the delay of a volume whose rule is storage.ReclaimDelete, once it is ready.
func DeleteDelayWhenReady(v *structs.CSIVolume) time.Duration {
	if v.DeleteAfter == nil {
		return DefaultDeleteAfter
	}
	return *v.DeleteAfter
}

// UndeleteCommand returns the command that keeps a marked volume.
func UndeleteCommand(v *structs.CSIVolume) string {
	return structs.CommandLine(v.Namespace, "volume undelete", v.ID)
}

// VolumeUndelete keeps a marked volume. It changes no other one. The error is a precondition once the volume
// is being deleted.
var VolumeUndelete = structs.Write[VolumeUndeleteRequest, structs.Empty]("CSIVolume.Undelete")

// VolumeUndeleteRequest names the volume.
type VolumeUndeleteRequest struct {
	ID string
	structs.WriteOptions
}

// VolumeReclaimRequest is the log entry that begins the deletion of a marked volume.
type VolumeReclaimRequest struct {
	ID       string
	RowIndex uint64 // CreateIndex of the row
	// DeleteAt is the row's. A volume that was kept, and marked again, has another one.
	DeleteAt int64
	structs.WriteOptions
}
