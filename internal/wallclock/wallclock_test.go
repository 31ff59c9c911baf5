package wallclock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAhead_AllowsForTheSkewOfClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for recorded, want := range map[time.Time]bool{
			now.Add(-time.Hour):             false,
			now.Add(skew):                   false,
			now.Add(skew + time.Nanosecond): true,
			now.Add(30 * time.Hour):         true,
		} {
			if got := Ahead(recorded.UnixNano()); got != want {
				t.Errorf("%s from now: %t, want %t", recorded.Sub(now), got, want)
			}
		}
	})
}

func TestSeen_RemembersTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Seen
		now := time.Now()
		past := now.Add(-time.Hour)
		if got := s.Time(past.UnixNano(), now); !got.Equal(past) || len(s.first) > 0 {
			t.Errorf("a time of the past: got %s, want %s", got, past)
		}

		ahead := now.Add(30 * time.Hour).UnixNano()
		for range 2 {
			if got := s.Time(ahead, time.Now()); !got.Equal(now) {
				t.Errorf("%s later: got %s, want %s", time.Since(now), got, now)
			}
			time.Sleep(time.Hour)
		}

		for n := range int64(mostSeen) {
			s.Time(ahead+1+n, time.Now())
		}
		if len(s.first) > mostSeen {
			t.Errorf("it remembers %d", len(s.first))
		}
	})
}
