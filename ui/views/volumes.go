package views

import (
	"cmp"
	"fmt"

	"berth/api/show"
	"berth/structs"
)

// VolumeColumns are the titles of VolumeRow.
var VolumeColumns = []string{
	"ID", "Namespace", "Plugin", "Class", "State", "Schedulable", "Access", "Readers", "Writers", "Waiting",
	"Drift", "Created",
}

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
	schedulable := Cell{Text: show.YesNo(v.Schedulable)}
	if !v.Schedulable {
		schedulable.Tone = Bad
	}
	waiting := number(v.Waiting)
	if v.Waiting > 0 {
		waiting.Tone = Busy
	}
	drift := text(v.Drift)
	if v.Drift != "" {
		drift.Tone = Bad
	}
	return Row{
		Key: v.Namespace + "/" + v.ID,
		Cells: []Cell{
			link(v.ID, To(VolumePath, v.Namespace, v.ID)),
			text(v.Namespace),
			link(v.PluginID, To(PluginPath, "", v.PluginID)),
			text(v.Class),
			state,
			schedulable,
			text(string(cmp.Or(v.AccessMode, "none"))),
			number(v.CurrentReaders),
			number(v.CurrentWriters),
			waiting,
			drift,
			age(v.CreateTime),
		},
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
