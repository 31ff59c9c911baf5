package control

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
		structs.KindInvalid: finalDelay, structs.KindPrecondition: finalDelay,
	} {
		e := &structs.OperationError{Kind: kind, Attempts: 1, Time: at.UnixNano()}
		if got := retryDue(nil, pauses, e, "CreateVolume"); !got.Equal(at.Add(want)) {
			t.Errorf("%s: due %s after, want %s", kind, got.Sub(at), want)
		}
	}
	if !retryDue(nil, pauses, nil, "CreateVolume").IsZero() {
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
			"other clock": {now.Add(time.Minute), now.Add(10*time.Second + time.Minute)},
			"ahead":       {now.Add(time.Minute + time.Nanosecond), time.Time{}},
			"a day ahead": {now.Add(30 * time.Hour), time.Time{}},
		} {
			e := &structs.OperationError{
				Kind:      structs.KindUnavailable,
				Attempts:  1,
				Time:      c.recorded.UnixNano(),
				RetryTime: c.recorded.Add(10 * time.Second).UnixNano(),
			}
			if got := retryDue(nil, pauses, e, "CreateVolume"); !got.Equal(c.want) {
				t.Errorf("%s: due at %s, want %s", name, got, c.want)
			}

			e.RetryTime = 0
			if got := retryDue(nil, pauses, e, "CreateVolume"); got.IsZero() != c.want.IsZero() {
				t.Errorf("%s, without a time of the next attempt: due at %s", name, got)
			}
		}
	})
}
