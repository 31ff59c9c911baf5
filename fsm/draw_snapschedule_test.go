package fsm

import (
	"maps"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/storage"
)

// scheduleDraws draws entries about few schedules, so that each finds the rows of others.
var scheduleDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"SnapshotSchedulePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		s := &storage.SnapshotSchedule{
			Name:       d.of("d1", "d2", ""),
			VolumeID:   d.vol(),
			Crons:      []string{d.of("@daily", "0 3 * * *", "wrong")},
			Keep:       d.upTo(3),
			KeepFor:    time.Duration(d.upTo(2)) * time.Hour,
			Paused:     d.flip(),
			Parameters: map[string]string{"k": d.of("a", "b")},
		}
		return SnapshotSchedulePut.Encode(&storage.SchedulePutEntry{Schedule: s, WriteOptions: d.now()})
	},
	"SnapshotScheduleDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SnapshotScheduleDelete.Encode(&storage.ScheduleDeleteRequest{
			ScheduleName: d.of("d1", "d2"),
			WriteOptions: d.now(),
		})
	},
	"SnapshotSchedulePause": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return SnapshotSchedulePause.Encode(&storage.SchedulePauseRequest{
			ScheduleName: d.of("d1", "d2"),
			Paused:       d.flip(),
			WriteOptions: d.now(),
		})
	},
	"SnapshotScheduleRun": func(d dice, tx *state.ReadTx) ([]byte, error) {
		p := &storage.ScheduleRunEntry{
			Name:         d.of("d1", "d2"),
			LastError:    d.of("", "a reason"),
			WriteOptions: d.now(),
		}
		p.At = p.Now + int64(d.upTo(9))
		s := snapshot.Schedule(tx, structs.DefaultNamespace, p.Name)
		if s == nil {
			return SnapshotScheduleRun.Encode(p)
		}
		p.RowIndex = s.CreateIndex
		v := csi.Volume(tx, s.Namespace, s.VolumeID)
		if v != nil && p.LastError == "" {
			p.Snapshot = snapshot.Of(v, s.SnapshotAt(time.Unix(0, p.At)), "i")
			p.Snapshot.Schedule = s.Name
		}
		return SnapshotScheduleRun.Encode(p)
	},
}

func init() { maps.Copy(draws, scheduleDraws) }
