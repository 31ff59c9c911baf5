package snapschedule_test

import (
	"strings"
	"testing"
	"time"

	"berth/structs/snapschedule"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestLatest_LeavesOutTheTimesThatWereMissed(t *testing.T) {
	for name, c := range map[string]struct {
		crons     []string
		zone      string
		last, now string
		want      string
	}{
		"one time": {
			[]string{"0 3 * * *"}, "", "2026-01-01T00:00:00Z", "2026-01-01T03:00:00Z", "2026-01-01T03:00:00Z",
		},
		"each minute of years": {
			[]string{"* * * * *"}, "", "2020-01-01T00:00:00Z", "2026-01-01T03:07:59Z", "2026-01-01T03:07:00Z",
		},
		"many times long ago": {
			[]string{"* 5 1 1 *"}, "", "2020-01-01T00:00:00Z", "2026-12-01T00:00:00Z", "2026-01-01T05:59:00Z",
		},
		"of two expressions": {
			[]string{"0 3 * * *", "30 4 * * *"}, "", "2026-01-01T00:00:00Z", "2026-01-03T04:00:00Z",
			"2026-01-03T03:00:00Z",
		},
		"a zone in summer": {
			[]string{"0 3 * * *"}, "Europe/Berlin", "2026-07-01T00:00:00Z", "2026-07-09T00:30:00Z",
			"2026-07-08T01:00:00Z",
		},
		"an hour that the zone skips": {
			[]string{"30 2 * * *"}, "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-29T12:00:00Z",
			"2026-03-28T01:30:00Z",
		},
	} {
		s := &snapschedule.SnapshotSchedule{Crons: c.crons, TimeZone: c.zone}
		next, err := s.Next(at(t, c.last))
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Latest(next, at(t, c.now))
		if err != nil || !got.Equal(at(t, c.want)) {
			t.Errorf("%s: got %s and %v, want %s", name, got.UTC().Format(time.RFC3339), err, c.want)
		}
	}
}

func TestSnapshotAt_IsTheSameInEachZone(t *testing.T) {
	s := &snapschedule.SnapshotSchedule{Name: "nightly"}
	when := at(t, "2026-01-02T03:04:05+02:00")
	const want = "nightly-20260102t010405z"
	if got := s.SnapshotAt(when); got != want || s.SnapshotAt(when.UTC()) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestValidate_NamesTheFault(t *testing.T) {
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
		err := s.Validate()
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("got %v, want %q", err, fault)
		}
	}
}

func TestCanonicalize_KeepsTheNewestSnapshotWithoutANumber(t *testing.T) {
	s := &snapschedule.SnapshotSchedule{KeepFor: time.Hour}
	s.Canonicalize()
	if s.Keep != 1 {
		t.Errorf("keep is %d", s.Keep)
	}
}
