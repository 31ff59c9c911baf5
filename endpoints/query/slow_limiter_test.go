package query

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestLongLooksTakeTurns: so many look at once, and rest so long; who does not look long does not wait.
func TestLongLooksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		began, looks := time.Now(), 4*cap(p)
		var wg sync.WaitGroup
		for range looks {
			wg.Go(func() {
				done, err := p.turn(t.Context(), time.Second)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				done(time.Second)
			})
		}
		synctest.Wait()
		done, err := p.turn(t.Context(), longLook-1)
		if err != nil || time.Since(began) != 0 {
			t.Errorf("a short look waited %v, %v", time.Since(began), err)
		}
		done(longLook)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.turn(short, time.Second); err == nil {
			t.Error("it was a turn of somebody who waits no longer")
		}
		wg.Wait()
		if took, want := time.Since(began), 3*(1+rest)*time.Second+time.Second; took != want {
			t.Errorf("%d looks were over after %v, want %v", looks, took, want)
		}
		time.Sleep(rest*time.Second + 1)
		synctest.Wait()
		if len(p) != cap(p) {
			t.Errorf("%d of %d tokens are left", len(p), cap(p))
		}
	})
}
