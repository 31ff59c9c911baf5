package fsm

import (
	"maps"

	"berth/state"
	"berth/structs"
	"berth/structs/drift"
)

// driftDraws draws differences of few volumes and nodes, so that a repair finds one.
var driftDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"DriftRecord": func(d dice, _ *state.ReadTx) ([]byte, error) {
		row := d.drift()
		p := &drift.DriftRecordRequest{
			PluginID:     row.PluginID,
			Found:        []*drift.VolumeDrift{row},
			Gone:         []drift.DriftKey{d.drift().Key()},
			WriteOptions: d.now(),
		}
		if d.flip() {
			p.Summary = &drift.DriftSummary{PluginID: row.PluginID, Counts: map[string]int{row.Kind: d.upTo(2)}}
		}
		return DriftRecord.Encode(p)
	},
	"DriftRepair": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return DriftRepair.Encode(&drift.DriftRepairRequest{DriftKey: d.drift().Key(), WriteOptions: d.now()})
	},
}

func (d dice) drift() *drift.VolumeDrift {
	row := &drift.VolumeDrift{
		PluginID:   "p",
		Kind:       d.of(drift.Kinds...),
		ExternalID: d.of("x", "y"),
		Namespace:  structs.DefaultNamespace,
		VolumeID:   d.vol(),
		NodeID:     d.node(),
	}
	row.ExternalNodeID = row.NodeID
	return row
}

func init() { maps.Copy(draws, driftDraws) }
