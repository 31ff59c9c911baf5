package validate_test

import (
	"strings"
	"testing"

	"berth/structs/storage"
	"berth/structs/validate"
)

func TestSnapshotSchedule_NamesTheFault(t *testing.T) {
	for fault, change := range map[string]func(*storage.SnapshotSchedule){
		"":                      func(*storage.SnapshotSchedule) {},
		"name is required":      func(s *storage.SnapshotSchedule) { s.Name = "" },
		"at most 100 letters":   func(s *storage.SnapshotSchedule) { s.Name = strings.Repeat("n", 101) },
		"volume is required":    func(s *storage.SnapshotSchedule) { s.VolumeID = "" },
		"cron is required":      func(s *storage.SnapshotSchedule) { s.Crons = nil },
		"is no cron expression": func(s *storage.SnapshotSchedule) { s.Crons = []string{"61 * * * *"} },
		"has a field of seconds": func(s *storage.SnapshotSchedule) {
			s.Crons = []string{"*/5 * * * * * *"}
		},
		"17 cron; at most 16":           func(s *storage.SnapshotSchedule) { s.Crons = make([]string, 17) },
		"is no IANA time zone":          func(s *storage.SnapshotSchedule) { s.TimeZone = "Moon/Base" },
		"keep or keep_for is required":  func(s *storage.SnapshotSchedule) { s.Keep = 0 },
		"keep 1001 must be at most":     func(s *storage.SnapshotSchedule) { s.Keep = 1001 },
		"keep_for must not be negative": func(s *storage.SnapshotSchedule) { s.KeepFor = -1 },
		"parameters has an empty key": func(s *storage.SnapshotSchedule) {
			s.Parameters = map[string]string{"": ""}
		},
		"reads variables below": func(s *storage.SnapshotSchedule) { s.SecretsFrom = "nomad/volumes/x/y" },
	} {
		s := &storage.SnapshotSchedule{Name: "n", VolumeID: "v", Crons: []string{"@hourly"}, Keep: 1}
		change(s)
		err := validate.SnapshotSchedule(s)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}
