package structs

import (
	"cmp"
	"testing"
	"time"
)

func schedule(zone string, specs ...string) *PeriodicConfig {
	return &PeriodicConfig{
		Enabled:  true,
		Specs:    specs,
		SpecType: PeriodicCron,
		TimeZone: cmp.Or(zone, "UTC"),
	}
}

func TestPeriodicConfig_NextTime(t *testing.T) {
	const form = "2006-01-02 15:04:05"
	for name, c := range map[string]struct {
		p           *PeriodicConfig
		after, want string // of UTC
	}{
		"five fields": {
			schedule("", "*/15 3 * * *"),
			"2026-01-01 03:15:00", "2026-01-01 03:30:00",
		},
		"seven fields": {
			schedule("", "*/5 * * * * * *"),
			"2026-01-01 03:15:01", "2026-01-01 03:15:05",
		},
		"a name": {
			schedule("", "@daily"),
			"2026-01-01 00:00:00", "2026-01-02 00:00:00",
		},
		"the first of several": {
			schedule("", "0 5 * * *", "0 4 * * *"),
			"2026-01-01 00:00:00", "2026-01-01 04:00:00",
		},
		"a time zone": {
			schedule("Europe/Berlin", "0 5 * * *"),
			"2026-01-01 00:00:00", "2026-01-01 04:00:00",
		},
		"summer time": {
			schedule("Europe/Berlin", "0 5 * * *"),
			"2026-07-01 00:00:00", "2026-07-01 03:00:00",
		},
		"within a skipped hour": {
			schedule("Europe/Berlin", "30 2 * * *"),
			"2026-03-28 12:00:00", "2026-03-30 00:30:00",
		},
		"each hour over a gap": {
			schedule("Europe/Berlin", "0 * * * *"),
			"2026-03-29 00:30:00", "2026-03-29 01:00:00",
		},
		"within a repeated one": {
			schedule("Europe/Berlin", "30 2 * * *"),
			"2026-10-24 12:00:00", "2026-10-25 00:30:00",
		},
		"and again": {
			schedule("Europe/Berlin", "30 2 * * *"),
			"2026-10-25 00:30:00", "2026-10-25 01:30:00",
		},
		"each half of both": {
			schedule("Europe/Berlin", "*/30 * * * *"),
			"2026-10-25 00:30:00", "2026-10-25 01:00:00",
		},
		"before a skipped midnight": {
			schedule("Africa/Cairo", "0 23 30 * *"),
			"2027-04-29 21:00:00", "2027-04-30 20:00:00",
		},
		"the day of a skipped midnight": {
			schedule("Africa/Cairo", "0 * 30 4 *"),
			"2027-04-29 00:00:00", "2027-04-29 22:00:00",
		},
		"over a skipped midnight of the first of a month": {
			schedule("America/Havana", "0 5 * 4 *"),
			"2012-03-31 12:00:00", "2012-04-01 09:00:00",
		},
		"never": {
			schedule("", "0 0 30 2 *"),
			"2026-01-01 00:00:00", "",
		},
		"no more": {
			schedule("", "0 0 1 1 * 2020"),
			"2026-01-01 00:00:00", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := time.Parse(form, c.after)
			if err != nil {
				t.Fatal(err)
			}
			next, err := c.p.Next(after)
			got := ""
			if !next.IsZero() {
				got = next.UTC().Format(form)
			}
			if err != nil || got != c.want {
				t.Errorf("after %s comes %q, want %q (%v)", c.after, got, c.want, err)
			}
		})
	}
}

// The times of a schedule are those minutes of the zone's clock that the expression names, in order.
func TestPeriodicConfig_NextTimeOverChanges(t *testing.T) {
	expressions := map[string]func(at time.Time) bool{
		"*/20 22,23,0-3 * * *": func(at time.Time) bool {
			return at.Minute()%20 == 0 && (at.Hour() >= 22 || at.Hour() <= 3)
		},
		"15,45 */2 1-10 * *": func(at time.Time) bool {
			return at.Minute()%30 == 15 && at.Hour()%2 == 0 && at.Day() <= 10
		},
		"0 23 * * 0": func(at time.Time) bool {
			return at.Minute() == 0 && at.Hour() == 23 && at.Weekday() == time.Sunday
		},
		"30 0 1 4 *": func(at time.Time) bool {
			return at.Minute() == 30 && at.Hour() == 0 && at.Day() == 1 && at.Month() == time.April
		},
	}
	starts := map[string]time.Time{
		"Africa/Cairo":        time.Date(2027, 4, 26, 0, 0, 0, 0, time.UTC),
		"America/Havana":      time.Date(2012, 3, 29, 0, 0, 0, 0, time.UTC),
		"America/Sao_Paulo":   time.Date(2018, 11, 1, 0, 0, 0, 0, time.UTC),
		"Asia/Beirut":         time.Date(2026, 3, 26, 0, 0, 0, 0, time.UTC),
		"Australia/Lord_Howe": time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC),
		"Europe/Berlin":       time.Date(2026, 10, 22, 0, 0, 0, 0, time.UTC),
		"Pacific/Apia":        time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC),
	}
	for name, start := range starts {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for spec, matches := range expressions {
			p := schedule(name, spec)
			for at := start; at.Before(start.AddDate(0, 0, 6)); {
				want := at.Add(time.Minute)
				for !matches(want.In(zone)) {
					want = want.Add(time.Minute)
				}
				next, err := p.Next(at)
				if err != nil || !next.Equal(want) {
					t.Fatalf("%s %q: after %s comes %s, want %s (%v)", name, spec, at.In(zone), next, want.In(zone), err)
				}
				at = next
			}
		}
	}
}
