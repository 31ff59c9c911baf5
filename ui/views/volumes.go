package views

import (
	"cmp"

	"berth/api/show"
	"berth/structs"
)

// VolumeColumns are the columns of VolumeRow.
var VolumeColumns = show.Volumes.Pick("ID|Namespace|Plugin|Class|State|Schedulable|Access Mode=Access|" +
	"Readers|Writers|Waiting|Drift|Created")

// volumeTones are the tones of the states of a volume.
var volumeTones = map[string]Tone{
	structs.VolumeReady:    Good,
	structs.VolumeCreating: Busy,
	structs.VolumeDeleting: Busy,
	structs.VolumeFailed:   Bad,
}

// VolumeRow shows a volume of a list.
func VolumeRow(v *structs.CSIVolumeListStub) Row {
	state := toned(v.State, volumeTones)
	if v.DeleteAt != 0 {
		state = Cell{Text: "deleted " + show.Age(v.DeleteAt), Tone: Busy}
	}
	return Row{
		Key: v.Namespace + "/" + v.ID,
		Cells: cells(VolumeColumns, v, marks{
			"ID":          {Link: To(VolumePath, v.Namespace, v.ID)},
			"Plugin":      {Link: To(PluginPath, "", v.PluginID)},
			"State":       state,
			"Schedulable": {Tone: toneIf(Bad, !v.Schedulable)},
			"Access":      text(string(cmp.Or(v.AccessMode, "none"))),
			"Waiting":     {Tone: toneIf(Busy, v.Waiting > 0)},
			"Drift":       {Tone: toneIf(Bad, v.Drift != "")},
		}),
	}
}

var claimColumns = show.Claims.Pick("Volume|Mode|State|Place=Position|Cause=Reason|Since")

// claimTones are the tones of the states of a claim.
var claimTones = map[string]Tone{
	structs.ClaimGranted: Good,
	structs.ClaimWaiting: Busy,
}

// ClaimTable shows some claims on volumes.
func ClaimTable(all []*structs.VolumeClaimStub) Table {
	t := Table{
		Caption: "Claims on volumes",
		Columns: claimColumns.Titles,
		Empty:   "The allocation has no claims on volumes.",
	}
	for _, c := range all {
		t.Rows = append(t.Rows, Row{
			Key: c.ID,
			Cells: cells(claimColumns, c, marks{
				"Volume": {Link: To(VolumePath, c.Namespace, c.VolumeID)},
				"State":  toned(c.State, claimTones),
			}),
		})
	}
	return t
}
