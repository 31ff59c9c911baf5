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
			t.Errorf("pause %d: got %s, want %ds", i, got, want)
		}
	}
	b.Reset()
	if got := b.Next(); got != time.Second {
		t.Errorf("after Reset: got %s, want 1s", got)
	}
}

func TestDelay_DependsOnTheFailuresAlone(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second}
	for failures, want := range []time.Duration{0, 1, 2, 4, 5, 5} {
		if got := b.Delay(failures); got != want*time.Second {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want*time.Second)
		}
	}
	if got := b.Delay(1 << 20); got != b.Max {
		t.Errorf("after 2^20 failures: got %s, want %s", got, b.Max)
	}
	if got := (Backoff{Min: time.Hour, Max: time.Second}).Delay(1); got != time.Second {
		t.Errorf("with a minimum above the maximum: got %s, want 1s", got)
	}
}

// warnings counts its calls.
type warnings int

func (w *warnings) Warn(string, ...any) { *w++ }

func TestRetry_TriesUntilSuccessOrTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Min: time.Second, Max: time.Minute}
		var logged warnings
		tries := 0
		begin := time.Now()
		ok := b.Retry(t.Context(), &logged, "failed", func(context.Context) error {
			tries++
			if tries < 3 {
				return fmt.Errorf("try %d", tries)
			}
			return nil
		})
		if !ok || logged != 2 || time.Since(begin) != 3*time.Second {
			t.Errorf("got %v after %s and %d warnings, want true after 3s and 2", ok, time.Since(begin), logged)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		ok = b.Retry(ctx, &logged, "failed", func(context.Context) error { return fmt.Errorf("no") })
		if ok || logged != 5 {
			t.Errorf("after the end of the context: got %v and %d warnings, want false and 5", ok, logged)
		}
	})
}

func TestSleep_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		if !Sleep(ctx, 10*time.Second) || time.Since(begin) != 10*time.Second {
			t.Errorf("slept %s, want 10s", time.Since(begin))
		}
		b := Backoff{Min: time.Hour, Max: time.Hour}
		if b.Wait(ctx) || time.Since(begin) != time.Minute {
			t.Errorf("the pause ended after %s, want a minute", time.Since(begin))
		}
		if Sleep(ctx, 0) {
			t.Error("Sleep reports true for no pause after the end of the context")
		}
	})
}

func TestSleep_TellsTheEndOfItsContextAlsoAfterThePause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		if Sleep(ctx, 1) {
			t.Fatal("Sleep reports true after the end of the context")
		}
	}
}

func TestAfter_ObeysTheServersRetryTime(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		b := Backoff{Min: time.Second, Max: 5 * time.Second}
		if got := b.After(structs.Errorf(structs.KindUnavailable, "away")); got != time.Second {
			t.Errorf("without a retry time: got %s, want 1s", got)
		}
		got := b.After(fmt.Errorf("claiming: %w", structs.Busy(10*time.Second, "busy")))
		if got < 10*time.Second || got > 15*time.Second {
			t.Errorf("with a retry time of 10s: got %s, want 10s to 15s", got)
		}
		seen[got] = true
		if got := b.After(structs.Busy(time.Millisecond, "busy")); got != 4*time.Second {
			t.Errorf("with a retry time below the pause: got %s, want 4s", got)
		}
	}
	if len(seen) < 2 {
		t.Error("all callers get the same pause")
	}
}
