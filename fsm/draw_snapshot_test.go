package fsm

import (
	"maps"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	taken "berth/structs/storage"
)

// snapshotDraws draws entries about few snapshots of few volumes, so that each finds the rows of others.
var snapshotDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"SnapshotPut": func(d dice, tx *state.ReadTx) ([]byte, error) {
		s := &taken.VolumeSnapshot{
			Namespace:  structs.DefaultNamespace,
			Name:       d.of("s1", "s2", ""),
			ID:         "i",
			VolumeID:   d.vol(),
			Parameters: map[string]string{"k": d.of("a", "a", "b")},
		}
		if v := csi.Volume(tx, s.Namespace, s.VolumeID); v != nil {
			s.VolumeIndex = v.CreateIndex
			s.PluginID = v.PluginID
			s.SourceExternalID = v.ExternalID
		}
		return SnapshotPut.Encode(&taken.SnapshotPutEntry{
			Snapshots:    []*taken.VolumeSnapshot{s},
			WriteOptions: d.now(),
		})
	},
	"SnapshotDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SnapshotDelete.Encode(&taken.SnapshotDeleteEntry{Name: d.of("s1", "s2"), WriteOptions: d.now()})
	},
	"SnapshotNote": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &taken.SnapshotNoteEntry{Name: d.of("s1", "s2"), WriteOptions: d.now()}
		if s := csi.Snapshot(tx, structs.DefaultNamespace, p.Name); s != nil {
			p.RowIndex = s.CreateIndex
			p.Call = &structs.CSICall{NodeID: d.node(), Op: s.Next()}
		}
		return SnapshotNote.Encode(p)
	},
	"SnapshotOutcome": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &taken.SnapshotOutcomeEntry{
			Name: d.of("s1", "s2"),
			Outcome: taken.Outcome{
				Op:       d.of(taken.OpSnapshotCreate, taken.OpSnapshotLearn, taken.OpSnapshotDelete),
				Err:      d.failure(),
				Final:    d.flip(),
				KeepCall: d.flip(),
			},
			WriteOptions: d.now(),
		}
		s := csi.Snapshot(tx, structs.DefaultNamespace, p.Name)
		if s == nil {
			return SnapshotOutcome.Encode(p)
		}
		p.RowIndex = s.CreateIndex
		p.Op = d.of(p.Op, s.Next())
		if d.flip() {
			p.Answer = taken.GroupOfOne(&taken.CSISnapshot{
				ID: d.of("x", "y"), SizeBytes: int64(d.upTo(9)), IsReady: d.flip(),
			}, s.SourceExternalID)
		}
		return SnapshotOutcome.Encode(p)
	},
}

func init() { maps.Copy(draws, snapshotDraws) }
