package query

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowLimiter_BoundsSlowQueries: so many run at once, with an idle time after each. A quick query does
// not wait.
func TestSlowLimiter_BoundsSlowQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSlowLimiter()
		began, looks := time.Now(), 4*cap(l)
		var wg sync.WaitGroup
		for range looks {
			wg.Go(func() {
				done, err := l.acquire(t.Context(), time.Second)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				done(time.Second)
			})
		}
		synctest.Wait()
		done, err := l.acquire(t.Context(), slowQuery-1)
		if err != nil || time.Since(began) != 0 {
			t.Errorf("a short look waited %v, %v", time.Since(began), err)
		}
		done(slowQuery)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.acquire(short, time.Second); err == nil {
			t.Error("it was a turn of somebody who waits no longer")
		}
		wg.Wait()
		if took, want := time.Since(began), 3*(1+idleTimes)*time.Second+time.Second; took != want {
			t.Errorf("%d looks were over after %v, want %v", looks, took, want)
		}
		time.Sleep(idleTimes*time.Second + 1)
		synctest.Wait()
		if len(l) != cap(l) {
			t.Errorf("%d of %d tokens are left", len(l), cap(l))
		}
	})
}
