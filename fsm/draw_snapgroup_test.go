package fsm

import (
	"maps"

	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	taken "berth/structs/storage"
)

// snapgroupDraws draws entries about few groups of few volumes, so that each finds the rows of others.
var snapgroupDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"SnapshotGroupPut": func(d dice, tx *state.ReadTx) ([]byte, error) {
		var volumes []*structs.CSIVolume
		for range 1 + d.upTo(2) {
			v := csi.Volume(tx, structs.DefaultNamespace, d.vol())
			if v == nil {
				v = &structs.CSIVolume{
					Namespace: structs.DefaultNamespace, ID: d.vol(),
					CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"},
				}
			}
			volumes = append(volumes, v)
		}
		p := snapshot.GroupsOf(volumes, d.of("g1", "g2", ""), "i")
		p.Group.Parameters = map[string]string{"k": d.of("a", "a", "b")}
		p.WriteOptions = d.now()
		return SnapshotGroupPut.Encode(p)
	},
	"SnapshotGroupDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SnapshotGroupDelete.Encode(&taken.SnapshotDeleteEntry{
			Name:         d.of("g1", "g2"),
			WriteOptions: d.now(),
		})
	},
	"SnapshotGroupNote": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &taken.SnapshotNoteEntry{Name: d.of("g1", "g2"), WriteOptions: d.now()}
		if g := snapshot.Group(tx, structs.DefaultNamespace, p.Name); g != nil {
			p.RowIndex = g.CreateIndex
			p.Call = &structs.CSICall{NodeID: d.node(), Op: g.Next()}
		}
		return SnapshotGroupNote.Encode(p)
	},
	"SnapshotGroupOutcome": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &taken.SnapshotOutcomeEntry{
			Name: d.of("g1", "g2"),
			Outcome: taken.Outcome{
				Op:       d.of(taken.OpGroupCreate, taken.OpGroupLearn, taken.OpGroupDelete),
				Err:      d.failure(),
				Final:    d.flip(),
				KeepCall: d.flip(),
			},
			WriteOptions: d.now(),
		}
		g := snapshot.Group(tx, structs.DefaultNamespace, p.Name)
		if g == nil {
			return SnapshotGroupOutcome.Encode(p)
		}
		p.RowIndex = g.CreateIndex
		p.Op = d.of(p.Op, g.Next())
		if d.flip() {
			p.Answer = &taken.CSIGroup{ID: d.of("x", "y"), IsReady: d.flip()}
			for _, m := range snapshot.Members(tx, g) {
				p.Answer.Snapshots = append(p.Answer.Snapshots, &taken.CSISnapshot{
					ID:                     d.of("x", "y") + m.VolumeID,
					ExternalSourceVolumeID: m.SourceExternalID,
				})
			}
		}
		return SnapshotGroupOutcome.Encode(p)
	},
}

func init() { maps.Copy(draws, snapgroupDraws) }
