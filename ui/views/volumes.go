package views

import (
	"cmp"
	"fmt"

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

// ClaimTable shows some claims on volumes.
func ClaimTable(all []*structs.VolumeClaimStub) Table {
	t := Table{
		Caption: "Claims on volumes",
		Columns: []string{"Volume", "Mode", "State", "Position", "Reason", "Since"},
		Empty:   "The allocation has no claims on volumes.",
	}
	for _, c := range all {
		state := Cell{Text: c.State, Tone: Good}
		position := ""
		if c.State == structs.ClaimWaiting {
			state.Tone = Busy
			position = fmt.Sprint(c.Position)
		}
		t.Rows = append(t.Rows, Row{
			Key: c.ID,
			Cells: []Cell{
				link(c.VolumeID, To(VolumePath, c.Namespace, c.VolumeID)), text(c.Mode), state, text(position),
				text(c.CauseText), age(c.Since),
			},
		})
	}
	return t
}
