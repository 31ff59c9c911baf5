package storage_test

import (
	"testing"
	"time"

	"berth/structs/storage"
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
		s := &storage.SnapshotSchedule{Crons: c.crons, TimeZone: c.zone}
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
	s := &storage.SnapshotSchedule{Name: "nightly"}
	when := at(t, "2026-01-02T03:04:05+02:00")
	const want = "nightly-20260102t010405z"
	if got := s.SnapshotAt(when); got != want || s.SnapshotAt(when.UTC()) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCanonicalize_KeepsTheNewestSnapshotWithoutANumber(t *testing.T) {
	s := &storage.SnapshotSchedule{KeepFor: time.Hour}
	s.Canonicalize()
	if s.Keep != 1 {
		t.Errorf("keep is %d", s.Keep)
	}
}
