package fsm

import (
	"maps"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// classDraws draws entries about few volume classes, so that volumes find them.
var classDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"VolumeClassPut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VolumeClassPut.Encode(&storage.ClassPutRequest{
			Class: &storage.VolumeClass{
				Name:        d.of("fast", "slow", ""),
				PluginID:    d.of(pools["Plugin"]...),
				Default:     d.flip(),
				Parameters:  map[string]string{"type": d.of("image", "directory")},
				Reclaim:     d.of("", storage.ReclaimRetain, storage.ReclaimDelete, "other"),
				DeleteAfter: new(time.Duration(d.upTo(9))),
				Trim:        new(time.Duration(d.upTo(700)) * time.Hour),
				Grow:        &structs.CSIGrow{At: 80, By: 20, Max: int64(d.upTo(4)) << 30},
			},
			WriteOptions: d.now(),
		})
	},
	"VolumeReclaim": func(d dice, tx *state.ReadTx) ([]byte, error) {
		begin := &storage.VolumeReclaimRequest{ID: d.vol(), WriteOptions: d.now()}
		if v := csi.Volume(tx, structs.DefaultNamespace, begin.ID); v != nil {
			begin.RowIndex = v.CreateIndex
			begin.DeleteAt = v.DeleteAt
		}
		return VolumeReclaim.Encode(begin)
	},
	"VolumeGrow": func(d dice, tx *state.ReadTx) ([]byte, error) {
		grow := &storage.VolumeGrowRequest{
			ID:           d.vol(),
			To:           int64(d.upTo(3)) << 30,
			Fault:        d.of("", "full"),
			WriteOptions: d.now(),
		}
		if v := csi.Volume(tx, structs.DefaultNamespace, grow.ID); v != nil {
			grow.RowIndex = v.ModifyIndex
		}
		return VolumeGrow.Encode(grow)
	},
	"VolumeClassDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return VolumeClassDelete.Encode(&storage.ClassDeleteRequest{
			Name:         d.of("fast", "slow"),
			WriteOptions: d.now(),
		})
	},
}

func init() { maps.Copy(draws, classDraws) }
