package fsm

import (
	"maps"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// healthDraws draws the health of few volumes, so that rows come, change and go.
var healthDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"HealthRecord": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &storage.HealthRecordRequest{PluginID: "p", WriteOptions: d.now()}
		for range 2 {
			k := storage.UsageKey{Namespace: structs.DefaultNamespace, VolumeID: d.vol()}
			if d.flip() {
				p.Gone = append(p.Gone, k)
				continue
			}
			row := &storage.VolumeHealth{
				Namespace: k.Namespace, VolumeID: k.VolumeID, PluginID: p.PluginID, ExternalID: d.of("x", "y"),
				Condition: &storage.VolumeCondition{Abnormal: d.flip(), Message: d.of("a", "b")},
			}
			if v := csi.Volume(tx, k.Namespace, k.VolumeID); v != nil {
				row.ExternalID = v.ExternalID
			}
			p.Found = append(p.Found, row)
		}
		return HealthRecord.Encode(p)
	},
}

func init() { maps.Copy(draws, healthDraws) }
