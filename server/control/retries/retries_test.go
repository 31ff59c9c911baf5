package retries

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

var pauses = backoff.Backoff{Min: time.Second, Max: time.Minute}

func TestDue_LooksAtTheKindOfError(t *testing.T) {
	at := time.Unix(1000, 0)
	for kind, want := range map[structs.Kind]time.Duration{
		structs.KindUnavailable: pauses.Min, structs.KindTimeout: pauses.Min, structs.KindInternal: pauses.Min,
		structs.KindInvalid: Final, structs.KindPrecondition: Final,
	} {
		e := &structs.OperationError{Kind: kind, Attempts: 1, Time: at.UnixNano()}
		if got := Due(pauses, e); !got.Equal(at.Add(want)) {
			t.Errorf("%s: due %s after, want %s", kind, got.Sub(at), want)
		}
	}
	if !Due(pauses, nil).IsZero() {
		t.Error("a call that has not failed is delayed")
	}
}

func TestDue_OfARecordAheadOfTheClockIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, c := range map[string]struct {
			recorded time.Time
			want     time.Time
		}{
			"now":         {now, now.Add(10 * time.Second)},
			"earlier":     {now.Add(-time.Hour), now.Add(10*time.Second - time.Hour)},
			"other clock": {now.Add(skew), now.Add(10*time.Second + skew)},
			"ahead":       {now.Add(skew + time.Nanosecond), time.Time{}},
			"a day ahead": {now.Add(30 * time.Hour), time.Time{}},
		} {
			e := &structs.OperationError{
				Kind:      structs.KindUnavailable,
				Attempts:  1,
				Time:      c.recorded.UnixNano(),
				RetryTime: c.recorded.Add(10 * time.Second).UnixNano(),
			}
			if got := Due(pauses, e); !got.Equal(c.want) {
				t.Errorf("%s: due at %s, want %s", name, got, c.want)
			}

			e.RetryTime = 0
			if got := Due(pauses, e); got.IsZero() != c.want.IsZero() {
				t.Errorf("%s, without a time of the next attempt: due at %s", name, got)
			}
		}
	})
}

func TestSeen_RemembersTheFirstTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Seen
		first := time.Now()
		if got := s.First(1); !got.Equal(first) {
			t.Errorf("got %s, want %s", got, first)
		}
		time.Sleep(time.Hour)
		if got := s.First(1); !got.Equal(first) {
			t.Errorf("an hour later: got %s, want %s", got, first)
		}
		for recorded := range int64(mostSeen) {
			s.First(2 + recorded)
		}
		if len(s.first) > mostSeen {
			t.Errorf("it remembers %d", len(s.first))
		}
	})
}
