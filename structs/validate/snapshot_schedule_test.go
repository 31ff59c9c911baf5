package validate_test

import (
	"strings"
	"testing"

	"berth/structs/snapschedule"
	"berth/structs/validate"
)

func TestSnapshotSchedule_NamesTheFault(t *testing.T) {
	for fault, change := range map[string]func(*snapschedule.SnapshotSchedule){
		"":                              func(*snapschedule.SnapshotSchedule) {},
		"name is required":              func(s *snapschedule.SnapshotSchedule) { s.Name = "" },
		"at most 100 letters":           func(s *snapschedule.SnapshotSchedule) { s.Name = strings.Repeat("n", 101) },
		"volume is required":            func(s *snapschedule.SnapshotSchedule) { s.VolumeID = "" },
		"cron is required":              func(s *snapschedule.SnapshotSchedule) { s.Crons = nil },
		"is no cron expression":         func(s *snapschedule.SnapshotSchedule) { s.Crons = []string{"61 * * * *"} },
		"has a field of seconds":        func(s *snapschedule.SnapshotSchedule) { s.Crons = []string{"*/5 * * * * * *"} },
		"17 cron; at most 16":           func(s *snapschedule.SnapshotSchedule) { s.Crons = make([]string, 17) },
		"is no IANA time zone":          func(s *snapschedule.SnapshotSchedule) { s.TimeZone = "Moon/Base" },
		"keep or keep_for is required":  func(s *snapschedule.SnapshotSchedule) { s.Keep = 0 },
		"keep 1001 must be at most":     func(s *snapschedule.SnapshotSchedule) { s.Keep = 1001 },
		"keep_for must not be negative": func(s *snapschedule.SnapshotSchedule) { s.KeepFor = -1 },
		"parameters has an empty key":   func(s *snapschedule.SnapshotSchedule) { s.Parameters = map[string]string{"": ""} },
		"reads variables below":         func(s *snapschedule.SnapshotSchedule) { s.SecretsFrom = "nomad/volumes/x/y" },
	} {
		s := &snapschedule.SnapshotSchedule{Name: "n", VolumeID: "v", Crons: []string{"@hourly"}, Keep: 1}
		change(s)
		err := validate.SnapshotSchedule(s)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}
