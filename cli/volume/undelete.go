package volume

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"berth/api/show"
	"berth/api/volumes"
	"berth/cli/command"
	"berth/cli/watch"
	"berth/structs"
	"berth/structs/storage"
)

var undeleteCommand = command.Command{
	Name:     "undelete",
	Args:     "<volume>",
	Synopsis: "Keep a volume that is marked to be deleted",
	Acts:     true,
	Run: func(ctx context.Context, c *command.Call) error {
		id := c.Arg(0)
		err := volumes.Undelete(ctx, c.API, id)
		if err != nil {
			return watch.VolumeFault(ctx, c, id, err)
		}
		return c.Report(command.Changed{"VolumeID": id}, "Volume %q stays", id)
	},
	Examples: "berth volume undelete data",
}

// reportMark tells that a volume is deleted later.
func reportMark(w *watch.Watch, v *structs.CSIVolumeDetail) error {
	w.WriteLine("Volume %q is marked: its plugin deletes it after %s", v.ID, show.Nanos(v.DeleteAt))
	w.WriteLine("  to keep it: %s", storage.UndeleteCommand(&v.CSIVolume))
	w.WriteLine("  to delete it at once: %s", structs.CommandLine(v.Namespace, "volume delete -now", v.ID))
	return w.Call.WriteOutcome(command.Changed{
		"VolumeID": v.ID,
		"DeleteAt": time.Unix(0, v.DeleteAt).UTC().Format(time.RFC3339),
	})
}

// markText is the line of a marked volume in its status, "" for another one.
func markText(v *structs.CSIVolume) string {
	if !v.Marked() {
		return ""
	}
	return fmt.Sprintf("%s (%s); to keep it: %s", show.DeletionTime(v.DeleteAt, show.Nanos), v.DeleteCause,
		storage.UndeleteCommand(v))
}

// reclaimText describes the rule for the deletion of a volume.
func reclaimText(v *structs.CSIVolume) string {
	if v.Reclaim != storage.ReclaimDelete {
		return cmp.Or(v.Reclaim, storage.ReclaimRetain)
	}
	after := storage.DeleteDelayWhenReady(v)
	if after == 0 {
		return "delete, at once"
	}
	return fmt.Sprintf("delete, after %s", after)
}
