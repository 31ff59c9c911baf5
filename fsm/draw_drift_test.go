package fsm

import (
	"maps"

	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// driftDraws draws differences of few volumes and nodes, so that a repair finds one.
var driftDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"DriftRecord": func(d dice, _ *state.ReadTx) ([]byte, error) {
		row := d.drift()
		p := &storage.DriftRecordRequest{
			PluginID:     row.PluginID,
			Found:        []*storage.VolumeDrift{row},
			Gone:         []storage.DriftKey{d.drift().Key()},
			WriteOptions: d.now(),
		}
		if d.flip() {
			p.Summary = &storage.DriftSummary{PluginID: row.PluginID, Counts: map[string]int{row.Kind: d.upTo(2)}}
		}
		return DriftRecord.Encode(p)
	},
	"DriftRepair": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return DriftRepair.Encode(&storage.DriftRepairRequest{DriftKey: d.drift().Key(), WriteOptions: d.now()})
	},
}

func (d dice) drift() *storage.VolumeDrift {
	row := &storage.VolumeDrift{
		PluginID:   "p",
		Kind:       d.of(storage.DriftKinds...),
		ExternalID: d.of("x", "y"),
		Namespace:  structs.DefaultNamespace,
		VolumeID:   d.vol(),
		NodeID:     d.node(),
	}
	row.ExternalNodeID = row.NodeID
	return row
}

func init() { maps.Copy(draws, driftDraws) }
