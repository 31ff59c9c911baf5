package loadshed

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
)

func newTestQueue(places, waiting int) *Queue {
	return NewQueue(QueueConfig{
		Limit:    "tests",
		Text:     "nothing was done",
		Places:   places,
		Waiting:  waiting,
		Patience: time.Second,
		Soonest:  50 * time.Millisecond,
		Latest:   5 * time.Second,
	})
}

// refusal checks that a request was rejected, and returns its retry time.
func refusal(t *testing.T, err error) time.Duration {
	t.Helper()
	after := structs.RetryAfter(err)
	if !structs.IsKind(err, structs.KindUnavailable) || after < 50*time.Millisecond || after > 5*time.Second {
		t.Errorf("got %v, again after %s; want a refusal", err, after)
	}
	return after
}

func TestQueue_BoundsPlacesAndWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(2, 3)
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				leave, err := q.Enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(100 * time.Millisecond)
				leave()
			})
		}
		synctest.Wait()
		refusal(t, q.Full(0))
		_, err := q.Enter(t.Context())
		refusal(t, err)
		time.Sleep(150 * time.Millisecond) // two have ended, one waits
		if err := q.Full(0); err != nil {
			t.Errorf("with room to wait: %v", err)
		}
		all.Wait()
		if len(q.places) != 0 || len(q.waiting) != 0 {
			t.Errorf("%d places are taken, %d wait", len(q.places), len(q.waiting))
		}
	})
}

func TestQueue_RefusesAfterItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(1, 3)
		leave, err := q.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = q.Enter(t.Context())
		refusal(t, err)
		if took := time.Since(start); took != q.config.Patience {
			t.Errorf("after %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = q.Enter(ctx)
		if !structs.IsKind(err, structs.KindUnavailable) || !strings.HasPrefix(err.Error(), "nothing was done: ") {
			t.Errorf("a request whose context ends: %v", err)
		}
		leave()
		if leave, err = q.Enter(t.Context()); err != nil {
			t.Fatalf("with a place again: %v", err)
		}
		leave()
	})
}

// TestQueue_SpreadsTheTimesOfRefusedRequests over the time in which the queue serves as many.
func TestQueue_SpreadsTheTimesOfRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(1, 0)
		for range 50 { // each takes 10 ms
			leave, err := q.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			leave()
		}
		leave, err := q.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		last := time.Duration(0)
		for n := range 100 {
			after := refusal(t, q.Full(0))
			if after <= last {
				t.Fatalf("request %d comes back after %s, the one before after %s", n, after, last)
			}
			last = after
		}
		if last < 900*time.Millisecond || last > 1200*time.Millisecond {
			t.Errorf("100 requests come back within %s", last)
		}
		for range 1000 {
			last = refusal(t, q.Full(0))
		}
		if last != q.config.Latest {
			t.Errorf("the last one comes back after %s", last)
		}
	})
}

// TestQueue_CountsRefusedRequestsTogether, when a request ends: to count one costs more than to refuse it.
func TestQueue_CountsRefusedRequestsTogether(t *testing.T) {
	q := newTestQueue(1, 0)
	leave, err := q.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	refusal(t, q.Full(0))
	_, err = q.Enter(t.Context())
	refusal(t, err)
	if n := q.full.Load(); n != 2 {
		t.Errorf("%d refused requests wait to be counted, want 2", n)
	}
	leave()
	if n := q.full.Load(); n != 0 {
		t.Errorf("%d refused requests are not counted", n)
	}
}
