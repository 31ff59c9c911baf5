package reclaim

import (
	"time"

	"berth/structs"
	"berth/structs/class"
)

// ByOperator is the structs.CSIVolume.DeleteCause of a volume that somebody has asked to delete. It is shown
// to people.
const ByOperator = "volume delete"

// ByPurge is the structs.CSIVolume.DeleteCause of a volume whose job was deleted.
const ByPurge = "the job was purged"

// ByAlloc is the structs.CSIVolume.DeleteCause of a volume whose allocation has ended.
const ByAlloc = "its allocation has ended"

// Again is the time from a deletion that the plugin rejected for good to the next one.
const Again = time.Hour

// Delay returns the time from the moment at which a volume is no longer wanted to its deletion. A volume
// whose rule is not class.Delete is deleted at once, so its delay is 0. So is the delay of a volume that is
// not ready, because no task has written to it.
func Delay(v *structs.CSIVolume) time.Duration {
	if v.Reclaim != class.Delete || v.State != structs.VolumeReady {
		return 0
	}
	return DelayWhenReady(v)
}

// DelayWhenReady returns the delay of a volume whose rule is class.Delete, once it is ready.
func DelayWhenReady(v *structs.CSIVolume) time.Duration {
	if v.DeleteAfter == nil {
		return class.DefaultDeleteAfter
	}
	return *v.DeleteAfter
}

// UndeleteCommand returns the command that keeps a marked volume.
func UndeleteCommand(v *structs.CSIVolume) string {
	return structs.CommandLine(v.Namespace, "volume undelete", v.ID)
}

// Undelete keeps a marked volume. It changes no other one. The error is a precondition once the volume is
// being deleted.
var Undelete = structs.Write[VolumeUndeleteRequest, structs.Empty]("CSIVolume.Undelete")

// VolumeUndeleteRequest names the volume.
type VolumeUndeleteRequest struct {
	ID string
	structs.WriteOptions
}

// VolumeReclaimRequest is the log entry that begins the deletion of a marked volume.
type VolumeReclaimRequest struct {
	ID       string
	RowIndex uint64 // CreateIndex of the row
	// DeleteAt is that of the row. A volume that was kept, and marked again, has another one.
	DeleteAt int64
	structs.WriteOptions
}
