package jobspec

import (
	"time"

	"berth/structs/storage"
)

// snapshotScheduleFile is the body of the file of a schedule of snapshots.
type snapshotScheduleFile struct {
	Name        string            `hcl:"name,required"`
	Volume      string            `hcl:"volume,required"`
	Cron        []string          `hcl:"cron,required"`
	TimeZone    string            `hcl:"time_zone"`
	Keep        int               `hcl:"keep"`
	KeepFor     time.Duration     `hcl:"keep_for"`
	Paused      bool              `hcl:"paused"`
	Parameters  map[string]string `hcl:"parameters"`
	SecretsFrom string            `hcl:"secrets_from"`
}

// ReadSnapshotSchedule reads the file of a schedule of snapshots in HCL. Its results are like ReadVolume's.
func ReadSnapshotSchedule(filename string, src []byte) (*File[*storage.SnapshotSchedule], error) {
	return readFile(filename, src, "schedule", (*snapshotScheduleFile).row)
}

// row converts the file. A schedule has no block around it.
func (f *snapshotScheduleFile) row() *storage.SnapshotSchedule {
	s := &storage.SnapshotSchedule{
		Name:        f.Name,
		VolumeID:    f.Volume,
		Crons:       f.Cron,
		TimeZone:    f.TimeZone,
		Keep:        f.Keep,
		KeepFor:     f.KeepFor,
		Paused:      f.Paused,
		Parameters:  f.Parameters,
		SecretsFrom: f.SecretsFrom,
	}
	s.Canonicalize()
	return s
}
