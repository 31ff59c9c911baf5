package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
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

func TestSleepEndsWithItsContext(t *testing.T) {
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
