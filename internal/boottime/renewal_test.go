package boottime

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRenewAfter_LeavesTimeBeforeTheEnd(t *testing.T) {
	for _, c := range []struct {
		replaced bool
		latest   time.Duration
	}{
		{false, 30 * time.Minute},
		{true, 40 * time.Minute},
	} {
		seen := map[time.Duration]bool{}
		for range 1000 {
			got := RenewAfter(time.Hour, c.replaced)
			seen[got] = true
			if got > c.latest || got < c.latest*9/10 {
				t.Fatalf("replaced %t: got %s, want at most a tenth less than %s", c.replaced, got, c.latest)
			}
		}
		if len(seen) < 100 {
			t.Errorf("replaced %t: got %d times of 1000, want them apart", c.replaced, len(seen))
		}
	}
	if got := RenewAfter(0, true); got != 0 {
		t.Errorf("got %s of no life", got)
	}
}

// TestClock_SleepUntil_CountsASuspend: timers stop meanwhile, and the clock goes on.
func TestClock_SleepUntil_CountsASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var suspended atomic.Int64
		clock := Clock(func() Instant { return Instant(time.Since(begin)).Add(time.Duration(suspended.Load())) })
		time.AfterFunc(90*time.Second, func() { suspended.Store(int64(time.Hour)) })
		if !clock.SleepUntil(t.Context(), Instant(time.Hour)) {
			t.Error("it has not waited")
		}
		if took := time.Since(begin); took != 2*time.Minute {
			t.Errorf("it took %s of timers, want two minutes", took)
		}

		at := clock().Add(time.Second)
		if !clock.SleepUntil(t.Context(), at) || clock() != at {
			t.Errorf("it is %d, want %d", clock(), at)
		}

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if clock.SleepUntil(ctx, clock().Add(time.Hour)) {
			t.Error("it has waited although ctx has ended")
		}
	})
}
