package keylock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mustLock locks keys. Each test releases them.
func mustLock(t *testing.T, m *Map, holder string, keys ...string) (unlock func()) {
	t.Helper()
	unlock, err := m.Lock(t.Context(), holder, keys...)
	if err != nil {
		t.Error(err)
		return func() {}
	}
	return unlock
}

func TestMap_OneCallerHoldsAKey(t *testing.T) {
	var m Map
	var inside atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			defer mustLock(t, &m, "test", "k")()
			if now := inside.Add(1); now != 1 {
				t.Errorf("%d callers hold the key at once", now)
			}
			inside.Add(-1)
		})
	}
	all.Wait()
	if len(m.entries) != 0 {
		t.Errorf("%d keys take memory at the end, want none", len(m.entries))
	}
}

func TestMap_KeysDoNotWaitForEachOther(t *testing.T) {
	var m Map
	defer mustLock(t, &m, "test", "v")()
	defer mustLock(t, &m, "test", "w")()
}

func TestMap_KeysInOppositeOrderDoNotDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Map
		var all sync.WaitGroup
		for n := range 8 {
			keys := []string{"a", "b", "c", "a"}
			if n%2 == 0 {
				keys = []string{"c", "b", "a"}
			}
			all.Go(func() {
				unlock := mustLock(t, &m, "test", keys...)
				time.Sleep(time.Second)
				unlock()
			})
		}
		begin := time.Now()
		all.Wait()
		if took := time.Since(begin); took != 8*time.Second {
			t.Errorf("8 holders of a second each took %s, want 8s", took)
		}
	})
}

func TestMap_WaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Map
		begin := time.Now()
		unlock := mustLock(t, &m, "first", "v")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Lock(ctx, "second", "u", "v")
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the error of the context", err)
		}
		if e.Key != "v" || e.Holder != "first" || !e.Since.Equal(begin) {
			t.Errorf("got %+v, want key v of holder first", e)
		}
		if len(m.entries) != 1 {
			t.Errorf("%d keys are in use, want one", len(m.entries))
		}
		unlock()
		unlock, err = m.Lock(ctx, "third", "v")
		if err != nil {
			t.Fatalf("locking a free key after the end of the context: %v", err)
		}
		unlock()
		if len(m.entries) != 0 {
			t.Errorf("%d keys take memory at the end, want none", len(m.entries))
		}
	})
}

func TestMap_BoundsTheUsersOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Map{MaxUsers: 2}
		unlock := mustLock(t, &m, "first", "v")
		var waits sync.WaitGroup
		waits.Go(func() { mustLock(t, &m, "second", "v")() })
		synctest.Wait()
		if _, err := m.Lock(t.Context(), "third", "v"); !errors.Is(err, ErrFull) {
			t.Errorf("the third caller got %v, want ErrFull", err)
		}
		mustLock(t, &m, "other", "w")()
		unlock()
		waits.Wait()
		mustLock(t, &m, "third", "v")()
	})
}
