package services

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

// followed is a check that somebody else runs.
type followed struct {
	mu       sync.Mutex
	status   string
	away     bool
	restarts int
	changes  int
}

func (f *followed) read() (status, output string, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, "said", !f.away
}

// pass lets a time pass, and then changes what the other says.
func (f *followed) pass(d time.Duration, edit func()) {
	time.Sleep(d)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
}

func (f *followed) count(n *int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
}

func (f *followed) start(ctx context.Context, edit func(*structs.ServiceCheck)) *healthCheck {
	c := &structs.ServiceCheck{Name: "far", Interval: 10 * time.Second}
	if edit != nil {
		edit(c)
	}
	begun := time.Now()
	return followCheck(ctx, checkTarget{Check: c}, checkConfig{
		Changed: func() { f.count(&f.changes) },
		Restart: func(string) { f.count(&f.restarts) },
		Begun:   func() time.Time { return begun },
	}, f.read)
}

func TestFollow_HasTheStatusOfTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{away: true}
		k := f.start(t.Context(), func(c *structs.ServiceCheck) { c.SuccessBeforePassing = 3 })
		defer k.Wait()
		defer k.Cancel()
		f.pass(time.Minute, func() {
			if k.Status().Status != structs.CheckPending {
				t.Errorf("without a result: %+v", k.Status())
			}
			f.away = false
			f.status = structs.CheckPassing // the other has counted the successes
		})
		var since time.Time
		f.pass(followInterval, func() {
			since = k.Status().Since
			if k.Status().Status != structs.CheckPassing || f.changes != 1 {
				t.Errorf("after one result: %+v", k.Status())
			}
			f.away = true
		})
		f.pass(time.Hour, func() {
			if k.Status().Status != structs.CheckPassing || !k.Status().Since.Equal(since) || f.changes != 1 {
				t.Errorf("while the other is away: %+v", k.Status())
			}
		})
	})
}

func TestFollow_RestartsByTheIntervalAndNotWithoutNewResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &followed{status: structs.CheckFailing}
		k := f.start(t.Context(), func(c *structs.ServiceCheck) {
			c.CheckRestart = &structs.CheckRestart{Limit: 3}
		})
		defer k.Wait()
		defer k.Cancel()
		check := func(when string, want int) {
			t.Helper()
			if f.restarts != want {
				t.Errorf("%s: %d restarts, want %d", when, f.restarts, want)
			}
		}
		f.pass(15*time.Second, func() {
			check("after two intervals", 0)
			f.away = true
		})
		f.pass(time.Hour, func() {
			check("while the other is away", 0)
			f.away = false
		})
		f.pass(2*time.Second, func() { check("after the third result", 1) })
	})
}
