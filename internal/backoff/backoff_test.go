package backoff

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

func TestBackoff_DoublesUpToItsMaximum(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second}
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		if got := b.Next(); got != want*time.Second {
			t.Errorf("pause %d: %s, want %ds", i, got, want)
		}
	}
	b.Reset()
	if got := b.Next(); got != time.Second {
		t.Errorf("after Reset: %s", got)
	}
}

func TestDelay_DependsOnTheFailuresAlone(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second}
	for failures, want := range []time.Duration{0, 1, 2, 4, 5, 5} {
		if got := b.Delay(failures); got != want*time.Second {
			t.Errorf("after %d: %s, want %s", failures, got, want*time.Second)
		}
	}
	if got := b.Delay(1 << 20); got != b.Max {
		t.Errorf("after very many: %s", got)
	}
	if got := (Backoff{Min: time.Hour, Max: time.Second}).Delay(1); got != time.Second {
		t.Errorf("a minimum above the maximum: %s", got)
	}
}

// warnings counts what it is told.
type warnings int

func (w *warnings) Warn(string, ...any) { *w++ }

func TestRetry_TriesUntilSuccessOrTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Min: time.Second, Max: time.Minute}
		var told warnings
		tries := 0
		begin := time.Now()
		ok := b.Retry(t.Context(), &told, "failed", func(context.Context) error {
			tries++
			if tries < 3 {
				return fmt.Errorf("try %d", tries)
			}
			return nil
		})
		if !ok || told != 2 || time.Since(begin) != 3*time.Second {
			t.Errorf("%v after %s and %d warnings", ok, time.Since(begin), told)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if b.Retry(ctx, &told, "failed", func(context.Context) error { return fmt.Errorf("no") }) || told != 5 {
			t.Errorf("did not end with its context, %d warnings", told)
		}
	})
}

func TestSleep_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		if !Sleep(ctx, 10*time.Second) || time.Since(begin) != 10*time.Second {
			t.Errorf("slept %s", time.Since(begin))
		}
		b := Backoff{Min: time.Hour, Max: time.Hour}
		if b.Wait(ctx) || time.Since(begin) != time.Minute {
			t.Errorf("ended after %s", time.Since(begin))
		}
		if Sleep(ctx, 0) {
			t.Error("no pause is reported as slept although the context has ended")
		}
	})
}

func TestAfter_ObeysTheServersRetryTime(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		b := Backoff{Min: time.Second, Max: 5 * time.Second}
		if got := b.After(structs.Errorf(structs.KindUnavailable, "away")); got != time.Second {
			t.Errorf("nothing was said: %s", got)
		}
		got := b.After(fmt.Errorf("claiming: %w", structs.Busy(10*time.Second, "busy")))
		if got < 10*time.Second || got > 15*time.Second {
			t.Errorf("told 10s: %s", got)
		}
		seen[got] = true
		if got := b.After(structs.Busy(time.Millisecond, "busy")); got != 4*time.Second {
			t.Errorf("told less than the pause: %s", got)
		}
	}
	if len(seen) < 2 {
		t.Error("everybody would come again at once")
	}
}
